//! One element, decoded without loss: for printing, exact integer extrema and small conversions.

use crate::DType;

/// One element of any dtype. Integers and booleans keep their kind, so that 2^63 - 1 is printed exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A real float, widened exactly.
    Float(f64),
    /// An integer of any width or signedness.
    Int(i128),
    /// A boolean.
    Bool(bool),
    /// Real and imaginary part, widened exactly.
    Complex(f64, f64),
}

impl Scalar {
    /// Decodes the first element of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is shorter than one element.
    pub fn read(dtype: DType, bytes: &[u8]) -> Scalar {
        dtype.encoding().read(bytes)
    }

    /// Appends the value as an element of a dtype, if that represents it exactly; returns whether it does. Complex
    /// dtypes represent no real number.
    pub fn write_exact(self, dtype: DType, out: &mut Vec<u8>) -> bool {
        dtype.encoding().write_exact(self, out)
    }

    /// The value as a double: integers rounded, booleans as 0 and 1, complex numbers as their modulus.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Float(value) => value,
            Scalar::Int(value) => value as f64,
            Scalar::Bool(value) => f64::from(u8::from(value)),
            Scalar::Complex(re, im) => re.hypot(im),
        }
    }
}
