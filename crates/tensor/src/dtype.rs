//! The element types Ulpscope measures: one row for each, with the names and codes that others know it by.

use std::fmt;
use std::str::FromStr;

use crate::encoding::{Encoding, FloatLimits, NumberKind};
use crate::float8;

/// What is known of a dtype.
struct Row {
    /// Torch's name, without the `torch.` prefix (`hifloat8`, which torch lacks, follows suit).
    name: &'static str,
    /// As torch prints it; without the prefix where torch lacks it.
    printed: &'static str,
    /// Other names it is known by.
    aliases: &'static [&'static str],
    /// What its bits mean: kind, size, precision and range derive from it.
    encoding: Encoding,
    /// NumPy's code, where it has one.
    numpy: Option<&'static str>,
    /// Torch's class of storages; dtypes younger than those classes have none.
    storage: Option<&'static str>,
    /// The name in safetensors files, where the format has one.
    safetensors: Option<&'static str>,
    /// The code of its kind in DLPack, which tells widths by bits.
    dlpack: Option<u8>,
    /// The type in ACL dumps, where these have one.
    acl: Option<AclType>,
}

/// An element type of ACL dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclType {
    /// Its number in a protobuf header.
    pub header: i32,
    /// Its number in the runtime, and so in a nano header.
    pub runtime: i32,
    /// Its name.
    pub name: &'static str,
}

const fn acl(header: i32, runtime: i32, name: &'static str) -> Option<AclType> {
    Some(AclType { header, runtime, name })
}

/// Makes the enum and the table of its rows, so that neither can lack what the other has.
macro_rules! dtypes {
    ($($(#[$doc:meta])+ $name:ident: $row:expr;)+) => {
        /// The type of a tensor's elements. All are stored little-endian.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType {
            $($(#[$doc])+ $name,)+
        }

        impl DType {
            /// Every dtype, in the order of the enum.
            pub const ALL: [DType; COUNT] = [$(DType::$name),+];
        }

        const COUNT: usize = [$(stringify!($name)),+].len();

        /// In the order of the enum.
        static ROWS: [Row; COUNT] = [$($row),+];
    };
}

dtypes! {
    /// IEEE binary64.
    F64: Row {
        name: "float64", printed: "torch.float64", aliases: &["double"], encoding: Encoding::F64,
        numpy: Some("<f8"), storage: Some("DoubleStorage"), safetensors: Some("F64"), dlpack: Some(2),
        acl: acl(12, 11, "DOUBLE"),
    };
    /// IEEE binary32.
    F32: Row {
        name: "float32", printed: "torch.float32", aliases: &["float"], encoding: Encoding::F32,
        numpy: Some("<f4"), storage: Some("FloatStorage"), safetensors: Some("F32"), dlpack: Some(2),
        acl: acl(1, 0, "FLOAT"),
    };
    /// IEEE binary16.
    F16: Row {
        name: "float16", printed: "torch.float16", aliases: &["half"], encoding: Encoding::F16,
        numpy: Some("<f2"), storage: Some("HalfStorage"), safetensors: Some("F16"), dlpack: Some(2),
        acl: acl(2, 1, "FLOAT16"),
    };
    /// The upper half of a binary32.
    BF16: Row {
        name: "bfloat16", printed: "torch.bfloat16", aliases: &[], encoding: Encoding::BF16,
        numpy: None, storage: Some("BFloat16Storage"), safetensors: Some("BF16"), dlpack: Some(4),
        acl: acl(27, 27, "BF16"),
    };
    /// OCP 8-bit float, 4 exponent bits, no infinities, NaN at all-ones.
    F8E4M3FN: Row {
        name: "float8_e4m3fn", printed: "torch.float8_e4m3fn", aliases: &[], encoding: Encoding::Float8(&float8::E4M3FN),
        numpy: None, storage: None, safetensors: Some("F8_E4M3"), dlpack: Some(10),
        acl: acl(35, 36, "FLOAT8_E4M3FN"),
    };
    /// OCP 8-bit float, 5 exponent bits, with infinities.
    F8E5M2: Row {
        name: "float8_e5m2", printed: "torch.float8_e5m2", aliases: &[], encoding: Encoding::Float8(&float8::E5M2),
        numpy: None, storage: None, safetensors: Some("F8_E5M2"), dlpack: Some(12),
        acl: acl(34, 35, "FLOAT8_E5M2"),
    };
    /// 8-bit float, 4 exponent bits, bias 8, one zero, one NaN (0x80).
    F8E4M3FNUZ: Row {
        name: "float8_e4m3fnuz", printed: "torch.float8_e4m3fnuz", aliases: &[], encoding: Encoding::Float8(&float8::E4M3FNUZ),
        numpy: None, storage: None, safetensors: Some("F8_E4M3FNUZ"), dlpack: Some(11),
        acl: None,
    };
    /// 8-bit float, 5 exponent bits, bias 16, one zero, one NaN (0x80).
    F8E5M2FNUZ: Row {
        name: "float8_e5m2fnuz", printed: "torch.float8_e5m2fnuz", aliases: &[], encoding: Encoding::Float8(&float8::E5M2FNUZ),
        numpy: None, storage: None, safetensors: Some("F8_E5M2FNUZ"), dlpack: Some(13),
        acl: None,
    };
    /// OCP MX scale: a power of two, no sign, no zero.
    F8E8M0: Row {
        name: "float8_e8m0fnu", printed: "torch.float8_e8m0fnu", aliases: &["float8_e8m0"],
        encoding: Encoding::Float8(&float8::E8M0),
        numpy: None, storage: None, safetensors: Some("F8_E8M0"), dlpack: Some(14),
        acl: acl(36, 37, "FLOAT8_E8M0"),
    };
    /// Huawei's HiFloat8: tapered precision, prefix-coded exponent width.
    HiF8: Row {
        name: "hifloat8", printed: "hifloat8", aliases: &[], encoding: Encoding::Float8(&float8::HIF8),
        numpy: None, storage: None, safetensors: None, dlpack: None,
        acl: acl(33, 34, "HIFLOAT8"),
    };
    /// Signed 8-bit integer.
    I8: Row {
        name: "int8", printed: "torch.int8", aliases: &[], encoding: Encoding::I8,
        numpy: Some("|i1"), storage: Some("CharStorage"), safetensors: Some("I8"), dlpack: Some(0),
        acl: acl(3, 2, "INT8"),
    };
    /// Signed 16-bit integer.
    I16: Row {
        name: "int16", printed: "torch.int16", aliases: &["short"], encoding: Encoding::I16,
        numpy: Some("<i2"), storage: Some("ShortStorage"), safetensors: Some("I16"), dlpack: Some(0),
        acl: acl(5, 6, "INT16"),
    };
    /// Signed 32-bit integer.
    I32: Row {
        name: "int32", printed: "torch.int32", aliases: &["int"], encoding: Encoding::I32,
        numpy: Some("<i4"), storage: Some("IntStorage"), safetensors: Some("I32"), dlpack: Some(0),
        acl: acl(7, 3, "INT32"),
    };
    /// Signed 64-bit integer.
    I64: Row {
        name: "int64", printed: "torch.int64", aliases: &["long"], encoding: Encoding::I64,
        numpy: Some("<i8"), storage: Some("LongStorage"), safetensors: Some("I64"), dlpack: Some(0),
        acl: acl(8, 9, "INT64"),
    };
    /// Unsigned 8-bit integer.
    U8: Row {
        name: "uint8", printed: "torch.uint8", aliases: &[], encoding: Encoding::U8,
        numpy: Some("|u1"), storage: Some("ByteStorage"), safetensors: Some("U8"), dlpack: Some(1),
        acl: acl(4, 4, "UINT8"),
    };
    /// Unsigned 16-bit integer.
    U16: Row {
        name: "uint16", printed: "torch.uint16", aliases: &[], encoding: Encoding::U16,
        numpy: Some("<u2"), storage: None, safetensors: Some("U16"), dlpack: Some(1),
        acl: acl(6, 7, "UINT16"),
    };
    /// Unsigned 32-bit integer.
    U32: Row {
        name: "uint32", printed: "torch.uint32", aliases: &[], encoding: Encoding::U32,
        numpy: Some("<u4"), storage: None, safetensors: Some("U32"), dlpack: Some(1),
        acl: acl(9, 8, "UINT32"),
    };
    /// Unsigned 64-bit integer.
    U64: Row {
        name: "uint64", printed: "torch.uint64", aliases: &[], encoding: Encoding::U64,
        numpy: Some("<u8"), storage: None, safetensors: Some("U64"), dlpack: Some(1),
        acl: acl(10, 10, "UINT64"),
    };
    /// One byte, zero or not.
    Bool: Row {
        name: "bool", printed: "torch.bool", aliases: &["bool_"], encoding: Encoding::Bool,
        numpy: Some("|b1"), storage: Some("BoolStorage"), safetensors: Some("BOOL"), dlpack: Some(6),
        acl: acl(11, 12, "BOOL"),
    };
    /// Two binary32: real, imaginary.
    C64: Row {
        name: "complex64", printed: "torch.complex64", aliases: &["cfloat"], encoding: Encoding::C64,
        numpy: Some("<c8"), storage: Some("ComplexFloatStorage"), safetensors: Some("C64"), dlpack: Some(5),
        acl: acl(16, 16, "COMPLEX64"),
    };
    /// Two binary64: real, imaginary.
    C128: Row {
        name: "complex128", printed: "torch.complex128", aliases: &["cdouble"], encoding: Encoding::C128,
        numpy: Some("<c16"), storage: Some("ComplexDoubleStorage"), safetensors: None, dlpack: Some(5),
        acl: acl(17, 17, "COMPLEX128"),
    };
}

impl DType {
    const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    fn find(is_it: impl Fn(&Row) -> bool) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| is_it(dtype.row()))
    }

    /// Bytes per element.
    pub const fn size(self) -> usize {
        self.encoding().size()
    }

    /// The name torch gives it, without the `torch.` prefix (`hifloat8`, which torch lacks, follows suit).
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The name as torch prints it.
    pub const fn printed_name(self) -> &'static str {
        self.row().printed
    }

    /// NumPy's code for it, where it has one: `<f4`.
    pub const fn numpy_code(self) -> Option<&'static str> {
        self.row().numpy
    }

    /// The dtype of a code of NumPy without byte order: `f4`.
    pub fn from_numpy(kind_and_size: &str) -> Option<DType> {
        DType::find(|row| row.numpy.is_some_and(|code| &code[1..] == kind_and_size))
    }

    /// Torch's class of storages for it; dtypes younger than those classes have none.
    pub const fn storage_class(self) -> Option<&'static str> {
        self.row().storage
    }

    /// The dtype that a class of storages of torch holds.
    pub fn from_storage_class(class: &str) -> Option<DType> {
        DType::find(|row| row.storage == Some(class))
    }

    /// Its name in safetensors files, where the format has one.
    pub const fn safetensors_name(self) -> Option<&'static str> {
        self.row().safetensors
    }

    /// The dtype of a code and a number of bits in DLPack.
    pub fn from_dlpack(code: u8, bits: u8) -> Option<DType> {
        DType::find(|row| row.dlpack == Some(code) && row.encoding.size() * 8 == usize::from(bits))
    }

    /// Its type in ACL dumps, where these have one.
    pub const fn acl_type(self) -> Option<AclType> {
        self.row().acl
    }

    /// Whether torch has it.
    pub fn is_in_torch(self) -> bool {
        self.row().printed.starts_with("torch.")
    }

    /// What its bits mean.
    pub const fn encoding(self) -> Encoding {
        self.row().encoding
    }

    /// Precision and range of a float or of the parts of a complex number; `None` if values are exact.
    pub const fn float_limits(self) -> Option<FloatLimits> {
        self.encoding().float_limits()
    }

    /// Binary digits that an element, or a part of a complex one, may have. With as many a float represents it exactly.
    pub const fn significant_bits(self) -> u32 {
        match (self.float_limits(), self.encoding().kind()) {
            (Some(limits), _) => limits.mantissa_bits + 1,
            (None, NumberKind::Bool) => 1,
            (None, _) => 8 * self.size() as u32,
        }
    }

    /// The dtype of NumPy that holds as many bytes of plain bits: an unsigned integer.
    pub fn bits_dtype(self) -> Option<DType> {
        let is_it =
            |dtype: &DType| dtype.encoding().kind() == NumberKind::Unsigned && dtype.size() == self.size();
        DType::ALL.into_iter().find(is_it)
    }

    /// Real floating point of any width.
    pub const fn is_float(self) -> bool {
        matches!(self.encoding().kind(), NumberKind::Float)
    }

    /// Signed or unsigned integer; `Bool` is not one.
    pub const fn is_integer(self) -> bool {
        matches!(self.encoding().kind(), NumberKind::Signed | NumberKind::Unsigned)
    }

    /// Complex of either width.
    pub const fn is_complex(self) -> bool {
        matches!(self.encoding().kind(), NumberKind::Complex)
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
        DType::find(|row| row.name == name || row.aliases.contains(&name))
            .ok_or_else(|| UnknownDType(text.to_owned()))
    }
}
