//! Writing a dump while the run goes on: a journal that survives a kill, and tensor files.
//!
//! ```text
//! call ──► line of JSON ──► Journal (a mapped window)       ──► dump.json, … at the end of the step
//!      └─► tensors ──► TensorFiles (named, linked when known already) ──► Outgoing (few large writes)
//! ```
//! A line is the system's as soon as it is whole, and a tensor file is whole before the line that names it is
//! written: whatever a line says is there, also when the process dies right after it.

pub(crate) mod folder;
mod forks;
mod journal;
mod outgoing;
mod promise;
mod tensor_files;

pub use forks::Process;
pub use journal::Journal;
pub use tensor_files::{DATA_FOLDER, Fingerprint, TensorFiles, file_size};
