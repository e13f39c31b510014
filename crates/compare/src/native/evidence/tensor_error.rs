//! How large a tensor is and how far the two sides are apart, in 56 bytes.

use ulpscope_dump::TensorEntry;
use ulpscope_kernels::Rest;
use ulpscope_tensor::DType;

use crate::native::evidence::measure::{Basis, Measured, Numbers, State};
use crate::native::evidence::sentinels::statistic_beside_sentinels;
use crate::native::expectation::dtype_tolerance::LimitNumber;
use crate::native::expectation::rounding::{ACCUMULATOR, unit_roundoff};
use crate::native::thresholds::amplified::GROWTH;
use crate::native::thresholds::evidence::GONE;

/// How large a tensor is, and how far the two sides are apart.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct TensorError {
    /// Elements.
    pub(in crate::native) count: f64,
    /// L2 norm: the larger of the two, so that a tensor that became zero is off by 1.
    pub(in crate::native) norm: f64,
    /// Largest absolute value of golden.
    pub(in crate::native) largest: f64,
    /// L2 norm of the difference, or what statistics show of it.
    pub(in crate::native) error: f64,
    /// Largest difference of an element, or what statistics show of it.
    pub(in crate::native) peak: f64,
    /// The part of the error that all elements share, relative: by how much the target is the golden times a factor other
    /// than 1.
    pub(in crate::native) drift: f64,
    /// See [`TensorError::unit`].
    pub(in crate::native) unit: Roundoff,
    /// See [`TensorError::limit`].
    pub(in crate::native) limit: LimitNumber,
    /// Elements that are NaN or infinite, in the target and in the golden.
    pub(in crate::native) non_finite: [NonFinite; 2],
    /// Elements that are NaN or infinite on one side only; 255 stands for more.
    pub(in crate::native) mismatched: u8,
    /// Whether elements were compared, and not statistics.
    pub(in crate::native) by_elements: bool,
    /// Whether it is nothing but zeros on one side only, and not for being too small for its dtype.
    pub(in crate::native) is_gone: bool,
    /// See [`TensorError::spread`].
    pub(in crate::native) spread: SpreadShare,
}

/// The spread of elements about their mean, as a share of the root of their mean square. In one byte, as there are millions:
/// eighths of a power of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::native) struct SpreadShare(u8);

impl SpreadShare {
    /// A smaller share is not seen: statistics are recorded in float32, and squares of a mean cancel.
    const LEAST: f64 = 1.0 / 1024.0;

    /// Of elements with this mean and this root of the mean square.
    pub(in crate::native) fn of(mean: f64, rms: f64) -> SpreadShare {
        let common = mean / rms;
        if !common.is_finite() {
            return SpreadShare::default();
        }
        let share = (1.0 - common * common).max(0.0).sqrt().max(SpreadShare::LEAST);
        SpreadShare((-8.0 * libm::log2(share)).round() as u8)
    }

    fn share(self) -> f64 {
        libm::exp2(-f64::from(self.0) / 8.0)
    }

    /// How many times as large the relative error of what is left without the mean is; 1, if that is not much: one
    /// normalisation after the other does not multiply errors.
    pub(in crate::native) fn growth(self) -> f64 {
        let growth = 1.0 / self.share();
        if growth >= GROWTH.get() { growth } else { 1.0 }
    }
}

/// Whether elements are NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) enum NonFinite {
    No,
    Infinite,
    /// NaN, and maybe also infinite.
    Nan,
}

impl NonFinite {
    fn of(is_broken: bool, is_nan: bool) -> NonFinite {
        match (is_broken, is_nan) {
            (_, true) => NonFinite::Nan,
            (true, false) => NonFinite::Infinite,
            (false, false) => NonFinite::No,
        }
    }
}

/// Half a unit in the last place of 1, in one byte: it is a power of two, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) struct Roundoff(u8);

impl Roundoff {
    /// Of what [`unit_roundoff`] returned.
    pub(in crate::native) fn of(unit: f64) -> Roundoff {
        let exponent = (unit.to_bits() >> 52) & 0x7ff;
        Roundoff(if unit == 0.0 { 0 } else { (1023 - exponent) as u8 })
    }

    /// As a number.
    fn unit(self) -> f64 {
        if self.0 == 0 { 0.0 } else { f64::from_bits((1023 - u64::from(self.0)) << 52) }
    }
}

impl TensorError {
    /// Whether elements of a side are NaN or infinite.
    pub(in crate::native) fn is_broken(&self, side: usize) -> bool {
        self.non_finite[side] != NonFinite::No
    }

    /// Whether elements of a side are NaN.
    pub(in crate::native) fn has_nan(&self, side: usize) -> bool {
        self.non_finite[side] == NonFinite::Nan
    }

    /// Half a unit in the last place of the coarser dtype, relative.
    pub(in crate::native) fn unit(&self) -> f64 {
        self.unit.unit()
    }

    /// What two tensors of these dtypes may be apart if nothing at all is known of how they were made.
    pub(in crate::native) fn limit(&self) -> f64 {
        self.limit.limit()
    }

    /// The error, relative to the size.
    pub(in crate::native) fn relative(&self) -> f64 {
        ratio(self.error, self.norm)
    }

    /// The root of the mean square.
    pub(in crate::native) fn rms(&self) -> f64 {
        self.norm / self.count.max(1.0).sqrt()
    }

    /// The standard deviation of all elements: their size without what they have in common.
    pub(in crate::native) fn spread(&self) -> f64 {
        self.rms() * self.spread.share()
    }

    /// Takes size and error of the largest elements: the squares of finite ones may be infinite in float64.
    fn measure_by_extremes(&mut self, sides: [&Numbers; 2]) {
        let ends = sides.map(|[max, min, ..]| max.unwrap_or(0.0).abs().max(min.unwrap_or(0.0).abs()));
        let root = self.count.max(1.0).sqrt();
        // Small enough for products with the root of the count, too. Only ratios are used.
        let scale = 0.25 / root;
        self.largest = ends[1] * scale;
        self.norm = ends[0].max(ends[1]) * scale * root;
        self.peak *= scale;
        self.error = self.peak * root;
        self.drift = 0.0;
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
        self.spread = SpreadShare::default();
    }

    /// The largest error of an element, relative to the size of an ordinary one.
    pub(in crate::native) fn relative_peak(&self) -> f64 {
        ratio(self.peak, self.rms())
    }
}

fn count_of(elements: u64) -> u8 {
    u8::try_from(elements).unwrap_or(u8::MAX)
}

/// 0 of 0 is 0: nothing is off.
pub(in crate::native) fn ratio(part: f64, whole: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part / whole }
}

/// Of two tensors, where both sides have numbers.
pub(in crate::native) fn extent(
    target: &TensorEntry,
    golden: &TensorEntry,
    measured: &Measured,
) -> Option<TensorError> {
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
    let mut extent = TensorError {
        count,
        norm: norm.unwrap_or(0.0).max(target_norm.unwrap_or(0.0)),
        largest,
        error: 0.0,
        peak: 0.0,
        drift: 0.0,
        unit: Roundoff::of(units[0].max(units[1])),
        limit: LimitNumber::of(measured.limit),
        non_finite: [recorded(target, &measured.target), recorded(golden, &measured.golden)],
        mismatched: 0,
        by_elements: measured.basis == Basis::Elements,
        is_gone: false,
        spread: SpreadShare::default(),
    };
    if let (Some(mean), Some(norm)) = (mean, norm) {
        extent.spread = SpreadShare::of(mean, norm / count.max(1.0).sqrt());
    }
    if let (Some(one), Some(other)) = (target_norm, norm) {
        let smallest = [target, golden].map(|entry| entry.dtype().map_or(0.0, smallest));
        let smallest = GONE.get() * smallest[0].max(smallest[1]);
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
        extent.non_finite = [
            NonFinite::of(bad.target_pos_inf + bad.target_neg_inf > 0, bad.target_nan > 0),
            NonFinite::of(bad.golden_pos_inf + bad.golden_neg_inf > 0, bad.golden_nan > 0),
        ];
        if !extent.norm.is_finite() || norm.is_none() || extent.non_finite != [NonFinite::No; 2] {
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
        if let Some(beside) = statistic_beside_sentinels([&measured.target, &measured.golden]) {
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
    if !extent.norm.is_finite() && extent.non_finite == [NonFinite::No; 2] {
        extent.measure_by_extremes([&measured.target, &measured.golden]);
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

/// What a dump says of elements that are not finite.
fn recorded(entry: &TensorEntry, numbers: &Numbers) -> NonFinite {
    let [max, min, ..] = numbers;
    // The squares of finite numbers may be infinite.
    let is_finite = max.zip(*min).is_some_and(|(max, min)| max.is_finite() && min.is_finite());
    let mut known = numbers.iter().flatten();
    match entry.non_finite() {
        Some(counts) => NonFinite::of(true, counts.nan > 0),
        None => NonFinite::of(
            !is_finite && known.clone().any(|number| !number.is_finite()),
            known.any(|number| number.is_nan()),
        ),
    }
}

/// The smallest number above zero, or what float32 keeps to its full precision, if that is larger.
fn smallest(dtype: DType) -> f64 {
    dtype.float_limits().map_or(0.0, |limits| limits.min_positive).max(1e-38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_known_to_a_tenth() {
        for (mean, spread) in [(0.0, 1.0), (1.0, 1.0), (30.0, 0.5), (-100.0, 1.0)] {
            let rms = f64::hypot(mean, spread);
            let told = rms * SpreadShare::of(mean, rms).share();
            assert!((told / spread - 1.0).abs() < 0.1, "{mean} {spread}: {told}");
        }
        // More is not seen, and nothing of zeros.
        assert!((SpreadShare::of(1.0, 1.0).share() - SpreadShare::LEAST).abs() < 1e-9);
        assert_eq!(SpreadShare::of(0.0, 0.0), SpreadShare::default());
    }

    #[test]
    fn the_roundoff_of_every_dtype_is_exact_in_one_byte() {
        for dtype in DType::ALL {
            let unit = unit_roundoff(dtype);
            assert_eq!(Roundoff::of(unit).unit(), unit, "{dtype:?}");
        }
    }

    #[test]
    fn an_extent_stays_small() {
        assert_eq!(size_of::<Option<TensorError>>(), 56);
    }
}
