//! One pass over two tensors of any two dtypes.
//!
//! ```text
//! views ──► spans ──► blocks ──► pair (in place, or decoded) ──► narrow or loops ──► distances, [errors, exponents, ulp]
//! ```
//! [`distances`] computes what fits into the time it takes to read both tensors. [`compare`] adds what a person needs
//! to examine one pair. Every metric covers the pairs that are finite on both sides. The others are
//! counted, and a mismatch among them is never ignored: see [`NonFinite`].

mod blocks;
mod distances;
mod elements;
mod errors;
mod exponents;
mod kl;
mod loops;
mod narrow;
mod pair;
mod peer;
mod rest;
mod thresholds;
pub(crate) mod ulp;

use ulpscope_tensor::View;

pub use elements::{ElementDiff, first_failing, worst};
pub use exponents::ExponentHistogram;
pub use kl::kl_divergence;
pub use peer::{PeerArithmetic, PeerErrors, peer_errors, peer_errors_at};
pub use rest::{Rest, rest};

use crate::blocks::Reading;
use crate::float_env::DefaultFloatEnv;
use crate::level::Level;
use crate::stats::canonical;
use blocks::Errors;

/// When an element counts as failing: `|target - golden| > atol + rtol * |golden|`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Absolute part.
    pub atol: f64,
    /// Relative part.
    pub rtol: f64,
}

/// A tolerance that would accept everything or nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {found}; expected a finite number that is not negative")]
pub struct BadTolerance {
    name: &'static str,
    found: f64,
}

impl Tolerance {
    /// A tolerance of two finite parts that are not negative.
    pub fn new(atol: f64, rtol: f64) -> Result<Tolerance, BadTolerance> {
        for (name, found) in [("atol", atol), ("rtol", rtol)] {
            if !(found.is_finite() && found >= 0.0) {
                return Err(BadTolerance { name, found });
            }
        }
        Ok(Tolerance { atol, rtol })
    }
}

impl Default for Tolerance {
    /// One in a thousand, the default of the older tools' element tables.
    fn default() -> Tolerance {
        Tolerance { atol: 1e-3, rtol: 1e-3 }
    }
}

/// Two tensors of different shapes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shapes differ: target has {target:?}, golden has {golden:?}")]
pub struct ShapeMismatch {
    /// Shape of the target.
    pub target: Vec<usize>,
    /// Shape of the golden.
    pub golden: Vec<usize>,
}

/// Distances between two tensors, over the pairs that are finite on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Distances {
    /// Total number of pairs.
    pub count: u64,
    /// Pairs finite on both sides.
    pub finite: u64,
    /// Same dtype and the same bits in every element.
    pub equal: bool,
    /// Cosine of the angle between the two as vectors; 1 if both are zero, nothing if one is, or if squares
    /// of f64 elements overflow.
    pub cosine: Option<f64>,
    /// L2 norm of the difference.
    pub euclid: f64,
    /// `euclid` divided by the L2 norm of golden; infinite if only golden is zero.
    pub rel_l2: f64,
    /// Root of the mean squared difference.
    pub rmse: f64,
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Largest relative difference, if there is one; infinite if golden is zero and target is not, everywhere.
    pub max_rel: f64,
    /// Share of all pairs with a relative difference under 1/1000. Equal non-finite pairs are included.
    pub under_1e3: f64,
    /// Share of all pairs with a relative difference under 5/1000.
    pub under_5e3: f64,
    /// Pairs where golden is zero and target is not: they have no relative difference and are under no limit.
    pub zero_golden: u64,
    /// Non-finite elements of each side, and whether both agree.
    pub non_finite: NonFinite,
    /// Row-major position of the first non-finite mismatch, or else of the first largest absolute difference;
    /// nothing if all pairs agree in value.
    pub worst_index: Option<u64>,
}

/// [`Distances`], and what the same loops and a second pass over some blocks add.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The distances.
    pub distances: Distances,
    /// Mean absolute difference.
    pub mean_abs: f64,
    /// Mean relative difference, over the pairs that have one; infinite if none has. The others are `zero_golden`.
    pub mean_rel: f64,
    /// `mean_rel` in percent.
    pub mape: f64,
    /// Sum of the relative differences.
    pub accumulated_rel: f64,
    /// Pairs over the tolerance, including non-finite mismatches.
    pub over_tolerance: u64,
    /// The smallest atol that would have passed with the given rtol; infinite with non-finite mismatches.
    pub needed_atol: f64,
    /// The smallest rtol that would have passed with the given atol; infinite with non-finite mismatches.
    pub needed_rtol: f64,
    /// Largest distance in units in the last place; only for equal, real dtypes.
    pub max_ulp: Option<u64>,
    /// Mean distance in units in the last place; only for equal, real dtypes.
    pub mean_ulp: Option<f64>,
    /// Sizes of the absolute differences, by their exponent.
    pub exponents: ExponentHistogram,
}

impl Comparison {
    /// Whether every pair is within the tolerance.
    pub fn agrees(&self) -> bool {
        self.over_tolerance == 0
    }
}

/// Counts of NaN and infinities, on each side and at the same positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NonFinite {
    /// NaN in the target.
    pub target_nan: u64,
    /// NaN in the golden.
    pub golden_nan: u64,
    /// NaN in both at the same position.
    pub both_nan: u64,
    /// +Inf in the target.
    pub target_pos_inf: u64,
    /// +Inf in the golden.
    pub golden_pos_inf: u64,
    /// +Inf in both at the same position.
    pub both_pos_inf: u64,
    /// -Inf in the target.
    pub target_neg_inf: u64,
    /// -Inf in the golden.
    pub golden_neg_inf: u64,
    /// -Inf in both at the same position.
    pub both_neg_inf: u64,
    /// Positions where one side is not finite and the other is finite or a different kind of non-finite.
    pub mismatched: u64,
}

impl NonFinite {
    /// Counts a pair that is not finite on at least one side; true if the sides disagree.
    /// `opposed`: both are infinite (complex) numbers, but not the same.
    fn see(&mut self, target: f64, golden: f64, opposed: bool) -> bool {
        let nan = (target.is_nan(), golden.is_nan());
        let pos = (target == f64::INFINITY, golden == f64::INFINITY);
        let neg = (target == f64::NEG_INFINITY, golden == f64::NEG_INFINITY);
        let pos_both = pos.0 && pos.1 && !opposed;
        let agree = (nan.0 && nan.1) || pos_both || (neg.0 && neg.1);
        self.target_nan += u64::from(nan.0);
        self.golden_nan += u64::from(nan.1);
        self.both_nan += u64::from(nan.0 && nan.1);
        self.target_pos_inf += u64::from(pos.0);
        self.golden_pos_inf += u64::from(pos.1);
        self.both_pos_inf += u64::from(pos_both);
        self.target_neg_inf += u64::from(neg.0);
        self.golden_neg_inf += u64::from(neg.1);
        self.both_neg_inf += u64::from(neg.0 && neg.1);
        self.mismatched += u64::from(!agree);
        !agree
    }

    fn add(&mut self, more: &NonFinite) {
        self.target_nan += more.target_nan;
        self.golden_nan += more.golden_nan;
        self.both_nan += more.both_nan;
        self.target_pos_inf += more.target_pos_inf;
        self.golden_pos_inf += more.golden_pos_inf;
        self.both_pos_inf += more.both_pos_inf;
        self.target_neg_inf += more.target_neg_inf;
        self.golden_neg_inf += more.golden_neg_inf;
        self.both_neg_inf += more.both_neg_inf;
        self.mismatched += more.mismatched;
    }

    /// Pairs that are not finite on at least one side.
    fn pairs(&self) -> u64 {
        self.mismatched + self.both_nan + self.both_pos_inf + self.both_neg_inf
    }
}

/// The distances between two tensors, with the best instruction set of this machine.
pub fn distances<'a>(
    target: &View<'_>,
    golden: &View<'_>,
    reading: impl Into<Reading<'a>>,
) -> Result<Distances, ShapeMismatch> {
    distances_at(Level::best(), target, golden, reading)
}

/// [`distances`] with a given instruction set; to show that the result does not depend on it.
pub fn distances_at<'a>(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    reading: impl Into<Reading<'a>>,
) -> Result<Distances, ShapeMismatch> {
    let _env = DefaultFloatEnv::enter();
    let running = blocks::run(level, target, golden, None, reading.into())?;
    Ok(Distances::of(&running, target.len() as u64))
}

/// Everything about two tensors, with the best instruction set of this machine.
pub fn compare<'a>(
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Tolerance,
    reading: impl Into<Reading<'a>>,
) -> Result<Comparison, ShapeMismatch> {
    compare_at(Level::best(), target, golden, tolerance, reading)
}

/// [`compare`] with a given instruction set; to show that the result does not depend on it.
pub fn compare_at<'a>(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Tolerance,
    reading: impl Into<Reading<'a>>,
) -> Result<Comparison, ShapeMismatch> {
    measure(level, target, golden, Errors { tolerance, with_exponents: true }, reading.into())
}

/// [`compare`] without the histogram of exponents, which stays empty: for many pairs that no one examines one by one.
pub fn errors<'a>(
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Tolerance,
    reading: impl Into<Reading<'a>>,
) -> Result<Comparison, ShapeMismatch> {
    errors_at(Level::best(), target, golden, tolerance, reading)
}

/// [`errors`] with a given instruction set; to show that the result does not depend on it.
pub fn errors_at<'a>(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Tolerance,
    reading: impl Into<Reading<'a>>,
) -> Result<Comparison, ShapeMismatch> {
    measure(level, target, golden, Errors { tolerance, with_exponents: false }, reading.into())
}

fn measure(
    level: Level,
    target: &View<'_>,
    golden: &View<'_>,
    wanted: Errors,
    reading: Reading<'_>,
) -> Result<Comparison, ShapeMismatch> {
    let _env = DefaultFloatEnv::enter();
    let running = blocks::run(level, target, golden, Some(wanted), reading)?;
    let distances = Distances::of(&running, target.len() as u64);
    let errors = running.errors.expect("asked for by giving a tolerance");
    let mismatched = distances.non_finite.mismatched;
    let per_pair = |sum: f64| if distances.finite == 0 { 0.0 } else { sum / distances.finite as f64 };
    let mean_rel = match distances.with_relative() {
        0 if distances.zero_golden > 0 => f64::INFINITY,
        0 => 0.0,
        pairs => errors.sums.rel / pairs as f64,
    };
    let with_ulp = target.dtype() == golden.dtype() && !target.dtype().is_complex();
    let needed = |tolerance: f64| if mismatched > 0 { f64::INFINITY } else { tolerance };
    Ok(Comparison {
        mean_abs: per_pair(errors.sums.abs),
        mean_rel,
        mape: 100.0 * mean_rel,
        accumulated_rel: if mean_rel.is_infinite() { mean_rel } else { errors.sums.rel },
        over_tolerance: errors.over_tolerance + mismatched,
        needed_atol: needed(errors.needed_atol(wanted.tolerance.rtol)),
        needed_rtol: needed(errors.needed_rtol()),
        max_ulp: with_ulp.then_some(errors.ulp.max),
        mean_ulp: with_ulp.then(|| per_pair(errors.ulp.sum as f64)),
        exponents: errors.buckets.map(|buckets| buckets.histogram(distances.finite)).unwrap_or_default(),
        distances,
    })
}

impl Distances {
    /// Pairs that have a relative difference; for a pair of zeros it is zero.
    fn with_relative(&self) -> u64 {
        self.finite - self.zero_golden
    }

    fn of(running: &blocks::Running, count: u64) -> Distances {
        let measured = &running.distances;
        let sums = measured.sums;
        let finite = count - measured.non_finite.pairs();
        let share = |under: u64| if count == 0 { 1.0 } else { under as f64 / count as f64 };
        let [under_1e3, under_5e3] = measured.under_limits().map(share);
        let (euclid, golden_norm) = (sums.difference_squares.sqrt(), sums.golden_squares.sqrt());
        Distances {
            count,
            finite,
            equal: running.equal,
            cosine: cosine(sums, finite, measured.max_abs),
            euclid,
            rel_l2: if measured.max_abs == 0.0 { 0.0 } else { canonical(euclid / golden_norm) },
            rmse: if finite == 0 { 0.0 } else { (sums.difference_squares / finite as f64).sqrt() },
            max_abs: measured.max_abs,
            max_rel: if finite > 0 && finite == measured.zero_golden {
                f64::INFINITY
            } else {
                measured.max_rel
            },
            under_1e3,
            under_5e3,
            zero_golden: measured.zero_golden,
            non_finite: measured.non_finite,
            worst_index: measured.first_mismatch.or((measured.max_abs > 0.0).then_some(measured.max_abs_at)),
        }
    }
}

fn cosine(sums: loops::Sums, finite: u64, max_abs: f64) -> Option<f64> {
    if finite == 0 {
        return None;
    }
    if max_abs == 0.0 {
        // Equal vectors, including zero ones: exactly one, however the roots are rounded.
        return Some(1.0);
    }
    // A side may be zero, or its squares may overflow or underflow in f64.
    let is_usable = |squares: f64| squares > 0.0 && squares.is_finite();
    if !is_usable(sums.target_squares) || !is_usable(sums.golden_squares) {
        return None;
    }
    let cosine = sums.product / (sums.target_squares.sqrt() * sums.golden_squares.sqrt());
    Some(cosine.clamp(-1.0, 1.0))
}
