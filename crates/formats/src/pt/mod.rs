//! PyTorch's `.pt` files, read and written without PyTorch.
//!
//! ```text
//!              ┌ zip: data.pkl + one entry per storage ── archive ┐
//! Bytes ── read┤                                                  ├► Pickle + Storages ──► objects ──► Value
//!              └ before torch 1.6: pickles, then storages ─ legacy┘
//! Value ── write ──► pickler (data.pkl) + the storages its tensors span ──► zip
//! ```
//!
//! Tensors of a stored archive, and of the older form, are slices of the given bytes; tensors that share a
//! storage in the file share it here. The location (`cpu`, `cuda:0`, `npu:1`) a tensor was saved from is
//! ignored: everything is read to where the bytes are.

mod archive;
mod instances;
mod legacy;
mod numpy;
mod objects;
mod pickler;
mod storage;
mod tensor;
mod write;

pub use write::write;

use crate::bytes::Bytes;
use crate::error::{Error, Fault, beginning};
use crate::value::Value;
use crate::zip_entries;

/// Reads a file of `torch.save`, in the zip form or the form before torch 1.6.
///
/// Sets come as lists, `torch.Size` as a tuple, dtypes and devices as text (`torch.float32`, `cuda:0`).
/// An object of a class that is not known here is a dictionary of its attributes; one that is merely filled like a
/// dictionary or a list is carried as one. A file that names a way to run code is refused.
pub fn read(bytes: &Bytes) -> Result<Value, Error> {
    if bytes.starts_with(zip_entries::MAGIC) {
        return archive::read(bytes);
    }
    if legacy::may_be(bytes) {
        return legacy::read(bytes);
    }
    let expected = "a .pt file (a zip archive, or torch's older form)";
    Err(Error::whole(Fault::Magic { expected, found: beginning(bytes) }))
}
