//! The element types of TensorFlow, by number.

use std::fmt;

use ulpscope_tensor::DType;

/// Types of variables are those of their values, and this more.
const REFERENCE: u64 = 100;

/// The type of a tensor's elements. A number without a known name is kept as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TfType(pub u64);

/// Names by number, and the dtype where elements can be read.
const TYPES: [(&str, Option<DType>); 31] = [
    ("invalid", None),
    ("float32", Some(DType::F32)),
    ("float64", Some(DType::F64)),
    ("int32", Some(DType::I32)),
    ("uint8", Some(DType::U8)),
    ("int16", Some(DType::I16)),
    ("int8", Some(DType::I8)),
    ("string", None),
    ("complex64", Some(DType::C64)),
    ("int64", Some(DType::I64)),
    ("bool", Some(DType::Bool)),
    ("qint8", Some(DType::I8)),
    ("quint8", Some(DType::U8)),
    ("qint32", Some(DType::I32)),
    ("bfloat16", Some(DType::BF16)),
    ("qint16", Some(DType::I16)),
    ("quint16", Some(DType::U16)),
    ("uint16", Some(DType::U16)),
    ("complex128", Some(DType::C128)),
    ("float16", Some(DType::F16)),
    ("resource", None),
    ("variant", None),
    ("uint32", Some(DType::U32)),
    ("uint64", Some(DType::U64)),
    ("float8_e5m2", Some(DType::F8E5M2)),
    ("float8_e4m3fn", Some(DType::F8E4M3FN)),
    ("float8_e4m3fnuz", Some(DType::F8E4M3FNUZ)),
    ("float8_e4m3b11fnuz", None),
    ("float8_e5m2fnuz", Some(DType::F8E5M2FNUZ)),
    ("int4", None),
    ("uint4", None),
];

impl TfType {
    fn row(self) -> Option<&'static (&'static str, Option<DType>)> {
        let number = if self.0 > REFERENCE { self.0 - REFERENCE } else { self.0 };
        TYPES.get(usize::try_from(number).ok()?)
    }

    /// The type of a dtype, where TensorFlow has it.
    pub fn of_dtype(dtype: DType) -> Option<TfType> {
        let named = |(name, _): &(&str, Option<DType>)| *name == dtype.name();
        TYPES.iter().position(named).map(|number| TfType(number as u64))
    }

    /// Whether elements are handles of something else: of a variable, of a list. They have no value of their own.
    pub fn is_handle(self) -> bool {
        self.row().is_some_and(|(name, _)| ["resource", "variant"].contains(name))
    }

    /// The dtype of the elements, if they can be read.
    pub fn dtype(self) -> Option<DType> {
        self.row().and_then(|(_, dtype)| *dtype)
    }
}

impl fmt::Display for TfType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some((name, _)) => f.pad(name),
            None => write!(f, "number {}", self.0),
        }
    }
}
