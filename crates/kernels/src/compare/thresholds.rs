//! Estimates in f32 which pairs exceed a tolerance.
//!
//! Two 16-bit floats that differ at all mostly differ by more than a tolerance of 1/1000, so that the walks in f64 which
//! decide about it would be needed for every block. The lean loop therefore counts and compares in f32, where a
//! register has twice as many pairs and no quotient is needed. Only what an estimate cannot decide is walked again.

use super::Tolerance;
use super::pair::Packed;
use crate::lanes::{LANES, Lanes, Source, count, each_pair, fold, larger, smaller};
use crate::level::{Kernel, add_about_product};

/// Everything estimated here differs by less than this many units in its last place: a handful of roundings.
const ULPS: u32 = 8;

/// The same as a share of the estimate.
const MARGIN: f64 = ULPS as f64 * f32::EPSILON as f64;

/// The absolute error that comes with results below the smallest normal f32.
const TINY: f64 = 1e-42;

/// The range in which the parts of a tolerance keep their precision in f32, and their products with 16-bit floats
/// do so in the range of these.
const USUAL: std::ops::Range<f64> = 1e-30..1e30;

/// A tolerance, and the relative excess so far, in f32.
#[derive(Clone, Copy)]
pub(super) struct Thresholds {
    atol: f32,
    rtol: f32,
    /// The largest `(|t - g| - atol) / |g|` so far.
    relative_excess: f32,
    /// The estimates mean something.
    usable: bool,
}

impl Thresholds {
    pub(super) fn new(tolerance: Tolerance, relative_excess: f64) -> Thresholds {
        let Tolerance { atol, rtol } = tolerance;
        let is_usual = |part: f64| part == 0.0 || USUAL.contains(&part);
        // With zero, every difference above the absolute part may raise it.
        let relative_excess = if is_usual(relative_excess) { relative_excess } else { 0.0 };
        Thresholds {
            atol: atol as f32,
            rtol: rtol as f32,
            relative_excess: relative_excess as f32,
            // Without an absolute part the tolerance of a tiny golden has less precision.
            usable: atol > 0.0 && is_usual(atol) && is_usual(rtol),
        }
    }

    /// For errors without a tolerance.
    pub(super) fn none() -> Thresholds {
        Thresholds::new(Tolerance { atol: 0.0, rtol: 0.0 }, 0.0)
    }
}

/// What the estimates say about some pairs.
#[derive(Clone, Copy)]
pub(super) struct Estimates {
    /// How many pairs exceed the tolerance, if that is certain.
    pub(super) over: Option<u64>,
    /// An upper bound of `|t - g| - rtol * |g|`.
    pub(super) excess: f64,
    /// Whether `(|t - g| - atol) / |g|` may be larger than the one so far.
    pub(super) may_raise_relative: bool,
}

/// Estimates so far, in lanes.
pub(super) struct RunningEstimates {
    thresholds: Thresholds,
    not_over: Lanes<u32>,
    /// How close a difference is to the tolerance, in units in the last place from [`ULPS`] below it.
    nearest: Lanes<u32>,
    /// As bits: those of negative numbers are negative.
    excess: Lanes<i32>,
    above_relative: Lanes<i32>,
}

impl RunningEstimates {
    #[inline(always)]
    pub(super) fn new(thresholds: Thresholds) -> RunningEstimates {
        RunningEstimates {
            thresholds,
            not_over: Lanes([0; LANES]),
            nearest: Lanes([u32::MAX; LANES]),
            excess: Lanes([0; LANES]),
            above_relative: Lanes([0; LANES]),
        }
    }

    /// Adds a pair: its absolute difference and the magnitude of golden, both in f32.
    #[inline(always)]
    pub(super) fn add<const FMA: bool>(&mut self, lane: usize, abs: f32, golden: f32) {
        let Thresholds { atol, rtol, relative_excess, .. } = self.thresholds;
        let allowed = add_about_product::<FMA>(atol, rtol, golden);
        // Floats that are not negative have the order of their bits.
        let above = abs.to_bits().wrapping_sub(allowed.to_bits());
        self.not_over[lane] += above >> 31;
        self.nearest[lane] = smaller(self.nearest[lane], above.wrapping_add(ULPS));
        let bits = |estimate: f32| estimate.to_bits() as i32;
        let excess = add_about_product::<FMA>(abs, -rtol, golden);
        self.excess[lane] = larger(self.excess[lane], bits(excess));
        let above = add_about_product::<FMA>(abs, -relative_excess, golden);
        self.above_relative[lane] = larger(self.above_relative[lane], bits(above));
    }

    /// The estimates, given the number of pairs and the largest absolute difference.
    #[inline(always)]
    pub(super) fn finish(self, pairs: u64, max_abs: f64) -> Estimates {
        // Only differences that are not smaller than what is subtracted from them matter, so this bounds all errors.
        let margin = max_abs * MARGIN + TINY;
        let usable = self.thresholds.usable && max_abs < USUAL.end;
        let is_certain = fold(self.nearest.0, smaller) > 2 * ULPS;
        let float = |lanes: Lanes<i32>| f64::from(f32::from_bits(fold(lanes.0, larger) as u32));
        let above_relative = float(self.above_relative);
        Estimates {
            over: (usable && is_certain).then(|| pairs - count(self.not_over.0)),
            excess: if usable { float(self.excess) + margin } else { f64::INFINITY },
            may_raise_relative: !usable || above_relative + margin > f64::from(self.thresholds.atol),
        }
    }
}

/// The estimates of some pairs, of which the largest absolute difference is known.
pub(super) struct Estimate<'a, S> {
    pub(super) pairs: Packed<'a, S>,
    pub(super) thresholds: Thresholds,
    pub(super) max_abs: f64,
}

impl<S: Source<Value = f32>> Kernel for Estimate<'_, S> {
    type Output = Estimates;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Estimates {
        let Packed { source, target, golden } = self.pairs;
        let mut estimates = RunningEstimates::new(self.thresholds);
        each_pair::<_, FMA>(
            source,
            target,
            golden,
            #[inline(always)]
            |lane, a, b| estimates.add::<FMA>(lane, (a - b).abs(), b.abs()),
        );
        estimates.finish((target.len() / S::SIZE) as u64, self.max_abs)
    }
}
