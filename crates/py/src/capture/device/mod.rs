//! Statistics of tensors on other devices, computed there.
//!
//! ```text
//! tensor ──► queue (ticket, room in the line) ──► batch: operations on the device, in its order, a copy to the host
//!                                                   │
//! journal ◄── numbers, when they have arrived ◄── arrivals, checked by calls, by a thread, at the end of the step
//! ```
//! Tensors on NVIDIA GPUs are measured by one launch of our own kernel for all tensors of a dtype in a call (`gpus`,
//! crates/gpu), others by operations of torch. Numbers of the kernel are written without the GIL, by the thread.
//!
//! Tensors that get files are copied, in the same order, and measured and written on the host when they have arrived
//! (`copies`).
//!
//! Tensors in a graph that is being captured are measured whenever it is replayed (`captured_graphs`).
//!
//! The program never waits for numbers before its step is over. Later changes of a tensor do not matter: the device
//! measures in the order in which it was asked.

pub(super) mod arrivals;
pub(super) mod captured_graphs;
pub(super) mod copies;
mod gpu_arrivals;
pub(super) mod gpus;
pub(super) mod one_thread;
mod poller;
pub(super) mod queue;
