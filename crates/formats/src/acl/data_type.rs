//! The element types of ACL dumps, in the two numberings that dump files use.

use std::fmt;

use ulpscope_tensor::{AclType, DType};

use super::packed_elements::Packing;

use Meaning::{ReadAs, Unpacked, Unread};

/// The data type of a tensor. A number without a known name is kept as it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType(Number);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Number {
    /// The type of a dtype.
    Measured(DType),
    /// A type without a dtype of its own: a row of the table below, by index.
    Row(u8),
    /// A number without a known type, in the numbering of its file.
    Other(i32),
}

struct Row {
    acl: AclType,
    meaning: Meaning,
}

enum Meaning {
    /// Read as the elements of a dtype that has a type of its own.
    ReadAs(DType),
    /// Unpacked into the elements of a dtype.
    Unpacked(Packing),
    /// A type that is not measured, with a description.
    Unread(&'static str),
}

const fn row(header: i32, runtime: i32, name: &'static str, meaning: Meaning) -> Row {
    Row { acl: AclType { header, runtime, name }, meaning }
}

const PAIRED: &str = "a pair of numbers in one element";
const QUANTISED: &str = "quantised integers without their scale";
const PACKED: &str = "several elements to a byte";

/// The known types that are no dtype's own ([`DType::acl_type`]). The first row applies when a header names no type:
/// like the older tools, we read the bytes as signed.
const TABLE: [Row; 22] = [
    row(0, 28, "UNDEFINED", ReadAs(DType::I8)),
    row(13, 13, "STRING", Unread("text")),
    row(14, 14, "DUAL_SUB_INT8", Unread(PAIRED)),
    row(15, 15, "DUAL_SUB_UINT8", Unread(PAIRED)),
    row(18, 18, "QINT8", Unread(QUANTISED)),
    row(19, 19, "QINT16", Unread(QUANTISED)),
    row(20, 20, "QINT32", Unread(QUANTISED)),
    row(21, 21, "QUINT8", Unread(QUANTISED)),
    row(22, 22, "QUINT16", Unread(QUANTISED)),
    row(23, 23, "RESOURCE", ReadAs(DType::I64)),
    row(24, 24, "STRING_REF", Unread("references to text")),
    row(25, 25, "DUAL", Unread(PAIRED)),
    row(26, 26, "VARIANT", Unread("a type known only at run time")),
    row(28, 29, "INT4", Unpacked(Packing::Int4)),
    row(29, 30, "UINT1", Unpacked(Packing::Uint1)),
    row(30, 31, "INT2", Unpacked(Packing::Int2)),
    row(31, 32, "UINT2", Unpacked(Packing::Uint2)),
    row(32, 33, "COMPLEX32", Unpacked(Packing::Complex32)),
    row(37, 38, "FLOAT6_E3M2", Unread(PACKED)),
    row(38, 39, "FLOAT6_E2M3", Unread(PACKED)),
    row(39, 40, "FLOAT4_E2M1", Unpacked(Packing::Float4E2M1)),
    row(40, 41, "FLOAT4_E1M2", Unread(PACKED)),
];

impl DataType {
    /// The type of a protobuf header's number.
    pub fn from_header(number: i32) -> DataType {
        DataType::find(|acl| acl.header == number).unwrap_or(DataType(Number::Other(number)))
    }

    /// The type of a runtime number, which nano headers use.
    pub fn from_runtime(number: i32) -> DataType {
        DataType::find(|acl| acl.runtime == number).unwrap_or(DataType(Number::Other(number)))
    }

    /// The type that stores a dtype, where there is one.
    pub fn of(dtype: DType) -> Option<DataType> {
        dtype.acl_type().map(|_| DataType(Number::Measured(dtype)))
    }

    fn find(is_it: impl Fn(AclType) -> bool) -> Option<DataType> {
        let measured = DType::ALL.into_iter().find(|dtype| dtype.acl_type().is_some_and(&is_it));
        // The table has fewer rows than a byte has values.
        let row = || TABLE.iter().position(|row| is_it(row.acl)).map(|index| Number::Row(index as u8));
        measured.map(Number::Measured).or_else(row).map(DataType)
    }

    /// Numbers and name, or the number without a known type.
    fn acl(self) -> Result<AclType, i32> {
        match self.0 {
            Number::Measured(dtype) => Ok(dtype.acl_type().expect("made from a dtype that has one")),
            Number::Row(index) => Ok(TABLE[usize::from(index)].acl),
            Number::Other(number) => Err(number),
        }
    }

    /// Its number in a protobuf header.
    pub fn header_number(self) -> i32 {
        self.acl().map_or_else(|number| number, |acl| acl.header)
    }

    /// Its number in the runtime, and so in a nano header.
    pub fn runtime_number(self) -> i32 {
        self.acl().map_or_else(|number| number, |acl| acl.runtime)
    }

    /// How its elements are packed, if they have to be unpacked.
    pub(super) fn packing(self) -> Option<Packing> {
        match self.0 {
            Number::Row(index) => match TABLE[usize::from(index)].meaning {
                Unpacked(packing) => Some(packing),
                ReadAs(_) | Unread(_) => None,
            },
            Number::Measured(_) | Number::Other(_) => None,
        }
    }

    /// The type of a name, with or without GE's prefix: `FLOAT16`, `DT_FLOAT16`.
    pub fn from_name(name: &str) -> Option<DataType> {
        let name = name.strip_prefix("DT_").unwrap_or(name);
        DataType::find(|acl| acl.name == name)
    }

    /// Whether the header leaves the type undefined.
    pub fn is_undefined(self) -> bool {
        self == DataType::default()
    }

    /// The dtype that is measured, or a description of a type that is not.
    pub fn elements(self) -> Result<DType, &'static str> {
        match self.0 {
            Number::Measured(dtype) => Ok(dtype),
            Number::Row(index) => match TABLE[usize::from(index)].meaning {
                ReadAs(dtype) => Ok(dtype),
                Unpacked(packing) => Ok(packing.dtype()),
                Unread(what) => Err(what),
            },
            Number::Other(_) => Err("a type this version does not know"),
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
        match self.acl() {
            Ok(acl) => f.pad(acl.name),
            Err(number) => write!(f, "number {number}"),
        }
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_type_and_every_dtype_reads_back() {
        let of_dtypes = DType::ALL.into_iter().filter_map(DType::acl_type);
        let all: Vec<AclType> = of_dtypes.chain(TABLE.iter().map(|row| row.acl)).collect();
        let sorted = |number: fn(&AclType) -> i32| {
            let mut numbers: Vec<i32> = all.iter().map(number).collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(sorted(|acl| acl.header), Vec::from_iter(0..=40));
        // The runtime has no type with number 5.
        assert_eq!(sorted(|acl| acl.runtime), Vec::from_iter((0..=41).filter(|number| *number != 5)));
        for dtype in DType::ALL {
            let Some(stored) = DataType::of(dtype) else { continue };
            assert_eq!(stored.elements(), Ok(dtype));
            assert_eq!(DataType::from_header(stored.header_number()), stored);
            assert_eq!(DataType::from_runtime(stored.runtime_number()), stored);
        }
    }
}
