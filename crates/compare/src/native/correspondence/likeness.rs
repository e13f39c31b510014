//! How alike two values are by their statistics, which do not depend on the order of elements: a value and its transpose
//! are alike.

use crate::native::evidence::measure::Numbers;
use crate::native::thresholds::sentinels::{GAP, LEAST};

/// The largest difference among the statistics of two values of `count` elements, relative to their size; nothing, where
/// they have no statistics in common.
pub(super) fn distance(count: u64, one: &Numbers, other: &Numbers) -> Option<f64> {
    let both: [Option<(f64, f64)>; 4] = std::array::from_fn(|stat| one[stat].zip(other[stat]));
    if both == [None; 4] {
        return None;
    }
    let is_finite = |(one, other): &(f64, f64)| one.is_finite() && other.is_finite();
    let is_same = |(one, other): &(f64, f64)| one == other || one.is_nan() && other.is_nan();
    if both.iter().flatten().any(|pair| !is_finite(pair) && !is_same(pair)) {
        return Some(f64::INFINITY);
    }
    let [max, min, mean, norm] = both.map(|pair| pair.filter(is_finite));
    let larger = |(one, other): (f64, f64)| one.abs().max(other.abs());
    let apart = |(one, other): (f64, f64)| (one - other).abs();
    let share = |part: f64, whole: f64| if part == 0.0 { 0.0 } else { part / whole };
    let largest = [max, min].into_iter().flatten().map(larger).fold(0.0, f64::max);
    // Beside sentinels, the norm is theirs: of the rest, the other extreme tells.
    let is_masked = match (max, min) {
        (Some(max), Some(min)) => largest >= LEAST.get() && larger(min) >= GAP.get() * larger(max).max(1e-30),
        (Some(_), None) => true,
        _ => false,
    };
    if is_masked {
        return max.map(|max| share(apart(max), larger(max)));
    }
    let size = norm.map_or(0.0, larger);
    let ordinary = size / (count.max(1) as f64).sqrt();
    let whole = norm.map_or(0.0, |norm| share(apart(norm), size));
    let middle = mean.filter(|_| ordinary > 0.0).map_or(0.0, |mean| apart(mean) / ordinary);
    let extremes = [max, min].into_iter().flatten().map(|pair| share(apart(pair), largest));
    Some(extremes.fold(whole.max(middle), f64::max))
}

/// The larger difference of mean and norm, relative to the size of the values: what sums over all elements say. Nothing,
/// where they are not known, or say nothing beside sentinels.
pub(super) fn sums_apart(count: u64, one: &Numbers, other: &Numbers) -> Option<f64> {
    let [_, _, mean, norm]: [Option<(f64, f64)>; 4] = std::array::from_fn(|stat| one[stat].zip(other[stat]));
    let (mean, norm) = (mean?, norm?);
    let size = norm.0.max(norm.1);
    let largest =
        [one[0], one[1], other[0], other[1]].into_iter().flatten().map(f64::abs).fold(0.0, f64::max);
    if !(size > 0.0 && size.is_finite()) || largest > LEAST.get() {
        return None;
    }
    let mean = (mean.0 - mean.1).abs() * (count.max(1) as f64).sqrt();
    Some((norm.0 - norm.1).abs().max(mean) / size).filter(|apart| apart.is_finite())
}

/// The larger difference of the extremes, relative to the larger of them; nothing, where they are not known or may be
/// sentinels.
pub(super) fn extremes_apart(one: &Numbers, other: &Numbers) -> Option<f64> {
    let (max, min) = (one[0].zip(other[0])?, one[1].zip(other[1])?);
    let largest = [max.0, max.1, min.0, min.1].map(f64::abs).into_iter().fold(0.0, f64::max);
    let apart = (max.0 - max.1).abs().max((min.0 - min.1).abs());
    (largest > 0.0 && largest < LEAST.get()).then(|| apart / largest).filter(|apart| apart.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_counts() {
        let one = [Some(1.0), Some(-1.0), Some(0.0), Some(8.0)];
        let other = [Some(1.0), Some(-0.5), Some(0.0), Some(8.0)];
        assert_eq!(distance(64, &one, &one), Some(0.0));
        assert_eq!(distance(64, &one, &other), Some(0.5));
        // A mean is compared with the size of an ordinary element.
        let moved = [Some(1.0), Some(-1.0), Some(0.25), Some(8.0)];
        assert_eq!(distance(64, &one, &moved), Some(0.25));
    }

    #[test]
    fn sums_and_extremes_are_compared_apart() {
        let one = [Some(1.0), Some(-2.0), Some(0.5), Some(8.0)];
        let other = [Some(1.0), Some(-1.5), Some(0.25), Some(8.0)];
        // A mean that moves by a quarter moves 64 elements of ordinary size 1 by as much.
        assert_eq!(sums_apart(64, &one, &other), Some(0.25));
        assert_eq!(extremes_apart(&one, &other), Some(0.25));
        assert_eq!(sums_apart(64, &one, &[None; 4]), None);
        let masked = [Some(1.0), Some(f64::from(f32::MIN)), Some(0.5), Some(8.0)];
        assert_eq!((sums_apart(64, &masked, &other), extremes_apart(&masked, &other)), (None, None));
    }

    #[test]
    fn without_statistics_nothing_is_said() {
        assert_eq!(distance(4, &[None; 4], &[Some(1.0); 4]), None);
        let nan = [Some(f64::NAN); 4];
        assert_eq!(distance(4, &nan, &[Some(1.0); 4]), Some(f64::INFINITY));
        assert_eq!(distance(4, &nan, &nan), Some(0.0));
    }

    #[test]
    fn masked_scores_are_compared_by_what_is_not_masked() {
        let lowest = f64::from(f32::MIN);
        let one = [Some(2.0), Some(lowest), Some(lowest / 2.0), Some(-lowest)];
        let other = [Some(3.0), Some(lowest), Some(lowest / 2.0), Some(-lowest)];
        let found = distance(64, &one, &other).expect("both have statistics");
        assert!((found - 1.0 / 3.0).abs() < 1e-12, "{found}");
    }
}
