//! `.safetensors`: named tensors after a JSON header.
//!
//! ```text
//! header length (u64) | {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"}, …} | elements
//! ```
//!
//! A file is read as a dictionary in the order of the tensors' offsets, each mapped in place. The file's own
//! metadata, if any, is the first entry, `__metadata__`, and is written back into the header.
//! The rules of the format are enforced: tensors follow each other without gaps and fill the file.
//!
//! If we cannot measure a type of the format (4-bit and 6-bit floats), or it is newer than this reader, only its
//! tensor is lost and not the file: the entry is then [`Value::Unread`] and says why.
//!
//! # Element types the format has no name for
//!
//! `hifloat8` is stored as `U8`, and `complex128` as `F64` with a last dimension of 2 (real, imaginary). A metadata
//! entry `ulpscope.dtype.NAME` names the type. This reader restores it; any other reader sees plain numbers.
//!
//! # Files of a capture
//!
//! [`ShardHeader`] is the header of a file to which a run appends its tensors. The metadata entry `ulpscope.pack`
//! identifies such a file.

mod header;
mod read;
mod shard;
mod write;

use ulpscope_tensor::DType;

use crate::value::Value;

pub use header::MAX_HEADER_SIZE;
pub use read::read;
pub use shard::{ALIGNMENT, ShardHeader, ShardMark, ShardPlace};
pub use write::{left_out, write};

/// The header's entry for metadata, and its key in the value that [`read`] returns.
pub const METADATA: &str = "__metadata__";

/// Prefix of a metadata key. A tensor's name follows, and the value is a type that the format has no name for.
const DTYPE_KEY: &str = "ulpscope.dtype.";

/// A metadata key of a file that capture wrote: tensors appended one by one, with fillers between them.
const PACK_KEY: &str = "ulpscope.pack";

/// A metadata key of such a file whose header was not filled in yet. The value says where its tensors are listed.
const UNFINISHED_KEY: &str = "ulpscope.unfinished";

/// How the names of fillers begin.
const PADDING_NAME: &str = "__padding__.";

/// The name of a single tensor without a name.
const LONE_TENSOR: &str = "tensor";

/// How a dtype without a name is stored: the name used instead, and the dimension added at the end. Complex numbers
/// are stored as their parts, others as integers of as many bits or, if there are none, as bytes.
fn stand_in(dtype: DType) -> (&'static str, Option<usize>) {
    let is_part = |part: &DType| part.is_float() && part.size() * 2 == dtype.size();
    let parts = || DType::ALL.into_iter().filter(is_part).find_map(DType::safetensors_name);
    match dtype.is_complex().then(parts).flatten() {
        Some(part) => (part, Some(2)),
        None => match dtype.bits_dtype().and_then(DType::safetensors_name) {
            Some(bits) => (bits, None),
            None => ("U8", Some(dtype.size())),
        },
    }
}

/// The metadata of a value: its top-level `__metadata__`, if that maps text to text.
fn metadata_of(value: &Value) -> Option<Vec<(&str, &str)>> {
    let Value::Dict(pairs) = value else { return None };
    let (_, metadata) = pairs.iter().find(|(key, _)| matches!(key, Value::Str(key) if key == METADATA))?;
    let Value::Dict(entries) = metadata else { return None };
    entries
        .iter()
        .map(|entry| match entry {
            (Value::Str(key), Value::Str(text)) => Some((key.as_str(), text.as_str())),
            _ => None,
        })
        .collect()
}
