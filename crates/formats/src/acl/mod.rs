//! The dump file of an Ascend operator: every input and output of one call, each with a description.
//!
//! ```text
//! header length (u64) | header | inputs | outputs | buffers | workspaces      each as long as its header entry says
//! ```
//!
//! The header is a protobuf message. Small devices ("nano") write a list of tag-length-value records instead; it
//! begins with a magic number and numbers data types differently. Before version 2 the whole file was one protobuf
//! message with the elements inside it. Such a file is read too, and written in the current form.
//!
//! Everything in the header is optional, and every number in it may be unknown: an unknown data type or format must
//! not lose the file. A tensor keeps its raw bytes. [`DumpTensor::tensor`] interprets them, or says why it cannot.
//!
//! ```text
//! bytes ──► protobuf or nano (records) ──► DumpFile ──► Value: "input.0", "output.0", "l1buffer.0", "space.0"
//! ```

mod data_type;
mod file_name;
mod format;
mod header;
mod layout;
mod nano;
mod op_debug;
mod packed_elements;
mod parts;
mod statistics;
mod status_meaning;
mod tensor;
mod value;

use std::io::Write;

use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place};

pub use data_type::DataType;
pub use file_name::{FileName, NO_THREAD, STATISTICS_EXTENSION, Thread, flat_op_name};
pub use format::Format;
pub use layout::Relaid;
pub use op_debug::{OpDebug, Unit, UnitState, read_op_debug};
pub use parts::{FilePart, PartContent};
pub use statistics::{TensorStatistics, read_statistics};
pub use status_meaning::StatusMeaning;
pub use tensor::{CutShort, DumpTensor, OriginalOp};

/// More tensors, buffers or attributes than any operator has. Limits the cost of a file full of empty entries.
pub const MAX_ENTRIES: usize = 1 << 14;

/// Bytes of the length field before the header.
const LENGTH_SIZE: usize = 8;

/// One dump file.
#[derive(Clone, Debug, Default)]
pub struct DumpFile {
    /// Whether the header is the record list of small devices. It has no operator name, time, buffers, workspaces or
    /// attributes. The file name contains the operator name and the time.
    pub nano: bool,
    /// Version of the dump, `2.0` today.
    pub version: String,
    /// When it was taken, in microseconds since 1970.
    pub dump_time: u64,
    /// Full name of the operator.
    pub op_name: String,
    /// The call's inputs.
    pub inputs: Vec<DumpTensor>,
    /// The call's outputs.
    pub outputs: Vec<DumpTensor>,
    /// On-chip buffers (kind 0 is L1).
    pub buffers: Vec<Region>,
    /// Workspaces (kind 0 is a log).
    pub spaces: Vec<Region>,
    /// Named texts. For a sliced operator the first one describes the slicing in JSON.
    pub attrs: Vec<(String, String)>,
}

/// Memory that is dumped without interpretation.
#[derive(Clone, Debug)]
pub struct Region {
    /// The kind of memory, as a number of the header.
    pub kind: i32,
    /// Its bytes.
    pub data: Bytes,
    /// Set if the file ends before the data does.
    pub cut_short: Option<CutShort>,
}

/// Bytes of data that each entry has after the header.
#[derive(Default)]
struct Sizes {
    inputs: Vec<u64>,
    outputs: Vec<u64>,
    buffers: Vec<u64>,
    spaces: Vec<u64>,
}

/// Reads a dump file of any of the three forms. Elements are not copied.
pub fn read(bytes: &Bytes) -> Result<DumpFile, Error> {
    let Some(length) = bytes.first_chunk::<LENGTH_SIZE>() else {
        let fault = Fault::truncated("8 bytes of header length", bytes.len().to_string());
        return Err(Error::at(Place::Byte(0), fault));
    };
    let length = u64::from_le_bytes(*length);
    let after = bytes.len() - LENGTH_SIZE;
    if length == 0 {
        let fault = Fault::malformed("a header length of at least 1", "0: the dump is empty");
        return Err(Error::at(Place::Byte(0), fault));
    }
    if length > after as u64 {
        // A bare protobuf message begins with text, which reads as an impossibly large length.
        return header::read_bare(bytes).map_err(|_| {
            let fault = Fault::truncated(
                format!("a header of {length} bytes, or a protobuf message that holds the elements itself"),
                format!("{after} bytes"),
            );
            Error::at(Place::Byte(LENGTH_SIZE as u64), fault)
        });
    }
    let data_at = LENGTH_SIZE + length as usize;
    if nano::is_nano(&bytes[LENGTH_SIZE..data_at]) {
        let (mut dump, sizes) = nano::read(&bytes[..data_at], LENGTH_SIZE)?;
        let end = dump.take_data(&sizes, bytes, data_at)?;
        if end != bytes.len() {
            let found = format!("{} more bytes", bytes.len() - end);
            let fault = Fault::malformed("the file to end with its last tensor", found);
            return Err(Error::at(Place::Byte(end as u64), fault));
        }
        return Ok(dump);
    }
    let (mut dump, sizes) = header::read(bytes, LENGTH_SIZE..data_at)?;
    dump.take_data(&sizes, bytes, data_at)?;
    Ok(dump)
}

/// Writes a dump file, in the nano form if `nano` is set.
pub fn write(dump: &DumpFile, out: &mut dyn Write) -> Result<(), Error> {
    let header = if dump.nano { nano::compose(dump)? } else { header::compose(dump) };
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(Error::whole)?;
    out.write_all(&header).map_err(Error::whole)?;
    let tensors = dump.inputs.iter().chain(&dump.outputs).map(|tensor| &tensor.data);
    for data in tensors.chain(dump.buffers.iter().chain(&dump.spaces).map(|region| &region.data)) {
        out.write_all(data).map_err(Error::whole)?;
    }
    Ok(())
}

impl DumpFile {
    /// Assigns the data to the entries, one after the other from `at`. Returns where it ends. A file that ends too early
    /// keeps what is complete; the rest of its entries are marked. Without anything complete it is refused.
    fn take_data(&mut self, sizes: &Sizes, bytes: &Bytes, mut at: usize) -> Result<usize, Error> {
        let mut has_data = false;
        let mut take = |name: &str, index: usize, size: u64| {
            let left = bytes.len() - at;
            let whole = usize::try_from(size).ok().filter(|&size| size <= left);
            let cut_short = whole.is_none().then_some(CutShort { size, at, left });
            if let Some(cut) = cut_short.filter(|_| !has_data) {
                return Err(cut.error().in_part(&format!("{name}.{index}")));
            }
            has_data |= size > 0;
            let data = bytes.slice(at..at + whole.unwrap_or(left));
            at += data.len();
            Ok((data, cut_short))
        };
        for (name, tensors, sizes) in
            [("input", &mut self.inputs, &sizes.inputs), ("output", &mut self.outputs, &sizes.outputs)]
        {
            for (index, (tensor, &size)) in tensors.iter_mut().zip(sizes).enumerate() {
                (tensor.data, tensor.cut_short) = take(name, index, size)?;
            }
        }
        for (name, regions, sizes) in
            [("l1buffer", &mut self.buffers, &sizes.buffers), ("space", &mut self.spaces, &sizes.spaces)]
        {
            for (index, (region, &size)) in regions.iter_mut().zip(sizes).enumerate() {
                (region.data, region.cut_short) = take(name, index, size)?;
            }
        }
        Ok(at)
    }

    /// Why buffers and workspaces cannot be read, where the file ends before them.
    pub fn cut_regions(&self) -> impl Iterator<Item = Error> {
        let named = [("l1buffer", &self.buffers), ("space", &self.spaces)].into_iter();
        let all = named.flat_map(|(name, regions)| {
            regions.iter().enumerate().map(move |(index, region)| (format!("{name}.{index}"), region))
        });
        all.filter_map(|(part, region)| Some(region.cut_short?.error().in_part(&part)))
    }
}
