//! How the bits of an element represent its value. Passes over elements are written for encodings, so that a dtype
//! with a known encoding needs no code: every 8-bit float is a table.

use half::{bf16, f16};

use crate::Scalar;
use crate::float8::Float8;

/// The encoding of a dtype's elements, little-endian.
#[derive(Clone, Copy, Debug)]
pub enum Encoding {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// An 8-bit float, decoded by its table.
    Float8(&'static Float8),
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// One byte, zero or not.
    Bool,
    /// Two binary32: real, imaginary.
    C64,
    /// Two binary64: real, imaginary.
    C128,
}

/// The kind of number that an encoding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// Real floating point.
    Float,
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// True or false.
    Bool,
    /// Complex: two floats.
    Complex,
}

/// Precision and range of a float; of a complex number, those of its parts. Roundoff, tolerances and sentinels derive
/// from them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatLimits {
    /// Bits after the point of the numbers from 1 to 2.
    pub mantissa_bits: u32,
    /// The largest finite number.
    pub max: f64,
    /// The smallest number above zero, subnormal ones included.
    pub min_positive: f64,
}

const F64_LIMITS: FloatLimits =
    FloatLimits { mantissa_bits: f64::MANTISSA_DIGITS - 1, max: f64::MAX, min_positive: f64::from_bits(1) };

const F32_LIMITS: FloatLimits = FloatLimits {
    mantissa_bits: f32::MANTISSA_DIGITS - 1,
    max: f32::MAX as f64,
    min_positive: f32::from_bits(1) as f64,
};

const F16_LIMITS: FloatLimits = FloatLimits {
    mantissa_bits: f16::MANTISSA_DIGITS - 1,
    max: f16::MAX.to_f64_const(),
    min_positive: f16::from_bits(1).to_f64_const(),
};

const BF16_LIMITS: FloatLimits = FloatLimits {
    mantissa_bits: bf16::MANTISSA_DIGITS - 1,
    max: bf16::MAX.to_f64_const(),
    min_positive: bf16::from_bits(1).to_f64_const(),
};

impl Encoding {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Encoding::C128 => 16,
            Encoding::F64 | Encoding::I64 | Encoding::U64 | Encoding::C64 => 8,
            Encoding::F32 | Encoding::I32 | Encoding::U32 => 4,
            Encoding::F16 | Encoding::BF16 | Encoding::I16 | Encoding::U16 => 2,
            Encoding::Float8(_) | Encoding::I8 | Encoding::U8 | Encoding::Bool => 1,
        }
    }

    /// The kind of number.
    pub const fn kind(self) -> NumberKind {
        match self {
            Encoding::F64 | Encoding::F32 | Encoding::F16 | Encoding::BF16 | Encoding::Float8(_) => {
                NumberKind::Float
            }
            Encoding::I8 | Encoding::I16 | Encoding::I32 | Encoding::I64 => NumberKind::Signed,
            Encoding::U8 | Encoding::U16 | Encoding::U32 | Encoding::U64 => NumberKind::Unsigned,
            Encoding::Bool => NumberKind::Bool,
            Encoding::C64 | Encoding::C128 => NumberKind::Complex,
        }
    }

    /// Precision and range of a float or of the parts of a complex number; `None` if values are exact.
    pub const fn float_limits(self) -> Option<FloatLimits> {
        match self {
            Encoding::F64 | Encoding::C128 => Some(F64_LIMITS),
            Encoding::F32 | Encoding::C64 => Some(F32_LIMITS),
            Encoding::F16 => Some(F16_LIMITS),
            Encoding::BF16 => Some(BF16_LIMITS),
            Encoding::Float8(float) => Some(float.limits),
            Encoding::I8 | Encoding::I16 | Encoding::I32 | Encoding::I64 => None,
            Encoding::U8 | Encoding::U16 | Encoding::U32 | Encoding::U64 | Encoding::Bool => None,
        }
    }

    /// Decodes the first element of `bytes`.
    pub(crate) fn read(self, bytes: &[u8]) -> Scalar {
        /// The first `N` bytes as an array.
        fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
            *bytes.first_chunk().expect("one whole element")
        }
        match self {
            Encoding::F64 => Scalar::Float(f64::from_le_bytes(head(bytes))),
            Encoding::F32 => Scalar::Float(f32::from_le_bytes(head(bytes)).into()),
            Encoding::F16 => Scalar::Float(f16::from_le_bytes(head(bytes)).into()),
            Encoding::BF16 => Scalar::Float(bf16::from_le_bytes(head(bytes)).into()),
            Encoding::Float8(float) => Scalar::Float(float.table[usize::from(bytes[0])].into()),
            Encoding::I8 => Scalar::Int(i8::from_le_bytes(head(bytes)).into()),
            Encoding::I16 => Scalar::Int(i16::from_le_bytes(head(bytes)).into()),
            Encoding::I32 => Scalar::Int(i32::from_le_bytes(head(bytes)).into()),
            Encoding::I64 => Scalar::Int(i64::from_le_bytes(head(bytes)).into()),
            Encoding::U8 => Scalar::Int(bytes[0].into()),
            Encoding::U16 => Scalar::Int(u16::from_le_bytes(head(bytes)).into()),
            Encoding::U32 => Scalar::Int(u32::from_le_bytes(head(bytes)).into()),
            Encoding::U64 => Scalar::Int(u64::from_le_bytes(head(bytes)).into()),
            Encoding::Bool => Scalar::Bool(bytes[0] != 0),
            Encoding::C64 => Scalar::Complex(
                f32::from_le_bytes(head(bytes)).into(),
                f32::from_le_bytes(head(&bytes[4..])).into(),
            ),
            Encoding::C128 => {
                Scalar::Complex(f64::from_le_bytes(head(bytes)), f64::from_le_bytes(head(&bytes[8..])))
            }
        }
    }

    /// Appends a real number, if it is represented exactly; returns whether it is.
    pub(crate) fn write_exact(self, value: Scalar, out: &mut Vec<u8>) -> bool {
        /// Extends `out`, if there are bytes.
        fn put<const N: usize>(bytes: Option<[u8; N]>, out: &mut Vec<u8>) -> bool {
            out.extend(bytes.iter().flatten());
            bytes.is_some()
        }
        macro_rules! float {
            ($float:ty, $from:expr) => {{
                let cast: Option<$float> = exact_float(value).map($from);
                let exact = cast.filter(|cast| is_same(exact_float(value), f64::from(*cast)));
                put(exact.map(|cast| cast.to_le_bytes()), out)
            }};
        }
        macro_rules! integer {
            ($int:ty) => {
                put(
                    exact_integer(value)
                        .and_then(|value| <$int>::try_from(value).ok())
                        .map(<$int>::to_le_bytes),
                    out,
                )
            };
        }
        match self {
            Encoding::F64 => float!(f64, |value| value),
            Encoding::F32 => float!(f32, |value| value as f32),
            Encoding::F16 => float!(f16, f16::from_f64),
            Encoding::BF16 => float!(bf16, bf16::from_f64),
            Encoding::Float8(float) => {
                let code = exact_float(value).and_then(|value| float.code_of(value));
                put(code.map(|code| [code]), out)
            }
            Encoding::I8 => integer!(i8),
            Encoding::I16 => integer!(i16),
            Encoding::I32 => integer!(i32),
            Encoding::I64 => integer!(i64),
            Encoding::U8 => integer!(u8),
            Encoding::U16 => integer!(u16),
            Encoding::U32 => integer!(u32),
            Encoding::U64 => integer!(u64),
            Encoding::Bool => {
                let byte = exact_integer(value).and_then(|value| u8::try_from(value).ok());
                put(byte.filter(|byte| *byte <= 1).map(|byte| [byte]), out)
            }
            Encoding::C64 | Encoding::C128 => false,
        }
    }
}

fn is_same(value: Option<f64>, back: f64) -> bool {
    value.is_some_and(|value| value == back || (value.is_nan() && back.is_nan()))
}

/// A real number as a double, unless that changes its value.
fn exact_float(value: Scalar) -> Option<f64> {
    match value {
        Scalar::Float(value) => Some(value),
        Scalar::Int(value) => Some(value as f64).filter(|float| *float as i128 == value),
        Scalar::Bool(value) => Some(f64::from(u8::from(value))),
        Scalar::Complex(..) => None,
    }
}

/// A real number as an integer, unless that changes its value.
fn exact_integer(value: Scalar) -> Option<i128> {
    match value {
        Scalar::Float(value) => Some(value as i128).filter(|whole| *whole as f64 == value),
        Scalar::Int(value) => Some(value),
        Scalar::Bool(value) => Some(value.into()),
        Scalar::Complex(..) => None,
    }
}
