//! The shells of precision_tool and of ptdbg_ascend's `parse`, over the files alone: no device, no framework, no other
//! tool is needed.
//!
//! ```text
//! line ──► words ──► a command of the dialect ──► options ──► work (formats, kernels, compare) ──► Reply
//!                └─► anything else: a program of the user's, which the caller runs
//! ```
//! The two tools have commands of the same name with different options (`vc -g` is a graph in one and the golden data in
//! the other): the [`Dialect`] decides. A command is one row of `dialect.rs` and one file of `commands/`. Nothing here
//! reads a terminal or starts a process, and nothing from a file becomes part of a command line.

mod cancel;
mod commands;
pub mod config;
mod dialect;
mod folders;
mod graphs;
mod npu_files;
mod numpy_text;
mod options;
mod pattern;
mod python_text;
mod reply;
mod session;
mod tensor_text;
pub mod words;

pub use cancel::Cancel;
pub use dialect::Dialect;
pub use folders::{DataFolders, DataKind};
pub use reply::{Ending, Reply, TrainingDevice, TrainingRequest};
pub use session::{Session, Step};
