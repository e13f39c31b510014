//! Statistics and digests of tensors on NVIDIA GPUs, by a kernel of our own.
//!
//! ```text
//! statistics.cu ──► Compiler (NVRTC) ──► Driver (module) ──► launch on the program's stream ──► results in memory of
//!                                                                                               the host, each with a
//!                                                                                               word that says done
//! ```
//! NVRTC and the driver are opened when they are needed; nothing of CUDA is linked. The kernel is C++ that g++ compiles
//! as well: `tests/host_kernel.rs` runs it so, and compares it with `ulpscope-kernels`. It has not run on a GPU in this
//! form, and capture does not use it yet.

mod compiler;
mod digest;
mod driver;
mod error;
mod launch;

pub use compiler::Compiler;
pub use digest::word_digest;
pub use driver::{Driver, Function, Stream};
pub use error::Error;
pub use launch::{Launch, MAX_TENSORS, Outcome, PARTIAL_BYTES, Tensor, function_name};

/// The kernel, for NVRTC.
pub const SOURCE: &str = concat!(include_str!("device.h"), include_str!("statistics.cu"));
