//! How large an error rounding explains.
//!
//! A result of a dtype with unit roundoff `u` is off by up to `u` of itself for having been rounded once on either side.
//! Sums of `k` terms are kept in float32 by every kernel for float32 and the halves (a sum kept in bfloat16 is a fault that
//! we want to see), in another order in another kernel, and errors add up like steps of a random walk: `√k` of
//! float32's roundoff, at the size of what was summed up, which may be far larger than the sum.

use ulpscope_tensor::DType;

/// The roundoff of float32, in which kernels sum up.
pub(super) const ACCUMULATOR: f64 = 1.0 / 16_777_216.0;

/// Half a unit in the last place of 1. Integers and truth values are exact.
pub(super) fn unit_roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::C128 => f64::EPSILON / 2.0,
        DType::F32 | DType::C64 => ACCUMULATOR,
        DType::F16 => 1.0 / 2048.0,
        DType::BF16 => 1.0 / 256.0,
        dtype if dtype.is_float() => 1.0 / 16.0,
        _ => 0.0,
    }
}

/// The relative error of a result of `unit`, summed up from `terms`.
pub(super) fn own_error(unit: f64, terms: f64) -> f64 {
    // Both sides are rounded, and a kernel may round some intermediate results too: four roundings.
    4.0 * unit + ACCUMULATOR.min(unit) * terms.max(1.0).sqrt()
}
