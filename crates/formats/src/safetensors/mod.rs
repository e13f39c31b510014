//! `.safetensors`: named tensors behind a JSON header.
//!
//! ```text
//! header length (u64) | {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"}, …} | elements
//! ```
//!
//! A file is read as a dictionary in the order in which its tensors lie, each mapped in place; the file's own
//! metadata, if any, is its first entry, `__metadata__`, and goes back into the header when the value is written.
//! The rules of the format are kept to: tensors lie end to end and fill the file.
//!
//! A type the format knows but we cannot measure (4-bit and 6-bit floats), or one newer than this reader, loses
//! its tensor and not the file: the entry is then [`Value::Unread`] and says why.
//!
//! # Element types the format has no name for
//!
//! `hifloat8` is stored as `U8`, and `complex128` as `F64` with a last dimension of 2 (real, imaginary). A metadata
//! entry `ulpscope.dtype.NAME` tells the type, so that this reader restores what was written while any other sees
//! plain numbers.

mod header;
mod read;
mod write;

use ulpscope_tensor::DType;

use crate::value::Value;

pub use header::MAX_HEADER_SIZE;
pub use read::read;
pub use write::{left_out, write};

/// The header's entry for metadata, and the key under which [`read`] returns it.
pub const METADATA: &str = "__metadata__";

/// In front of a tensor's name, the metadata key that tells its type where the format cannot.
const DTYPE_KEY: &str = "ulpscope.dtype.";

/// The name a lone tensor is given.
const LONE_TENSOR: &str = "tensor";

/// How a dtype without a name is stored: the name used instead, and the dimension added at the end.
fn stand_in(dtype: DType) -> (&'static str, Option<usize>) {
    if dtype == DType::C128 { ("F64", Some(2)) } else { ("U8", None) }
}

/// The metadata of a value: its top-level `__metadata__`, when that maps text to text.
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
