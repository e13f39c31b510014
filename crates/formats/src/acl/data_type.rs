//! The element types of ACL dumps, in the two numberings that dump files use.

use std::fmt;

use ulpscope_tensor::DType;

use Meaning::{Elements, Unread};

/// The data type of a tensor. A number without a known name is kept as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType(Number);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Number {
    /// A row of the table below, by index.
    Row(u8),
    /// A number that is not in the table, in the numbering of its file.
    Other(i32),
}

struct Row {
    /// In a protobuf header.
    header: i32,
    /// In the runtime, and so in a nano header.
    runtime: i32,
    name: &'static str,
    meaning: Meaning,
}

enum Meaning {
    /// A dtype that Ulpscope measures.
    Elements(DType),
    /// A type that it does not measure, with a description.
    Unread(&'static str),
}

const fn row(header: i32, runtime: i32, name: &'static str, meaning: Meaning) -> Row {
    Row { header, runtime, name, meaning }
}

const PAIRED: &str = "a pair of numbers in one element";
const QUANTISED: &str = "quantised integers without their scale";
const PACKED: &str = "several elements to a byte";

/// Every known type. The first row applies when a header names no type: like the older tools, we read the bytes as
/// signed.
const TABLE: [Row; 41] = [
    row(0, 28, "UNDEFINED", Elements(DType::I8)),
    row(1, 0, "FLOAT", Elements(DType::F32)),
    row(2, 1, "FLOAT16", Elements(DType::F16)),
    row(3, 2, "INT8", Elements(DType::I8)),
    row(4, 4, "UINT8", Elements(DType::U8)),
    row(5, 6, "INT16", Elements(DType::I16)),
    row(6, 7, "UINT16", Elements(DType::U16)),
    row(7, 3, "INT32", Elements(DType::I32)),
    row(8, 9, "INT64", Elements(DType::I64)),
    row(9, 8, "UINT32", Elements(DType::U32)),
    row(10, 10, "UINT64", Elements(DType::U64)),
    row(11, 12, "BOOL", Elements(DType::Bool)),
    row(12, 11, "DOUBLE", Elements(DType::F64)),
    row(13, 13, "STRING", Unread("text")),
    row(14, 14, "DUAL_SUB_INT8", Unread(PAIRED)),
    row(15, 15, "DUAL_SUB_UINT8", Unread(PAIRED)),
    row(16, 16, "COMPLEX64", Elements(DType::C64)),
    row(17, 17, "COMPLEX128", Elements(DType::C128)),
    row(18, 18, "QINT8", Unread(QUANTISED)),
    row(19, 19, "QINT16", Unread(QUANTISED)),
    row(20, 20, "QINT32", Unread(QUANTISED)),
    row(21, 21, "QUINT8", Unread(QUANTISED)),
    row(22, 22, "QUINT16", Unread(QUANTISED)),
    row(23, 23, "RESOURCE", Elements(DType::I64)),
    row(24, 24, "STRING_REF", Unread("references to text")),
    row(25, 25, "DUAL", Unread(PAIRED)),
    row(26, 26, "VARIANT", Unread("a type known only at run time")),
    row(27, 27, "BF16", Elements(DType::BF16)),
    row(28, 29, "INT4", Unread(PACKED)),
    row(29, 30, "UINT1", Unread(PACKED)),
    row(30, 31, "INT2", Unread(PACKED)),
    row(31, 32, "UINT2", Unread(PACKED)),
    row(32, 33, "COMPLEX32", Unread("two float16 to an element")),
    row(33, 34, "HIFLOAT8", Elements(DType::HiF8)),
    row(34, 35, "FLOAT8_E5M2", Elements(DType::F8E5M2)),
    row(35, 36, "FLOAT8_E4M3FN", Elements(DType::F8E4M3FN)),
    row(36, 37, "FLOAT8_E8M0", Elements(DType::F8E8M0)),
    row(37, 38, "FLOAT6_E3M2", Unread(PACKED)),
    row(38, 39, "FLOAT6_E2M3", Unread(PACKED)),
    row(39, 40, "FLOAT4_E2M1", Unread(PACKED)),
    row(40, 41, "FLOAT4_E1M2", Unread(PACKED)),
];

impl DataType {
    /// The type of a protobuf header's number.
    pub fn from_header(number: i32) -> DataType {
        DataType::find(|row| row.header == number).unwrap_or(DataType(Number::Other(number)))
    }

    /// The type of a runtime number, which nano headers use.
    pub fn from_runtime(number: i32) -> DataType {
        DataType::find(|row| row.runtime == number).unwrap_or(DataType(Number::Other(number)))
    }

    /// The type that stores a dtype, where there is one.
    pub fn of(dtype: DType) -> Option<DataType> {
        // Two rows are read as the dtype of a different row. Tensors of that dtype must not be written as those rows.
        let stores = |row: &Row| matches!(row.meaning, Elements(found) if found == dtype);
        DataType::find(|row| stores(row) && !matches!(row.name, "UNDEFINED" | "RESOURCE"))
    }

    fn find(wanted: impl FnMut(&Row) -> bool) -> Option<DataType> {
        // The table has fewer rows than a byte has values.
        TABLE.iter().position(wanted).map(|index| DataType(Number::Row(index as u8)))
    }

    fn row(self) -> Result<&'static Row, i32> {
        match self.0 {
            Number::Row(index) => Ok(&TABLE[usize::from(index)]),
            Number::Other(number) => Err(number),
        }
    }

    /// Its number in a protobuf header.
    pub fn header_number(self) -> i32 {
        self.row().map_or_else(|number| number, |row| row.header)
    }

    /// Its number in the runtime, and so in a nano header.
    pub fn runtime_number(self) -> i32 {
        self.row().map_or_else(|number| number, |row| row.runtime)
    }

    /// Whether the header leaves the type undefined.
    pub fn is_undefined(self) -> bool {
        self == DataType::default()
    }

    /// The dtype that is measured, or a description of a type that is not.
    pub fn elements(self) -> Result<DType, &'static str> {
        match self.row().map(|row| &row.meaning) {
            Ok(Elements(dtype)) => Ok(*dtype),
            Ok(Unread(what)) => Err(what),
            Err(_) => Err("a type this version does not know"),
        }
    }
}

/// The type used when a header names none.
impl Default for DataType {
    fn default() -> DataType {
        DataType(Number::Row(0))
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Ok(row) => f.pad(row.name),
            Err(number) => write!(f, "number {number}"),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
