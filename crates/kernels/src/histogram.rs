//! How the values of a tensor are distributed: in equal bins, and by power of two.

use ulpscope_tensor::View;

use crate::blocks::{BLOCK, SPAN, Threads, over_spans};
use crate::compare::ExponentHistogram;
use crate::decoded::Decoded;

/// The exponents of f64: from the smallest subnormal to the largest number.
const LEAST_EXPONENT: i32 = -1074;
const EXPONENTS: usize = 1074 + 1024;

/// Values of a tensor by size. What is not finite is in none of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueHistogram {
    /// Finite values in equal bins between two bounds; the last bin includes its upper bound.
    pub bins: Vec<u64>,
    /// Values by power of two: `2^e ≤ |x| < 2^(e+1)`, and zeros.
    pub magnitudes: ExponentHistogram,
}

/// Counts the values of a tensor in bins between two bounds, and by power of two. Values outside the bounds are in no bin.
pub fn value_histogram(view: &View<'_>, bounds: [f64; 2], bins: usize, threads: Threads) -> ValueHistogram {
    let [low, high] = bounds;
    // Half the range, so that it is finite for any two numbers.
    let scale = if bins == 0 { 0.0 } else { bins as f64 / 2.0 / (high / 2.0 - low / 2.0) };
    let empty = || (vec![0u64; bins], vec![0u64; EXPONENTS], 0u64);
    let counted = over_spans(
        view.len(),
        threads,
        |span| {
            let (mut counts, mut exponents, mut zeros) = empty();
            let mut decoded = Decoded::default();
            for start in span.clone().step_by(BLOCK) {
                let [values] = decoded.read([Some(view)], start..span.end.min(start + BLOCK));
                for &value in values.iter().filter(|value| value.is_finite()) {
                    if bins > 0 && value >= low && value <= high {
                        let bin = (value / 2.0 - low / 2.0) * 2.0 * scale;
                        counts[if bin.is_finite() { (bin as usize).min(bins - 1) } else { 0 }] += 1;
                    }
                    if value == 0.0 {
                        zeros += 1;
                    } else {
                        exponents[(exponent(value) - LEAST_EXPONENT) as usize] += 1;
                    }
                }
            }
            (counts, exponents, zeros)
        },
        |mut one, other| {
            one.0.iter_mut().zip(&other.0).for_each(|(count, more)| *count += more);
            one.1.iter_mut().zip(&other.1).for_each(|(count, more)| *count += more);
            one.2 += other.2;
            one
        },
    );
    const { assert!(SPAN.is_multiple_of(BLOCK)) }
    let (bins, exponents, zeros) = counted;
    let rows = (LEAST_EXPONENT..).zip(exponents).filter(|(_, count)| *count > 0).collect();
    ValueHistogram { bins, magnitudes: ExponentHistogram { zeros, rows } }
}

/// The power of two at or below a finite number that is not zero.
fn exponent(value: f64) -> i32 {
    let bits = value.to_bits();
    let field = (bits >> 52 & 0x7ff) as i32;
    if field > 0 {
        return field - 1023;
    }
    let mantissa = bits & ((1 << 52) - 1);
    LEAST_EXPONENT + 63 - mantissa.leading_zeros() as i32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use ulpscope_tensor::DType;

    fn histogram(values: &[f64], bounds: [f64; 2], bins: usize) -> ValueHistogram {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = View::contiguous(DType::F64, vec![values.len()], &bytes).unwrap();
        value_histogram(&view, bounds, bins, Threads::One)
    }

    #[test]
    fn values_are_in_their_bins() {
        let found =
            histogram(&[0.0, 0.24, 0.25, 0.5, 1.0, -1.0, 2.0, f64::NAN, f64::INFINITY], [0.0, 1.0], 4);
        assert_eq!(found.bins, [2, 1, 1, 1]);
        assert_eq!(found.magnitudes.zeros, 1);
        assert_eq!(found.magnitudes.rows, [(-3, 1), (-2, 1), (-1, 1), (0, 2), (1, 1)]);
    }

    #[test]
    fn extreme_values_have_a_place() {
        let found = histogram(&[f64::MAX, -f64::MAX, 5e-324, f64::MIN_POSITIVE], [-f64::MAX, f64::MAX], 2);
        assert_eq!(found.bins.iter().sum::<u64>(), 4);
        assert_eq!(found.magnitudes.rows, [(-1074, 1), (-1022, 1), (1023, 2)]);
        assert_eq!(histogram(&[3.0, 3.0], [3.0, 3.0], 8).bins.iter().sum::<u64>(), 2);
        assert_eq!(histogram(&[], [0.0, 1.0], 3).bins, [0, 0, 0]);
    }

    #[test]
    fn threads_change_nothing() {
        let values: Vec<f64> = (0..3 * SPAN + 17).map(|number| (number as f64).sin()).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let view = View::contiguous(DType::F64, vec![values.len()], &bytes).unwrap();
        let [one, all] =
            [Threads::One, Threads::All].map(|threads| value_histogram(&view, [-1.0, 1.0], 64, threads));
        assert_eq!(one, all);
        assert_eq!(one.bins.iter().sum::<u64>(), values.len() as u64);
    }
}
