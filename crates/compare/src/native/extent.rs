//! How large a tensor is and how far the two sides are apart, in some hundred bytes.

use ulpscope_dump::TensorEntry;
use ulpscope_kernels::Rest;
use ulpscope_tensor::DType;

use super::limit::LimitNumber;
use super::measure::{Basis, Measured, Numbers, State};
use super::rounding::{ACCUMULATOR, unit_roundoff};
use super::sentinels::statistic_beside_sentinels;

/// How large a tensor is, and how far the two sides are apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Elements.
    pub(super) count: f64,
    /// L2 norm: the larger of the two, so that a tensor that became zero is off by 1.
    pub(super) norm: f64,
    /// Largest absolute value of golden.
    pub(super) largest: f64,
    /// L2 norm of the difference, or what statistics show of it.
    pub(super) error: f64,
    /// Largest difference of an element, or what statistics show of it.
    pub(super) peak: f64,
    /// The part of the error that all elements share, relative: by how much the target is the golden times a factor other
    /// than 1.
    pub(super) drift: f64,
    /// See [`Extent::unit`]; a power of two, which is exact in few bytes.
    pub(super) unit: f32,
    /// See [`Extent::limit`].
    pub(super) limit: LimitNumber,
    /// Elements that are NaN or infinite, in the target and in the golden.
    pub(super) broken: [bool; 2],
    /// Likewise NaN.
    pub(super) nan: [bool; 2],
    /// Elements that are NaN or infinite on one side only.
    pub(super) mismatched: u32,
    /// Whether elements were compared, and not statistics.
    pub(super) by_elements: bool,
    /// Whether it is nothing but zeros on one side only, and not for being too small for its dtype.
    pub(super) is_gone: bool,
}

impl Extent {
    /// Half a unit in the last place of the coarser dtype, relative.
    pub(super) fn unit(&self) -> f64 {
        f64::from(self.unit)
    }

    /// What two tensors of these dtypes may be apart if nothing at all is known of how they were made.
    pub(super) fn limit(&self) -> f64 {
        self.limit.limit()
    }

    /// The error, relative to the size.
    pub(super) fn relative(&self) -> f64 {
        ratio(self.error, self.norm)
    }

    /// The root of the mean square.
    pub(super) fn rms(&self) -> f64 {
        self.norm / self.count.max(1.0).sqrt()
    }

    /// Takes size and error of what is left without sentinels.
    fn leave_to(&mut self, rest: &Rest) {
        let [target, golden] = rest.norms();
        self.count = rest.count as f64;
        self.norm = target.max(golden);
        self.largest = rest.largest;
        self.error = rest.euclid();
        self.peak = rest.max_abs;
        let shared = rest.cosine().map(|cosine| ratio((cosine * target - golden).abs(), target.max(golden)));
        self.drift = shared.unwrap_or(0.0).min(self.relative());
        self.is_gone = (target == 0.0) != (golden == 0.0);
    }

    /// The largest error of an element, relative to the size of an ordinary one.
    pub(super) fn relative_peak(&self) -> f64 {
        ratio(self.peak, self.rms())
    }
}

fn count_of(elements: u64) -> u32 {
    u32::try_from(elements).unwrap_or(u32::MAX)
}

/// 0 of 0 is 0: nothing is off.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part / whole }
}

/// Of two tensors, where both sides have numbers.
pub(super) fn extent(target: &TensorEntry, golden: &TensorEntry, measured: &Measured) -> Option<Extent> {
    let [max, min, mean, norm] = measured.golden;
    // The norm of a single number is recorded with its sign.
    let [norm, target_norm] = [norm, measured.target[3]].map(|norm| norm.map(f64::abs));
    let count = golden.count()? as f64;
    let largest = max.unwrap_or(0.0).abs().max(min.unwrap_or(0.0).abs());
    let units = [target, golden].map(|entry| entry.dtype().map_or(ACCUMULATOR, unit_roundoff));
    // Exact values have no small errors: they are the same or not.
    if units == [0.0; 2] {
        return None;
    }
    let mut extent = Extent {
        count,
        norm: norm.unwrap_or(0.0).max(target_norm.unwrap_or(0.0)),
        largest,
        error: 0.0,
        peak: 0.0,
        drift: 0.0,
        unit: units[0].max(units[1]) as f32,
        limit: LimitNumber::of(measured.limit),
        broken: [broken(target, &measured.target), broken(golden, &measured.golden)],
        nan: [nan(target, &measured.target), nan(golden, &measured.golden)],
        mismatched: 0,
        by_elements: measured.basis == Basis::Elements,
        is_gone: false,
    };
    if let (Some(one), Some(other)) = (target_norm, norm) {
        let smallest = [target, golden].map(|entry| entry.dtype().map_or(0.0, smallest));
        let smallest = 16.0 * smallest[0].max(smallest[1]);
        let is_large = one.max(other) > smallest * count.sqrt() && one.max(other).is_finite();
        extent.is_gone = (one == 0.0) != (other == 0.0) && is_large;
    }
    if let Some(comparison) = &measured.comparison {
        let distances = &comparison.distances;
        let bad = &distances.non_finite;
        extent.error = distances.euclid;
        extent.peak = distances.max_abs;
        // The golden's share in the target is cos |t|; of the golden in itself, |g|.
        if let (Some(cosine), Some(target), Some(golden)) = (distances.cosine, target_norm, norm)
            && target.is_finite()
            && golden.is_finite()
        {
            let drift = ratio((cosine * target - golden).abs(), target.max(golden));
            extent.drift = drift.min(distances.rel_l2);
        }
        extent.mismatched = count_of(bad.mismatched);
        extent.nan = [bad.target_nan > 0, bad.golden_nan > 0];
        extent.broken = [
            bad.target_nan + bad.target_pos_inf + bad.target_neg_inf > 0,
            bad.golden_nan + bad.golden_pos_inf + bad.golden_neg_inf > 0,
        ];
        if !extent.norm.is_finite() || norm.is_none() || extent.broken != [false; 2] {
            extent.norm = ratio(distances.euclid, distances.rel_l2);
        }
        if let Some(rest) = &measured.rest {
            extent.leave_to(rest);
        }
    } else {
        if let State::NonFinite(count) = measured.state {
            extent.mismatched = count_of(count.max(1));
        }
        let apart = |stat: usize| match (measured.target[stat], measured.golden[stat]) {
            (Some(one), Some(other)) if (one - other).is_finite() => (one - other).abs(),
            _ => 0.0,
        };
        // A mean and a norm tell what all elements have in common, the extremes what single ones do.
        extent.error = apart(3).max(apart(2) * count.sqrt());
        extent.peak = apart(0).max(apart(1));
        extent.drift = ratio(apart(3), extent.norm);
        let dtypes = [target, golden].map(TensorEntry::dtype);
        if let Some(beside) = statistic_beside_sentinels([&measured.target, &measured.golden], dtypes) {
            let ends = [measured.target[beside], measured.golden[beside]].map(|end| end.unwrap_or(0.0).abs());
            extent.largest = ends[0].max(ends[1]);
            extent.norm = extent.largest * count.sqrt();
            extent.peak = apart(beside);
            extent.error = extent.peak * count.sqrt();
            extent.drift = ratio(extent.peak, extent.largest);
        }
        if norm.is_none() {
            extent.norm = mean.unwrap_or(0.0).abs().max(largest) * count.sqrt();
        }
    }
    // Against infinite statistics nothing can be measured.
    if !extent.norm.is_finite() {
        (extent.norm, extent.error, extent.peak, extent.drift) = (0.0, 0.0, 0.0, 0.0);
    }
    if !extent.largest.is_finite() {
        extent.largest = 0.0;
    }
    Some(extent)
}

fn broken(entry: &TensorEntry, numbers: &Numbers) -> bool {
    entry.non_finite().is_some() || numbers.iter().flatten().any(|number| !number.is_finite())
}

fn nan(entry: &TensorEntry, numbers: &Numbers) -> bool {
    match entry.non_finite() {
        Some(counts) => counts.nan > 0,
        None => numbers.iter().flatten().any(|number| number.is_nan()),
    }
}

/// The smallest number above zero, or what float32 keeps to its full precision, if that is larger.
fn smallest(dtype: DType) -> f64 {
    dtype.float_limits().map_or(0.0, |limits| limits.min_positive).max(1e-38)
}
