//! The errors beyond the distances, for a person who examines one pair of tensors.
//!
//! The loops sum errors as they go. For most blocks the largest differences decide everything about the tolerance;
//! only the others are walked again.

use super::Tolerance;
use super::exponents::Buckets;
use super::loops::ErrorSums;
use super::pair::{Packed, PairBlock};
use super::thresholds::{Estimate, Estimates, Thresholds};
use super::ulp::UlpDistance;
use crate::lanes::{LANES, Source, fold, larger, sum};
use crate::level::{Kernel, Level};

/// Pairs that are walked again at a time: mostly one of them in a block has the largest difference.
const PART: usize = 256;

/// What the loops return about the errors of one block of pairs that are finite or masked to zero.
#[derive(Clone, Copy)]
pub(super) struct BlockErrors {
    pub(super) sums: ErrorSums,
    /// An upper bound of the absolute difference, at most slightly above the largest.
    pub(super) max_abs: f64,
    /// The same for the relative difference; infinite if golden is zero and target is not.
    pub(super) max_rel: f64,
    /// The smallest magnitude in golden.
    pub(super) least_golden: f64,
    /// Distances of f32 pairs; those of other dtypes are measured separately.
    pub(super) ulp: UlpDistance,
    /// About the tolerance, for pairs of 16-bit floats.
    pub(super) estimates: Option<Estimates>,
}

impl BlockErrors {
    /// Whether some difference may exceed `rtol * |g|`. If it does not, it is at most that product also after
    /// rounding. The margins cover the rounding of the quotient, large or subnormal.
    fn may_exceed(&self, rtol: f64) -> bool {
        self.max_rel * (1.0 + 1e-9) + f64::MIN_POSITIVE >= rtol
    }

    /// An upper bound of `(|t - g| - atol) / |g|`, if some difference is above atol: subtracting atol reduces the
    /// relative difference of the largest difference the least.
    fn relative_excess_at_most(&self, atol: f64) -> f64 {
        self.max_rel * (1.0 - atol / self.max_abs) * (1.0 + 1e-9) + f64::MIN_POSITIVE
    }
}

/// Sums, maxima and counts over a range of pairs; merged in order.
#[derive(Clone, Debug)]
pub(super) struct RunningErrors {
    pub(super) sums: ErrorSums,
    pub(super) over_tolerance: u64,
    /// Largest `|t - g| - rtol * |g|`.
    pub(super) max_excess: f64,
    /// Largest `(|t - g| - atol) / |g|`.
    pub(super) max_relative_excess: f64,
    pub(super) ulp: UlpDistance,
    /// None if not requested.
    pub(super) buckets: Option<Buckets>,
}

impl RunningErrors {
    pub(super) fn none(with_exponents: bool) -> RunningErrors {
        RunningErrors {
            sums: ErrorSums::default(),
            over_tolerance: 0,
            max_excess: 0.0,
            max_relative_excess: 0.0,
            ulp: UlpDistance::default(),
            buckets: with_exponents.then(Buckets::none),
        }
    }

    pub(super) fn merge(mut self, next: RunningErrors) -> RunningErrors {
        self.sums.abs += next.sums.abs;
        self.sums.rel += next.sums.rel;
        self.over_tolerance += next.over_tolerance;
        self.max_excess = larger(self.max_excess, next.max_excess);
        self.max_relative_excess = larger(self.max_relative_excess, next.max_relative_excess);
        self.ulp.add(next.ulp);
        if let (Some(buckets), Some(next)) = (&mut self.buckets, &next.buckets) {
            buckets.add(next);
        }
        self
    }

    /// Adds a block of pairs, all finite or masked to zero, except for its exponents and distances in ULP.
    pub(super) fn add<P: PairBlock>(
        &mut self,
        level: Level,
        pairs: P,
        block: BlockErrors,
        tolerance: Tolerance,
    ) {
        self.sums.abs += block.sums.abs;
        self.sums.rel += block.sums.rel;
        let may_fail = block.max_abs > tolerance.atol;
        if block.may_exceed(tolerance.rtol) && (may_fail || block.max_abs > self.max_excess) {
            let excess = level.run(Excess { pairs, tolerance });
            self.over_tolerance += excess.over;
            self.max_excess = larger(self.max_excess, excess.max);
        }
        if may_fail && block.relative_excess_at_most(tolerance.atol) > self.max_relative_excess {
            let relative = level.run(RelativeExcess { pairs, atol: tolerance.atol });
            self.max_relative_excess = larger(self.max_relative_excess, relative);
        }
    }

    /// The same for pairs of 16-bit floats: only parts of the block that may raise a maximum are walked again.
    pub(super) fn add_short<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        pairs: Packed<'_, S>,
        block: BlockErrors,
        tolerance: Tolerance,
    ) {
        let Some(Estimates { over: Some(over), excess, may_raise_relative }) = block.estimates else {
            return self.add(level, pairs, block, tolerance);
        };
        self.sums.abs += block.sums.abs;
        self.sums.rel += block.sums.rel;
        self.over_tolerance += over;
        if !(block.may_exceed(tolerance.rtol) && excess > self.max_excess || may_raise_relative) {
            return;
        }
        let max_abs = block.max_abs;
        for pairs in pairs.parts(PART) {
            let thresholds = Thresholds::new(tolerance, self.max_relative_excess);
            let part = level.run(Estimate { pairs, thresholds, max_abs });
            if part.excess > self.max_excess {
                self.max_excess = larger(self.max_excess, level.run(Excess { pairs, tolerance }).max);
            }
            if part.may_raise_relative && max_abs > tolerance.atol && self.max_relative_excess.is_finite() {
                let relative = level.run(RelativeExcess { pairs, atol: tolerance.atol });
                self.max_relative_excess = larger(self.max_relative_excess, relative);
            }
        }
    }

    /// The smallest atol that passes with the given rtol, provably so in the arithmetic of the check itself.
    ///
    /// With `x` the largest rounded excess, every true excess is at most `x * (1 + eps/2)`. So `atol + rtol * |g|`
    /// is at least the difference before it is rounded, and rounding is monotonic.
    pub(super) fn needed_atol(&self, rtol: f64) -> f64 {
        // Without a relative part nothing was rounded.
        if rtol == 0.0 { self.max_excess } else { self.max_excess * (1.0 + f64::EPSILON) }
    }

    /// The smallest rtol that passes with the given atol; the same argument with one more rounding. Infinite if
    /// golden is zero and the difference exceeds atol.
    pub(super) fn needed_rtol(&self) -> f64 {
        self.max_relative_excess * (1.0 + 4.0 * f64::EPSILON)
    }
}

/// How many pairs fail, and by how much the worst exceeds the relative part of the tolerance.
struct Excess<P> {
    pairs: P,
    tolerance: Tolerance,
}

struct BlockExcess {
    over: u64,
    max: f64,
}

impl<P: PairBlock> Kernel for Excess<P> {
    type Output = BlockExcess;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> BlockExcess {
        let Tolerance { atol, rtol } = self.tolerance;
        // Counts in f64, which match the masks of f64 comparisons.
        let mut over = [0.0; LANES];
        let mut excess = [0.0; LANES];
        self.pairs.each::<FMA>(
            #[inline(always)]
            |lane, quad| {
                let (abs, allowed) = (quad.difference, rtol * quad.golden.abs());
                over[lane] += if abs > atol + allowed { 1.0 } else { 0.0 };
                excess[lane] = larger(excess[lane], abs - allowed);
            },
        );
        BlockExcess { over: sum(over) as u64, max: fold(excess, larger) }
    }
}

/// By how much the worst pair exceeds the absolute part of the tolerance, relative to golden.
struct RelativeExcess<P> {
    pairs: P,
    atol: f64,
}

impl<P: PairBlock> Kernel for RelativeExcess<P> {
    type Output = f64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        let mut relative_excess = [0.0; LANES];
        self.pairs.each::<FMA>(
            #[inline(always)]
            |lane, quad| {
                let (abs, size) = (quad.difference, quad.golden.abs());
                let needed = if abs > self.atol { (abs - self.atol) / size } else { 0.0 };
                relative_excess[lane] = larger(relative_excess[lane], needed);
            },
        );
        fold(relative_excess, larger)
    }
}
