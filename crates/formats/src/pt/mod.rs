//! PyTorch's `.pt` files, read and written without PyTorch.
//!
//! ```text
//!              ┌ zip: data.pkl + one entry per storage ── archive ┐
//! Bytes ── read┤                                                  ├► Pickle + Storages ──► objects ──► Value
//!              └ before torch 1.6: pickles, then storages ─ legacy┘
//! Value ── write ──► pickler (data.pkl) + the storages its tensors span ──► zip
//! ```
//! Tensors of a stored archive, and of the older format, are slices of the given bytes. Tensors that share a
//! storage in the file share it here. The device (`cpu`, `cuda:0`, `npu:1`) that a tensor was saved from is
//! ignored: the bytes are used in place.
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

/// Reads a file of `torch.save`, in the zip format or the one before torch 1.6.
///
/// Sets become lists, `torch.Size` a tuple, dtypes and devices text (`torch.float32`, `cuda:0`).
/// An object of an unknown class becomes a dictionary of its attributes, or a plain dictionary or list if it is only
/// filled like one. A file that names a way to run code is refused.
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
