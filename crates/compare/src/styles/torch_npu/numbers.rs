//! Cosine, RMSE and MAPE of two vectors, as torch_npu.hooks computes them.
//!
//! The tool leaves the order of its sums to whatever BLAS is installed, so that the last digits of its results change
//! from machine to machine. Here the order is fixed.
//!
//! A vector is a tensor, or a sample: a list of numbers in a line of the dump, which no kernel supports. So the sums
//! are computed here, in one pass over the elements in place.

/// Sums in lanes.
const LANES: usize = 8;

/// A difference above this share of golden, by norms, is a failure. The tool has no verdict; this one only decides
/// how the comparison as a whole ends.
const FAILING_SHARE: f64 = 0.01;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    /// Half of one plus the cosine: 1 for the same direction, 0 for the opposite one; NaN where one is zero.
    pub(super) similarity: f64,
    /// The root of the mean squared difference.
    pub(super) rmse: f64,
    /// The mean relative difference in percent; NaN where zero meets zero, infinite where only golden is zero.
    pub(super) mape: f64,
    /// Whether they agree well enough.
    pub(super) passes: bool,
}

/// Measures the pairs of two vectors of equal length, in one pass.
pub(super) fn measure(pairs: impl Iterator<Item = (f64, f64)>) -> Numbers {
    let mut count = 0;
    let mut equal = true;
    let [mut target, mut golden, mut dot, mut squares, mut shares] = [Sum::default(); 5];
    for (n, b) in pairs {
        target.add(count, n * n);
        golden.add(count, b * b);
        dot.add(count, n * b);
        squares.add(count, (n - b) * (n - b));
        shares.add(count, ((n - b) / b).abs());
        equal &= n == b || (n.is_nan() && b.is_nan());
        count += 1;
    }
    let (target_norm, golden_norm) = (target.total().sqrt(), golden.total().sqrt());
    let distance = squares.total().sqrt();
    let count = count as f64;
    Numbers {
        similarity: 0.5 + 0.5 * (dot.total() / (target_norm * golden_norm)),
        rmse: distance / count.sqrt(),
        mape: shares.total() / count * 100.0,
        passes: equal || distance <= FAILING_SHARE * golden_norm,
    }
}

/// A sum in lanes.
#[derive(Clone, Copy, Default)]
struct Sum([f64; LANES]);

impl Sum {
    fn add(&mut self, index: usize, value: f64) {
        self.0[index % LANES] += value;
    }

    fn total(self) -> f64 {
        let [a, b, c, d, e, f, g, h] = self.0;
        // Folded in halves, as a vector register is.
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
}

/// NumPy's `round(value, 4)`: scaled, rounded to even, scaled back.
pub(super) fn four_decimals(value: f64) -> f64 {
    const SCALE: f64 = 1e4;
    (value * SCALE).round_ties_even() / SCALE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(target: &[f64], golden: &[f64]) -> Numbers {
        super::measure(target.iter().copied().zip(golden.iter().copied()))
    }

    #[test]
    fn directions_range_from_0_to_1() {
        assert_eq!(measure(&[3.0, 4.0], &[6.0, 8.0]).similarity, 1.0);
        assert!(measure(&[1.0, 2.0], &[-1.0, -2.0]).similarity.abs() < 1e-15);
        assert!(measure(&[0.0, 0.0], &[1.0, 2.0]).similarity.is_nan());
    }

    #[test]
    fn errors_are_per_element() {
        let numbers = measure(&[1.5, 3.0, 0.0, 6.0], &[1.0, 2.0, -2.0, 4.0]);
        assert_eq!(numbers.rmse, (9.25f64 / 4.0).sqrt());
        assert_eq!(numbers.mape, 62.5);
        assert!(measure(&[0.0], &[0.0]).mape.is_nan());
        assert!(measure(&[1.0], &[0.0]).mape.is_infinite());
        assert_eq!(four_decimals(0.000_25), 0.0002);
        assert_eq!(four_decimals(185.089_91), 185.0899);
    }

    #[test]
    fn the_exit_code_goes_by_the_size_of_the_difference() {
        assert!(measure(&[1.009, 0.0], &[1.0, 0.0]).passes);
        assert!(!measure(&[1.5, 3.0], &[1.0, 2.0]).passes, "the same direction is not the same value");
        assert!(!measure(&[1e-9, 0.0], &[0.0, 0.0]).passes);
        assert!(measure(&[f64::NAN, 1.0], &[f64::NAN, 1.0]).passes);
        assert!(!measure(&[f64::NAN, 1.0], &[1.0, 1.0]).passes);
    }
}
