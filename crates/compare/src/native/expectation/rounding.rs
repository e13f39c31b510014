//! How large an error rounding explains.
//!
//! A result of a dtype with unit roundoff `u` is off by up to `u` of itself for having been rounded once on either side.
//! Sums of `k` terms are kept in float32 by every kernel for float32 and the halves (a sum kept in bfloat16 is a fault that
//! we want to see), in another order in another kernel, and errors add up like steps of a random walk: `√k` of
//! float32's roundoff, at the size of what was summed up, which may be far larger than the sum.

use ulpscope_tensor::DType;

use crate::finding::Precision;
use crate::native::thresholds::rounding::{LIKE_PRECISION, ROUNDINGS};

/// The roundoff of float32, in which kernels sum up.
pub(in crate::native) const ACCUMULATOR: f64 = 1.0 / 16_777_216.0;

/// Half a unit in the last place of 1. Integers and truth values are exact.
pub(crate) fn unit_roundoff(dtype: DType) -> f64 {
    dtype.float_limits().map_or(0.0, |limits| 0.5 / (1u64 << limits.mantissa_bits) as f64)
}

/// The relative error of a result of `unit`, summed up from `terms`.
pub(crate) fn own_error(unit: f64, terms: f64) -> f64 {
    ROUNDINGS.get() * unit + ACCUMULATOR.min(unit) * terms.max(1.0).sqrt()
}

/// The precision that an error of this relative size, spread over all elements, looks like.
///
/// Rounded to `p` bits behind the point, numbers whose sizes are spread evenly on a logarithmic scale are off by
/// `0.735 · 2^-(p+1) / √3` in the root of the mean square; a product of two such factors, rounded itself, by up to `√3` of it.
pub(in crate::native) fn looks_like(relative: f64) -> Option<Precision> {
    let precisions = [(1.0 / 2048.0, Precision::Ten), (1.0 / 256.0, Precision::Seven)];
    let (root, margin) = (3f64.sqrt(), LIKE_PRECISION.get());
    let is_like = |unit: f64| {
        let rounded = 0.735 * unit / root;
        (rounded / margin..=rounded * root * margin).contains(&relative)
    };
    precisions.into_iter().find(|(unit, _)| is_like(*unit)).map(|(_, precision)| precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from 0 to 1, always the same for a seed.
    fn uniform(seed: u64) -> impl Iterator<Item = f32> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        })
    }

    /// A number is rounded by up to a unit of roundoff, and some by nearly as much.
    #[test]
    fn roundoff_is_what_rounding_does() {
        let largest = |round: fn(f64) -> f64| {
            let values =
                uniform(1).zip(uniform(2)).map(|(one, other)| 1.0 + f64::from(one) + f64::from(other) * 1e-8);
            values.take(20_000).map(|value| (round(value) / value - 1.0).abs()).fold(0.0, f64::max)
        };
        let rounded = [
            (DType::F32, largest(|value| f64::from(value as f32))),
            (DType::F16, largest(|value| half::f16::from_f64(value).to_f64())),
            (DType::BF16, largest(|value| half::bf16::from_f64(value).to_f64())),
        ];
        for (dtype, largest) in rounded {
            let share = largest / unit_roundoff(dtype);
            assert!((0.9..=1.0).contains(&share), "{dtype:?}: {share}");
        }
        assert_eq!(unit_roundoff(DType::I32), 0.0);
        assert_eq!(unit_roundoff(DType::C64), ACCUMULATOR);
        assert_eq!(unit_roundoff(DType::F64), f64::EPSILON / 2.0);
        // Powers of two.
        assert_eq!(unit_roundoff(DType::F8E8M0), 0.5);
    }

    /// The error of sums in float32, one term after the other, in the mean square of many and how often it is larger than
    /// expected; relative to what is summed up.
    fn of_sums(terms: usize, middle: f32) -> (f64, f64) {
        const SUMS: u64 = 200;
        let expected = own_error(ACCUMULATOR, terms as f64);
        let (mut squares, mut larger) = (0.0, 0.0);
        for seed in 0..SUMS {
            let (mut sum, mut exact, mut size) = (0.0f32, 0.0f64, 0.0f64);
            for term in uniform(seed).take(terms).map(|term| term - middle) {
                sum += term;
                exact += f64::from(term);
                size += f64::from(term) * f64::from(term);
            }
            let error = (f64::from(sum) - exact).abs() / size.sqrt().max(exact.abs());
            squares += error * error;
            larger += f64::from(u8::from(error > expected));
        }
        ((squares / SUMS as f64).sqrt() / expected, larger / SUMS as f64)
    }

    /// A bound for nearly all sums that is not far from what they have: no lower than the mean square, and no more than
    /// eight times that where the length of the sum is what matters.
    #[test]
    fn sums_differ_by_a_random_walk() {
        for terms in [4, 64, 1_024, 16_384] {
            // Terms of both signs, which nearly cancel, and of one.
            for middle in [0.5, 0.0] {
                let (usual, larger) = of_sums(terms, middle);
                let least = if terms > 16 * 16 { 1.0 / 8.0 } else { 0.0 };
                assert!((least..=1.0).contains(&usual), "{terms} terms about {middle}: {usual}");
                assert!(larger <= 0.01, "{terms} terms about {middle}: {larger} of them are larger");
            }
        }
    }

    /// Products of factors that are rounded, or not, and are rounded themselves, or not.
    #[test]
    fn rounded_products_look_like_their_precision() {
        let round = |value: f64, bits: i32| {
            (value * libm::exp2(f64::from(bits))).round() / libm::exp2(f64::from(bits))
        };
        for (bits, precision) in [(10, Precision::Ten), (7, Precision::Seven)] {
            for (factors, result) in [(true, false), (false, true), (true, true)] {
                let (mut errors, mut squares) = (0.0, 0.0);
                for (one, other) in uniform(5).zip(uniform(6)).take(10_000) {
                    // From 1 to 2, spread evenly on a logarithmic scale.
                    let [one, other] = [one, other].map(|power| libm::exp2(f64::from(power)));
                    let [a, b] =
                        [one, other].map(|factor| if factors { round(factor, bits) } else { factor });
                    // Products from 2 to 4 have one bit less behind the point.
                    let last = if a * b >= 2.0 { bits - 1 } else { bits };
                    let product = if result { round(a * b, last) } else { a * b };
                    errors += (product - one * other).powi(2);
                    squares += (one * other).powi(2);
                }
                assert_eq!(
                    looks_like((errors / squares).sqrt()),
                    Some(precision),
                    "{bits} {factors} {result}"
                );
            }
        }
        assert_eq!([1e-6, 1e-2, 0.5].map(looks_like), [None; 3]);
    }
}
