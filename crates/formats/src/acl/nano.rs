//! The header of a nano dump: a magic number, a version, and records of tag, length and value.
//!
//! ```text
//! magic | version | 4 length inputs | 5 length outputs                               all numbers are u32 unless said
//! inputs, outputs: count, then per tensor:
//!     data type, format, address type (i32) | outputs: index, data type, format of the original operator (i32)
//!     address, offset, size (u64) | length of records | 0 length shape (u64…) | 1 length original shape | 2 length name
//! ```

use super::{DataType, DumpFile, DumpTensor, Format, MAX_ENTRIES, OriginalOp, Sizes};
use crate::error::{Error, Fault, Place};
use crate::tensor::MAX_RANK;

const MAGIC: u32 = 0x5A5A_5A5A;

/// Records of the header.
const INPUTS: u32 = 4;
const OUTPUTS: u32 = 5;

/// Records of a tensor.
const SHAPE: u32 = 0;
const ORIGINAL_SHAPE: u32 = 1;
const ORIGINAL_NAME: u32 = 2;

/// Whether a header has this form. A protobuf header begins with its version, which is text.
pub(super) fn is_nano(header: &[u8]) -> bool {
    header.starts_with(&MAGIC.to_le_bytes())
}

/// Reads the header that ends where `file` does, from byte `at`.
pub(super) fn read(file: &[u8], at: usize) -> Result<(DumpFile, Sizes), Error> {
    let mut cursor = Cursor { file, at, end: file.len() };
    let mut dump = DumpFile { nano: true, ..DumpFile::default() };
    let mut sizes = Sizes::default();
    cursor.u32("the magic number")?;
    dump.version = cursor.u32("the version")?.to_string();
    while let Some((tag, mut value)) = cursor.record()? {
        match tag {
            INPUTS => value.tensors(false, &mut dump.inputs, &mut sizes.inputs)?,
            OUTPUTS => value.tensors(true, &mut dump.outputs, &mut sizes.outputs)?,
            _ => {}
        }
    }
    Ok((dump, sizes))
}

struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Error> {
        match self.file[self.at..self.end].first_chunk::<N>() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => {
                let found = (self.end - self.at).to_string();
                let fault = Fault::truncated(format!("{N} bytes of {what}"), found);
                Err(Error::at(Place::Byte(self.at as u64), fault))
            }
        }
    }

    fn u32(&mut self, what: &str) -> Result<u32, Error> {
        self.take(what).map(u32::from_le_bytes)
    }

    fn i32(&mut self, what: &str) -> Result<i32, Error> {
        self.take(what).map(i32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64, Error> {
        self.take(what).map(u64::from_le_bytes)
    }

    /// The next `length` bytes, with a cursor of their own.
    fn part(&mut self, length: u32, what: &str) -> Result<Cursor<'a>, Error> {
        let left = self.end - self.at;
        if length as usize > left {
            let fault = Fault::truncated(format!("{length} bytes of {what}"), left.to_string());
            return Err(Error::at(Place::Byte(self.at as u64), fault));
        }
        let part = Cursor { file: self.file, at: self.at, end: self.at + length as usize };
        self.at = part.end;
        Ok(part)
    }

    /// The next record, if there is one.
    fn record(&mut self) -> Result<Option<(u32, Cursor<'a>)>, Error> {
        if self.at == self.end {
            return Ok(None);
        }
        let tag = self.u32("a record's tag")?;
        let length = self.u32("a record's length")?;
        Ok(Some((tag, self.part(length, "a record")?)))
    }

    fn tensors(
        &mut self,
        outputs: bool,
        tensors: &mut Vec<DumpTensor>,
        sizes: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let at = self.at;
        let count = self.u32("the number of tensors")?;
        if count as usize > MAX_ENTRIES {
            let (limit, found) = (MAX_ENTRIES as u64, count.into());
            let fault = Fault::TooLarge { what: "number of tensors", limit, found };
            return Err(Error::at(Place::Byte(at as u64), fault));
        }
        for _ in 0..count {
            let (tensor, size) = self.tensor(outputs)?;
            tensors.push(tensor);
            sizes.push(size);
        }
        if self.at < self.end {
            let found = format!("{} more bytes", self.end - self.at);
            let fault = Fault::malformed(format!("the record to end after {count} tensors"), found);
            return Err(Error::at(Place::Byte(self.at as u64), fault));
        }
        Ok(())
    }

    fn tensor(&mut self, output: bool) -> Result<(DumpTensor, u64), Error> {
        let mut tensor = DumpTensor {
            data_type: DataType::from_runtime(self.i32("data type")?),
            format: Format(self.i32("format")?),
            address_type: self.i32("address type")?,
            ..DumpTensor::default()
        };
        let mut original = OriginalOp::default();
        if output {
            original.output_index = self.u32("original index")?;
            original.data_type = DataType::from_runtime(self.i32("original data type")?);
            original.format = Format(self.i32("original format")?);
        }
        tensor.address = self.u64("address")?;
        tensor.offset = self.u64("offset")?;
        let size = self.u64("size")?;
        let length = self.u32("the length of a tensor's records")?;
        let mut records = self.part(length, "a tensor's records")?;
        while let Some((tag, mut value)) = records.record()? {
            match tag {
                SHAPE => tensor.shape = value.dims()?,
                ORIGINAL_SHAPE => tensor.original_shape = value.dims()?,
                ORIGINAL_NAME if output => {
                    original.name = String::from_utf8_lossy(&value.file[value.at..value.end]).into_owned();
                }
                _ => {}
            }
        }
        tensor.original_op = output.then_some(original);
        Ok((tensor, size))
    }

    fn dims(&mut self) -> Result<Vec<u64>, Error> {
        let rank = (self.end - self.at) / 8;
        if rank > MAX_RANK {
            let (limit, found) = (MAX_RANK as u64, rank as u64);
            let fault = Fault::TooLarge { what: "number of dimensions", limit, found };
            return Err(Error::at(Place::Byte(self.at as u64), fault));
        }
        let mut dims = Vec::with_capacity(rank);
        while self.at < self.end {
            dims.push(self.u64("a dimension")?);
        }
        Ok(dims)
    }
}

/// The header of a dump. Fails for content that this form cannot hold, except the operator's name and the time: those
/// belong in the file name.
pub(super) fn compose(dump: &DumpFile) -> Result<Vec<u8>, Error> {
    let refuse =
        |what: String| Err(Error::whole(Fault::Unsupported(format!("a nano dump has no place for {what}"))));
    if !(dump.buffers.is_empty() && dump.spaces.is_empty() && dump.attrs.is_empty()) {
        return refuse("buffers, workspaces or attributes; write the protobuf form".into());
    }
    let Ok(version) = dump.version.parse::<u32>() else {
        return refuse(format!("the version {:?}; expected a number", dump.version));
    };
    let mut out = MAGIC.to_le_bytes().to_vec();
    out.extend(version.to_le_bytes());
    put_record(&mut out, INPUTS, &tensors(&dump.inputs, false)?);
    put_record(&mut out, OUTPUTS, &tensors(&dump.outputs, true)?);
    Ok(out)
}

fn tensors(tensors: &[DumpTensor], outputs: bool) -> Result<Vec<u8>, Error> {
    let mut out = (tensors.len() as u32).to_le_bytes().to_vec();
    for (index, tensor) in tensors.iter().enumerate() {
        if tensor.sub_format != 0 || !tensor.dim_range.is_empty() {
            let name = if outputs { "output" } else { "input" };
            let message = "a nano dump has no place for groups or slices; write the protobuf form";
            let place = Place::Part(format!("{name}.{index}"));
            return Err(Error::at(place, Fault::Unsupported(message.into())));
        }
        out.extend(tensor.data_type.runtime_number().to_le_bytes());
        out.extend(tensor.format.0.to_le_bytes());
        out.extend(tensor.address_type.to_le_bytes());
        let original = tensor.original_op.clone().unwrap_or_default();
        if outputs {
            out.extend(original.output_index.to_le_bytes());
            out.extend(original.data_type.runtime_number().to_le_bytes());
            out.extend(original.format.0.to_le_bytes());
        }
        out.extend(tensor.address.to_le_bytes());
        out.extend(tensor.offset.to_le_bytes());
        out.extend((tensor.data.len() as u64).to_le_bytes());
        let mut records = Vec::new();
        let bytes_of = |dims: &[u64]| dims.iter().flat_map(|dim| dim.to_le_bytes()).collect::<Vec<u8>>();
        put_record(&mut records, SHAPE, &bytes_of(&tensor.shape));
        put_record(&mut records, ORIGINAL_SHAPE, &bytes_of(&tensor.original_shape));
        if outputs {
            put_record(&mut records, ORIGINAL_NAME, original.name.as_bytes());
        }
        out.extend((records.len() as u32).to_le_bytes());
        out.extend(records);
    }
    Ok(out)
}

fn put_record(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    out.extend(tag.to_le_bytes());
    out.extend((value.len() as u32).to_le_bytes());
    out.extend_from_slice(value);
}
