//! Writes a dump during the run: a journal that survives a kill, and the elements of tensors.
//!
//! ```text
//! call ──► line of JSON ──► Journal (a mapped window)                 ──► dump.json, … at the end of the step
//!      └─► tensors ──► TensorStore ──► Pack (appended to a few files)       ──► Outgoing (few large writes)
//!                                └──► TensorFiles (one each, linked if known) ──┘
//! ```
//! A line belongs to the system as soon as it is complete, and the bytes of a tensor are in their file before the line
//! that names them is written. Statistics that a device computes come after their line, into room that it has for them
//! ([`LateNumbers`]). So everything that a line names exists, even if the process dies right after it.

mod fingerprint;
pub(crate) mod folder;
mod forks;
mod journal;
mod late_numbers;
pub(crate) mod names;
mod outgoing;
mod pack;
mod promise;
mod saved_tensor;
mod tensor_files;
mod tensor_store;

pub use fingerprint::Fingerprint;
pub use forks::Process;
pub use journal::Journal;
pub use late_numbers::LateNumbers;
pub use pack::{PackSize, is_shard_name};
pub use saved_tensor::{SavedPart, SavedTensor};
pub use tensor_files::DATA_FOLDER;
pub use tensor_store::{TensorFormat, TensorStore};
