//! One tensor of TensorFlow.

use std::ops::Range;

use ulpscope_tensor::{DType, element_count};

use super::data_type::TfType;
use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place};
use crate::protobuf::{Field, Message};
use crate::tensor::{MAX_RANK, Tensor};

/// Fields with elements as numbers of fixed width: of floats, doubles, and parts of complex numbers.
const FIXED_WIDTH: [u64; 4] = [5, 6, 9, 12];

/// Fields with elements as integers.
const INTEGERS: [u64; 6] = [7, 10, 11, 13, 16, 17];

/// Type and shape of a tensor, without its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorDescription {
    /// What an element is.
    pub data_type: TfType,
    /// Dimensions.
    pub shape: Vec<i64>,
}

/// Reads a tensor without its elements.
pub fn describe_tensor(file: &[u8], range: Range<usize>) -> Result<TensorDescription, Error> {
    let mut found = TensorDescription::default();
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => found.data_type = TfType(field.number_value("dtype")?),
            2 => found.shape = read_shape(file, field.range("tensor_shape")?)?.unwrap_or_default(),
            _ => {}
        }
    }
    Ok(found)
}

/// Reads a shape; nothing if not even the number of dimensions is known, -1 for a dimension that is not.
pub fn read_shape(file: &[u8], range: Range<usize>) -> Result<Option<Vec<i64>>, Error> {
    let mut dims = Vec::new();
    let mut is_known = true;
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            2 => {
                let mut size = 0;
                let mut dim = Message::new(file, field.range("dim")?);
                while let Some(field) = dim.next_field()? {
                    if field.number == 1 {
                        size = field.number_value("size")? as i64;
                    }
                }
                dims.push(size);
                check_rank(&dims, &field)?;
            }
            3 => is_known = field.number_value("unknown_rank")? == 0,
            _ => {}
        }
    }
    Ok(is_known.then_some(dims))
}

fn check_rank(dims: &[i64], field: &Field) -> Result<(), Error> {
    if dims.len() <= MAX_RANK {
        return Ok(());
    }
    let fault =
        Fault::TooLarge { what: "number of dimensions", limit: MAX_RANK as u64, found: dims.len() as u64 };
    Err(Error::at(Place::Byte(field.at as u64), fault))
}

/// Reads a tensor; nothing if its elements are handles. Elements that are stored as bytes are not copied.
pub(super) fn read(file: &Bytes, range: Range<usize>) -> Result<Option<Tensor>, Error> {
    let described = describe_tensor(file, range.clone())?;
    if described.data_type.is_handle() {
        return Ok(None);
    }
    let dtype = described.data_type.dtype().ok_or_else(|| {
        let what = described.data_type;
        Error::whole(Fault::Unsupported(format!("elements of type {what} are not read: they are no numbers")))
    })?;
    let shape: Option<Vec<usize>> = described.shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let count = shape.as_deref().and_then(element_count);
    let size = count.and_then(|count| count.checked_mul(dtype.size()));
    let (Some(shape), Some(count), Some(size)) = (shape, count, size) else {
        let found = format!("{:?}", described.shape);
        return Err(Error::whole(Fault::malformed("a shape that fits the address space", found)));
    };
    let elements = Elements { file, dtype, count, size };
    let bytes = match elements.stored(range.clone())? {
        Some(bytes) => bytes,
        None => elements.repeated(range)?,
    };
    Tensor::contiguous(dtype, shape, bytes).map(Some).map_err(|error| Error::whole(Fault::from(error)))
}

/// The elements that are expected.
struct Elements<'a> {
    file: &'a Bytes,
    dtype: DType,
    count: usize,
    size: usize,
}

impl Elements<'_> {
    /// The elements as bytes of the file, if they are stored so.
    fn stored(&self, range: Range<usize>) -> Result<Option<Bytes>, Error> {
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            if field.number != 4 {
                continue;
            }
            let content = field.range("tensor_content")?;
            if content.is_empty() && self.size > 0 {
                continue;
            }
            if content.len() != self.size {
                let expected = format!("{} bytes of {} {} elements", self.size, self.count, self.dtype);
                let fault = Fault::malformed(expected, content.len().to_string());
                return Err(Error::at(Place::Byte(field.at as u64), fault));
            }
            return Ok(Some(self.file.slice(content)));
        }
        Ok(None)
    }

    /// The elements as numbers. The last one stands for those that are not there; without any they are zero.
    fn repeated(&self, range: Range<usize>) -> Result<Bytes, Error> {
        // A few bytes may stand for any number of elements.
        let budget = Budget::of_file(self.file.len());
        budget.charge("the elements of a tensor", self.size).map_err(Error::whole)?;
        let mut bytes: Vec<u8> = Vec::new();
        let mut message = Message::new(self.file, range);
        while let Some(field) = message.next_field()? {
            if FIXED_WIDTH.contains(&field.number) {
                let numbers = &self.file[field.fixed_width("elements")?];
                bytes.extend_from_slice(&numbers[..numbers.len().min(self.size.saturating_sub(bytes.len()))]);
            } else if INTEGERS.contains(&field.number) {
                let mut numbers = Vec::new();
                let left = self.count.saturating_sub(bytes.len() / self.dtype.size());
                budget.charge("the elements of a tensor", left.saturating_mul(8)).map_err(Error::whole)?;
                field.extend(self.file, "elements", left, &mut numbers)?;
                let width = self.dtype.size();
                numbers
                    .iter()
                    .for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()[..width.min(8)]));
            }
        }
        let width = self.dtype.size();
        if !bytes.len().is_multiple_of(width) {
            let found = format!("{} bytes", bytes.len());
            let fault = Fault::malformed(format!("whole elements of {width} bytes"), found);
            return Err(Error::whole(fault));
        }
        let last = match bytes.len().checked_sub(width) {
            Some(at) => bytes[at..].to_vec(),
            None => vec![0; width],
        };
        while bytes.len() < self.size {
            bytes.extend_from_slice(&last);
        }
        Ok(Bytes::from(bytes))
    }
}
