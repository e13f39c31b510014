//! The element types Ulpscope measures, and the names people know them by.

use std::fmt;
use std::str::FromStr;

use crate::float8::{self, Table};

/// The type of a tensor's elements. All are stored little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// OCP 8-bit float, 4 exponent bits, no infinities, NaN at all-ones.
    F8E4M3FN,
    /// OCP 8-bit float, 5 exponent bits, with infinities.
    F8E5M2,
    /// 8-bit float, 4 exponent bits, bias 8, one zero, one NaN (0x80).
    F8E4M3FNUZ,
    /// 8-bit float, 5 exponent bits, bias 16, one zero, one NaN (0x80).
    F8E5M2FNUZ,
    /// OCP MX scale: a power of two, no sign, no zero.
    F8E8M0,
    /// Huawei's HiFloat8: tapered precision, prefix-coded exponent width.
    HiF8,
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

impl DType {
    /// Every dtype, in the order of the enum.
    pub const ALL: [DType; 21] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::F8E4M3FN,
        DType::F8E5M2,
        DType::F8E4M3FNUZ,
        DType::F8E5M2FNUZ,
        DType::F8E8M0,
        DType::HiF8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::Bool,
        DType::C64,
        DType::C128,
    ];

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::F8E4M3FN
            | DType::F8E5M2
            | DType::F8E4M3FNUZ
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::HiF8
            | DType::I8
            | DType::U8
            | DType::Bool => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// The name torch gives it, without the `torch.` prefix (`hifloat8`, which torch lacks, follows suit).
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "float64",
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F8E4M3FN => "float8_e4m3fn",
            DType::F8E5M2 => "float8_e5m2",
            DType::F8E4M3FNUZ => "float8_e4m3fnuz",
            DType::F8E5M2FNUZ => "float8_e5m2fnuz",
            DType::F8E8M0 => "float8_e8m0fnu",
            DType::HiF8 => "hifloat8",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::U8 => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::Bool => "bool",
            DType::C64 => "complex64",
            DType::C128 => "complex128",
        }
    }

    /// The decoding table of an 8-bit float, and nothing for any other dtype.
    pub const fn float8_table(self) -> Option<&'static Table> {
        Some(match self {
            DType::F8E4M3FN => &float8::E4M3FN,
            DType::F8E5M2 => &float8::E5M2,
            DType::F8E4M3FNUZ => &float8::E4M3FNUZ,
            DType::F8E5M2FNUZ => &float8::E5M2FNUZ,
            DType::F8E8M0 => &float8::E8M0,
            DType::HiF8 => &float8::HIF8,
            _ => return None,
        })
    }

    /// Real floating point of any width.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16) || self.float8_table().is_some()
    }

    /// Signed or unsigned integer; `Bool` is not one.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            DType::I8
                | DType::I16
                | DType::I32
                | DType::I64
                | DType::U8
                | DType::U16
                | DType::U32
                | DType::U64
        )
    }

    /// Complex of either width.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A dtype name that nobody here knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype {0:?}")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    /// Accepts torch's names with or without `torch.`, numpy's, and torch's short spellings (`half`, `double`).
    fn from_str(text: &str) -> Result<DType, UnknownDType> {
        let name = text.strip_prefix("torch.").unwrap_or(text);
        Ok(match name {
            "half" => DType::F16,
            "float" => DType::F32,
            "double" => DType::F64,
            "long" => DType::I64,
            "int" => DType::I32,
            "short" => DType::I16,
            "bool_" => DType::Bool,
            "cfloat" => DType::C64,
            "cdouble" => DType::C128,
            "float8_e8m0" => DType::F8E8M0,
            _ => match DType::ALL.into_iter().find(|dtype| dtype.name() == name) {
                Some(dtype) => dtype,
                None => return Err(UnknownDType(text.to_owned())),
            },
        })
    }
}
