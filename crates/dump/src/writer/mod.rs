//! Writes a dump during the run: a journal that survives a kill, and tensor files.
//!
//! ```text
//! call ──► line of JSON ──► Journal (a mapped window)       ──► dump.json, … at the end of the step
//!      └─► tensors ──► TensorFiles (named, linked when known already) ──► Outgoing (few large writes)
//! ```
//! A line belongs to the system as soon as it is complete, and a tensor file is complete before the line that names
//! it is written. Statistics that a device computes come after their line, into room that it has for them
//! ([`LateNumbers`]). So everything that a line names exists, even if the process dies right after it.

pub(crate) mod folder;
mod forks;
mod journal;
mod late_numbers;
mod outgoing;
mod promise;
mod tensor_files;

pub use forks::Process;
pub use journal::Journal;
pub use late_numbers::LateNumbers;
pub use tensor_files::{DATA_FOLDER, Fingerprint, TensorFiles, file_size};
