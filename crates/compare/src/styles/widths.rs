//! NumPy's three widths of floats, computed with in binary64.

use half::f16;
use ulpscope_tensor::DType;

/// What an element is once NumPy has it. Floats that NumPy lacks come as binary32, anything else as binary64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    /// binary16.
    Half,
    /// binary32.
    Single,
    /// binary64.
    Double,
}

impl Width {
    /// The width of a dtype's elements.
    pub(crate) fn of(dtype: DType) -> Width {
        match dtype.numpy_code() {
            _ if !dtype.is_float() => Width::Double,
            Some(_) if dtype.size() == 2 => Width::Half,
            Some(_) if dtype.size() == 8 => Width::Double,
            Some(_) | None => Width::Single,
        }
    }

    /// The distance from one to the next number.
    pub(crate) fn epsilon(self) -> f64 {
        match self {
            Width::Half => f16::EPSILON.to_f64(),
            Width::Single => f32::EPSILON.into(),
            Width::Double => f64::EPSILON,
        }
    }

    /// The sum, as a number of this width.
    pub(crate) fn add(self, a: f64, b: f64) -> f64 {
        self.single_first(a + b)
    }

    /// The difference, as a number of this width.
    pub(crate) fn subtract(self, a: f64, b: f64) -> f64 {
        self.single_first(a - b)
    }

    /// The quotient, as a number of this width.
    pub(crate) fn divide(self, a: f64, b: f64) -> f64 {
        self.single_first(a / b)
    }

    /// Rounds the result of an operation on numbers of this width. Doubles hold twice the digits of binary32 and
    /// some, so that rounding twice is rounding once; binary16 is computed with in binary32 and then rounded, as
    /// NumPy does.
    fn single_first(self, value: f64) -> f64 {
        match self {
            Width::Half => f16::from_f32(value as f32).to_f64(),
            Width::Single => f64::from(value as f32),
            Width::Double => value,
        }
    }
}
