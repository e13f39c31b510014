//! How far apart two tensors may be before it means something.
//!
//! Two programs that compute the same in another order differ in the last digits, and a network carries these on
//! from call to call. A limit that knows only the dtype cannot tell such noise from a small fault; what it can do
//! is to keep two thirds of the digits: `eps^(2/3)`, some two hundred roundings in float32, a handful in bfloat16.
//! The coarser dtype of a pair sets the limit.

use std::sync::LazyLock;

use ulpscope_tensor::DType;

use crate::native::thresholds::limit::DIGITS;

/// The relative distance (L2) that two tensors of these dtypes may have.
pub(crate) fn limit(target: DType, golden: DType) -> f64 {
    of_dtype(target).max(of_dtype(golden))
}

/// `eps^(2/3)`, rounded to two digits. Integers and truth values are exact: they are equal or they are not.
static LIMITS: LazyLock<[f64; DType::ALL.len()]> = LazyLock::new(|| {
    DType::ALL
        .map(|dtype| dtype.float_limits().map_or(0.0, |limits| with_bits(f64::from(limits.mantissa_bits))))
});

/// The limit of numbers with so many bits behind the point.
fn with_bits(bits: f64) -> f64 {
    // Not the system's power function: its last bit differs from machine to machine.
    let kept = libm::exp2(-DIGITS.get() * bits);
    format!("{kept:.1e}").parse().unwrap_or(kept)
}

/// The limit of numbers with this unit roundoff.
pub(in crate::native) fn limit_of_unit(unit: f64) -> f64 {
    with_bits(-libm::log2(2.0 * unit))
}

fn of_dtype(dtype: DType) -> f64 {
    LIMITS[dtype as usize]
}

/// A limit in one byte: it is that of some dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::native) struct LimitNumber(u8);

impl LimitNumber {
    /// Of a limit that [`limit`] returned.
    pub(in crate::native) fn of(limit: f64) -> LimitNumber {
        LimitNumber(LIMITS.iter().position(|&known| known == limit).unwrap_or_default() as u8)
    }

    /// The limit.
    pub(in crate::native) fn limit(self) -> f64 {
        LIMITS[usize::from(self.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_thirds_of_the_digits_are_kept() {
        let digits = [
            (DType::F64, 52),
            (DType::F32, 23),
            (DType::F16, 10),
            (DType::BF16, 7),
            (DType::F8E4M3FN, 3),
            (DType::F8E5M2, 2),
            (DType::F8E8M0, 0),
        ];
        for (dtype, bits) in digits {
            let kept = libm::exp2(-2.0 / 3.0 * f64::from(bits));
            assert!((limit(dtype, dtype) / kept - 1.0).abs() < 0.02, "{dtype:?}: {kept}");
        }
        let all = [DType::C128, DType::C64, DType::F16, DType::BF16, DType::F8E5M2FNUZ, DType::HiF8];
        assert_eq!(all.map(|dtype| limit(dtype, dtype)), [3.7e-11, 2.4e-5, 9.8e-3, 3.9e-2, 0.4, 0.25]);
    }

    #[test]
    fn the_coarser_dtype_sets_the_limit_and_exact_values_have_none() {
        let [coarse, fine] = [DType::BF16, DType::F32];
        assert_eq!(limit(coarse, fine), limit(coarse, coarse));
        assert_eq!(limit(fine, coarse), limit(coarse, coarse));
        assert_eq!(limit(DType::I64, DType::Bool), 0.0);
    }

    #[test]
    fn every_limit_fits_into_a_byte() {
        for dtype in DType::ALL {
            let limit = limit(dtype, DType::I8);
            assert_eq!(LimitNumber::of(limit).limit(), limit, "{dtype:?}");
        }
    }
}
