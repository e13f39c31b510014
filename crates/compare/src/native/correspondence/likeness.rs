//! How alike two values are by their statistics, which do not depend on the order of elements: a value and its transpose
//! are alike.

use super::super::measure::Numbers;

/// An extreme so many times as large as the other one is a sentinel, such as the lowest number of a dtype in a mask.
pub(super) const SENTINEL: f64 = 64.0;

/// Nothing below this is taken for a sentinel.
const SMALLEST_SENTINEL: f64 = 5e3;

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
        (Some(max), Some(min)) => {
            largest > SMALLEST_SENTINEL && larger(min) > SENTINEL * larger(max).max(1e-30)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_counts() {
        let one = [Some(1.0), Some(-1.0), Some(0.0), Some(8.0)];
        let other = [Some(1.0), Some(-0.5), Some(0.0), Some(8.0)];
        assert_eq!(distance(64, &one, &one), Some(0.0));
        assert_eq!(distance(64, &one, &other), Some(0.5));
        // A mean is held against the size of an ordinary element.
        let moved = [Some(1.0), Some(-1.0), Some(0.25), Some(8.0)];
        assert_eq!(distance(64, &one, &moved), Some(0.25));
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
