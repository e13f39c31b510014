//! The thorough pass: what a person looking at one pair of tensors wants beyond the distances.
//!
//! It walks a block that the lean loop has just read, and only one that is not bit-equal.

use super::Tolerance;
use super::pair::PairBlock;
use super::ulp::UlpDistance;
use crate::lanes::{LANES, count, fold, larger, sum};
use crate::level::{Kernel, Level};

/// Buckets of the error's exponent: one per exponent an f64 can have.
const EXPONENTS: usize = 2048;

/// The exponent that bucket zero would have.
const EXPONENT_BIAS: i32 = 1023;

/// Neighbouring errors tend to have the same exponent; counting them in turn in several sets of buckets keeps
/// one increment from waiting for the one before.
const BUCKET_SETS: usize = 4;

/// Sums, maxima and counts over some run of pairs; merged in order.
#[derive(Clone, Debug)]
pub(super) struct RunningErrors {
    pub(super) sum_abs: f64,
    pub(super) sum_rel: f64,
    pub(super) over_tolerance: u64,
    /// Largest `|t - g| - rtol * |g|`.
    pub(super) max_excess: f64,
    /// Largest `(|t - g| - atol) / |g|`.
    pub(super) max_relative_excess: f64,
    pub(super) ulp: UlpDistance,
    buckets: Box<[[u64; EXPONENTS]; BUCKET_SETS]>,
    /// Differences of zero that were put into bucket zero.
    zeros: u64,
}

impl RunningErrors {
    pub(super) fn none() -> RunningErrors {
        RunningErrors {
            sum_abs: 0.0,
            sum_rel: 0.0,
            over_tolerance: 0,
            max_excess: 0.0,
            max_relative_excess: 0.0,
            ulp: UlpDistance::default(),
            buckets: Box::new([[0; EXPONENTS]; BUCKET_SETS]),
            zeros: 0,
        }
    }

    pub(super) fn merge(mut self, next: RunningErrors) -> RunningErrors {
        self.sum_abs += next.sum_abs;
        self.sum_rel += next.sum_rel;
        self.over_tolerance += next.over_tolerance;
        self.max_excess = larger(self.max_excess, next.max_excess);
        self.max_relative_excess = larger(self.max_relative_excess, next.max_relative_excess);
        self.ulp.add(next.ulp);
        self.zeros += next.zeros;
        for (bucket, more) in self.buckets.as_flattened_mut().iter_mut().zip(next.buckets.as_flattened()) {
            *bucket += more;
        }
        self
    }

    /// Adds a block of pairs, all finite or masked to zero.
    pub(super) fn add<P: PairBlock>(&mut self, level: Level, pairs: P, tolerance: Tolerance) {
        let block = level.run(Means { pairs, rtol: tolerance.rtol });
        self.sum_abs += block.sum_abs;
        self.sum_rel += block.sum_rel;
        self.max_excess = larger(self.max_excess, block.max_excess);
        // Nothing can fail where all differences are within atol alone.
        if block.max_abs > tolerance.atol {
            let failing = level.run(Failing { pairs, tolerance });
            self.over_tolerance += failing.over;
            self.max_relative_excess = larger(self.max_relative_excess, failing.max_relative_excess);
        }
        self.zeros += level.run(Buckets { pairs, buckets: &mut self.buckets });
    }

    /// The histogram, given how many pairs there are in all; those in no bucket have no error.
    pub(super) fn histogram(&self, pairs: u64) -> ExponentHistogram {
        let counts = (0..EXPONENTS).map(|exponent| self.buckets.iter().map(|set| set[exponent]).sum::<u64>());
        let mut rows: Vec<_> =
            counts.zip(-EXPONENT_BIAS..).map(|(count, exponent)| (exponent, count)).collect();
        rows[0].1 -= self.zeros;
        rows.retain(|(_, count)| *count > 0);
        ExponentHistogram { zeros: pairs - rows.iter().map(|(_, count)| count).sum::<u64>(), rows }
    }

    /// The smallest atol that passes with the given rtol: provably, in the arithmetic of the check itself.
    ///
    /// With `x` the largest rounded excess, every true excess is at most `x * (1 + eps/2)`, so that `atol + rtol * |g|`
    /// is at least the difference before it is rounded, and rounding is monotonic.
    pub(super) fn needed_atol(&self, rtol: f64) -> f64 {
        // Without a relative part nothing was rounded.
        if rtol == 0.0 { self.max_excess } else { self.max_excess * (1.0 + f64::EPSILON) }
    }

    /// The smallest rtol that passes with the given atol; the same argument with one more rounding. Infinite when
    /// a golden of zero is missed by more than atol.
    pub(super) fn needed_rtol(&self) -> f64 {
        self.max_relative_excess * (1.0 + 4.0 * f64::EPSILON)
    }
}

/// What every block of pairs adds.
struct Means<P> {
    pairs: P,
    rtol: f64,
}

struct BlockMeans {
    sum_abs: f64,
    sum_rel: f64,
    max_abs: f64,
    max_excess: f64,
}

impl<P: PairBlock> Kernel for Means<P> {
    type Output = BlockMeans;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> BlockMeans {
        let mut sum_abs = [0.0; LANES];
        let mut sum_rel = [0.0; LANES];
        let mut max_abs = [0.0; LANES];
        let mut excess = [0.0; LANES];
        self.pairs.each(|lane, quad| {
            sum_abs[lane] += quad.difference;
            sum_rel[lane] += quad.relative();
            max_abs[lane] = larger(max_abs[lane], quad.difference);
            excess[lane] = larger(excess[lane], quad.difference - self.rtol * quad.golden.abs());
        });
        BlockMeans {
            sum_abs: sum(sum_abs),
            sum_rel: sum(sum_rel),
            max_abs: fold(max_abs, larger),
            max_excess: fold(excess, larger),
        }
    }
}

/// What a block adds in which some pair may fail.
struct Failing<P> {
    pairs: P,
    tolerance: Tolerance,
}

struct BlockFailing {
    over: u64,
    max_relative_excess: f64,
}

impl<P: PairBlock> Kernel for Failing<P> {
    type Output = BlockFailing;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> BlockFailing {
        let Tolerance { atol, rtol } = self.tolerance;
        let mut over = [0u32; LANES];
        let mut relative_excess = [0.0; LANES];
        self.pairs.each(|lane, quad| {
            let (abs, size) = (quad.difference, quad.golden.abs());
            over[lane] += u32::from(abs > atol + rtol * size);
            let needed = if abs > atol { (abs - atol) / size } else { 0.0 };
            relative_excess[lane] = larger(relative_excess[lane], needed);
        });
        BlockFailing { over: count(over), max_relative_excess: fold(relative_excess, larger) }
    }
}

/// Fills the buckets with the exponents of a block's differences. A difference of zero goes to bucket zero; how
/// many of these there are is returned.
struct Buckets<'a, P> {
    pairs: P,
    buckets: &'a mut [[u64; EXPONENTS]; BUCKET_SETS],
}

impl<P: PairBlock> Kernel for Buckets<'_, P> {
    type Output = u64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u64 {
        let mut zeros = [0u32; LANES];
        self.pairs.each(|lane, quad| {
            let exponent = (quad.difference.to_bits() >> 52) as usize & (EXPONENTS - 1);
            self.buckets[lane % BUCKET_SETS][exponent] += 1;
            zeros[lane] += u32::from(quad.difference == 0.0);
        });
        count(zeros)
    }
}

/// How many errors are of which size: an error in `[2^e, 2^(e+1))` counts for exponent `e`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExponentHistogram {
    /// Pairs without an error.
    pub zeros: u64,
    /// Exponents that occur, smallest first, with their counts.
    pub rows: Vec<(i32, u64)>,
}
