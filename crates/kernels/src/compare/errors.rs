//! The thorough pass: what a person looking at one pair of tensors wants beyond the distances.
//!
//! It walks a block that the lean loop has just read, and only one that is not bit-equal.

use super::Tolerance;
use super::pair::PairBlock;
use super::ulp::UlpDistance;
use crate::lanes::{LANES, count, fold, larger, sum};

/// Buckets of the error's exponent: one per exponent an f64 can have.
const EXPONENTS: usize = 2048;

/// The exponent that bucket zero would have.
const EXPONENT_BIAS: i32 = 1023;

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
    buckets: Box<[u64; EXPONENTS]>,
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
            buckets: Box::new([0; EXPONENTS]),
        }
    }

    pub(super) fn merge(mut self, next: RunningErrors) -> RunningErrors {
        self.sum_abs += next.sum_abs;
        self.sum_rel += next.sum_rel;
        self.over_tolerance += next.over_tolerance;
        self.max_excess = larger(self.max_excess, next.max_excess);
        self.max_relative_excess = larger(self.max_relative_excess, next.max_relative_excess);
        self.ulp.add(next.ulp);
        for (bucket, more) in self.buckets.iter_mut().zip(next.buckets.iter()) {
            *bucket += more;
        }
        self
    }

    /// Adds a block of pairs, all finite or masked to zero.
    #[inline(always)]
    pub(super) fn add<P: PairBlock>(&mut self, pairs: &P, tolerance: Tolerance) {
        let Tolerance { atol, rtol } = tolerance;
        let mut sum_abs = [0.0; LANES];
        let mut sum_rel = [0.0; LANES];
        let mut over = [0u32; LANES];
        let mut excess = [0.0; LANES];
        let mut relative_excess = [0.0; LANES];
        pairs.each(|lane, quad| {
            let (abs, size) = (quad.difference, quad.golden.abs());
            let allowed = rtol * size;
            sum_abs[lane] += abs;
            sum_rel[lane] += quad.relative();
            over[lane] += u32::from(abs > atol + allowed);
            excess[lane] = larger(excess[lane], abs - allowed);
            let needed = if abs > atol { (abs - atol) / size } else { 0.0 };
            relative_excess[lane] = larger(relative_excess[lane], needed);
        });
        self.sum_abs += sum(sum_abs);
        self.sum_rel += sum(sum_rel);
        self.over_tolerance += count(over);
        self.max_excess = larger(self.max_excess, fold(excess, larger));
        self.max_relative_excess = larger(self.max_relative_excess, fold(relative_excess, larger));
        pairs.each(|_, quad| {
            if quad.difference > 0.0 {
                self.buckets[(quad.difference.to_bits() >> 52) as usize & (EXPONENTS - 1)] += 1;
            }
        });
    }

    /// The histogram, given how many pairs there are in all; those in no bucket have no error.
    pub(super) fn histogram(&self, pairs: u64) -> ExponentHistogram {
        let counts = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let rows: Vec<_> = counts.map(|(bucket, &count)| (bucket as i32 - EXPONENT_BIAS, count)).collect();
        ExponentHistogram { zeros: pairs - rows.iter().map(|(_, count)| count).sum::<u64>(), rows }
    }

    /// The smallest atol that passes with the given rtol: provably, in the arithmetic of the check itself.
    ///
    /// With `x` the largest rounded excess, every true excess is at most `x * (1 + eps/2)`, so that `atol + rtol * |g|`
    /// is at least the difference before it is rounded, and rounding is monotonic.
    pub(super) fn needed_atol(&self) -> f64 {
        self.max_excess * (1.0 + f64::EPSILON)
    }

    /// The smallest rtol that passes with the given atol; the same argument with one more rounding. Infinite when
    /// a golden of zero is missed by more than atol.
    pub(super) fn needed_rtol(&self) -> f64 {
        self.max_relative_excess * (1.0 + 4.0 * f64::EPSILON)
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
