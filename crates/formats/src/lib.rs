//! Reads and writes tensors in files: one module per format.
//!
//! A file comes from another machine, so it is only data. No reader here runs anything that a file names, follows a
//! path out of its folder, or allocates more than the size of the file justifies. A problem is reported once, in one
//! [`Error`] that names the file, the place in it, what was expected and what was found.
//!
//! ```text
//! path ──► Bytes (mapped) ──► reader of its Format ──► Value (tensors share the mapped bytes)
//! Value ──► writer of a Format ──► temporary file beside the target ──► renamed into place
//! ```

pub mod acl;
mod budget;
#[cfg(unix)]
mod bus_guard;
mod byte_order;
mod bytes;
mod error;
pub mod file;
pub mod json;
mod mapping;
pub mod msprobe;
pub mod names;
pub mod natural;
pub mod npy;
pub mod npz;
mod packed;
mod pickle;
pub mod pkl_lines;
pub mod protobuf;
pub mod pt;
pub mod records;
pub mod safetensors;
pub mod storage;
mod tensor;
pub mod tensorflow;
mod value;
mod zip_entries;

pub use budget::Budget;
pub use bytes::{Access, Bytes};
pub use error::{Error, Fault, Place};
pub use mapping::{Watch, check_memory};
pub use packed::write_packed;
pub use tensor::Tensor;
pub use value::Value;
