//! Statistics and digests of tensors on NVIDIA GPUs, by a kernel of our own.
//!
//! ```text
//! statistics.cu ──► Compiler (NVRTC) ──► Cache ──► Gpu: kernels, self-check
//!                                                   │ measure: a launch on the program's stream
//! numbers ◄── Measurement ◄── slot in memory of the host, with a word that says done
//! ```
//! NVRTC and the driver are opened when they are needed; nothing of CUDA is linked. The kernel writes its results
//! straight into memory of the host, so there is no copy, no event, and nothing to wait for. Its scratch memory is that
//! of its stream, on which kernels run one after the other.
//!
//! The kernel is C++ that g++ compiles as well: `tests/host_kernel.rs` compares it with `ulpscope-kernels`, and
//! `tests/standin_driver.rs` runs everything else with a driver that runs the kernel on the host.

mod cache;
mod compiler;
mod driver;
mod error;
mod gpu;
mod graph_measurement;
mod launch;
mod memory;
pub mod process;
mod self_check;

pub use cache::Cache;
pub use compiler::Compiler;
pub use driver::{Driver, Stream};
pub use error::Error;
pub use gpu::{Gpu, GpuTensor, Measurement};
pub use graph_measurement::GraphMeasurement;
pub use launch::{Launch, MAX_TENSORS, Outcome, PARTIAL_BYTES, Tensor, function_name};

/// The kernel, for NVRTC.
pub const SOURCE: &str = concat!(include_str!("device.h"), include_str!("statistics.cu"));
