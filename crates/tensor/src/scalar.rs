//! One element, decoded without loss: for printing, exact integer extrema and small conversions.

use half::{bf16, f16};

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
        /// The first `N` bytes as an array.
        fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
            *bytes.first_chunk().expect("one whole element")
        }
        if let Some(table) = dtype.float8_table() {
            return Scalar::Float(table[usize::from(bytes[0])].into());
        }
        match dtype {
            DType::F64 => Scalar::Float(f64::from_le_bytes(head(bytes))),
            DType::F32 => Scalar::Float(f32::from_le_bytes(head(bytes)).into()),
            DType::F16 => Scalar::Float(f16::from_le_bytes(head(bytes)).into()),
            DType::BF16 => Scalar::Float(bf16::from_le_bytes(head(bytes)).into()),
            DType::I8 => Scalar::Int(i8::from_le_bytes(head(bytes)).into()),
            DType::I16 => Scalar::Int(i16::from_le_bytes(head(bytes)).into()),
            DType::I32 => Scalar::Int(i32::from_le_bytes(head(bytes)).into()),
            DType::I64 => Scalar::Int(i64::from_le_bytes(head(bytes)).into()),
            DType::U8 => Scalar::Int(bytes[0].into()),
            DType::U16 => Scalar::Int(u16::from_le_bytes(head(bytes)).into()),
            DType::U32 => Scalar::Int(u32::from_le_bytes(head(bytes)).into()),
            DType::U64 => Scalar::Int(u64::from_le_bytes(head(bytes)).into()),
            DType::Bool => Scalar::Bool(bytes[0] != 0),
            DType::C64 => Scalar::Complex(
                f32::from_le_bytes(head(bytes)).into(),
                f32::from_le_bytes(head(&bytes[4..])).into(),
            ),
            DType::C128 => {
                Scalar::Complex(f64::from_le_bytes(head(bytes)), f64::from_le_bytes(head(&bytes[8..])))
            }
            _ => unreachable!("{dtype} has a table"),
        }
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
