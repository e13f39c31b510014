//! Recording calls as they happen.
//!
//! ```text
//! torch ──► Recorder.__torch_function__ ─┐
//! wrappers in Python ──► begin, end ─────┤    arguments ──► items (JSON text, statistics, tensor files) ──┐
//! modules ──► enter_module, leave_module ┤    frames ──► stacks (interned)                               ├─► Journal
//! autograd ──► gradient hooks ───────────┘    tensors ──► flow (who produced them)                       ┘
//! ```
//! [`ulpscope_capture`] decides what is recorded, counted and written, without Python. The folders here read Python
//! objects: `calls/` (from arguments to results), `gradients/` (hooks in the autograd graph), `provenance/` (where
//! tensors come from), `describe/` (values as JSON), `device/` (statistics that arrive later), `overflow/` (calls that are only checked), `lifecycle/` (steps,
//! settings, errors).
//!
//! One Rust call per captured call does everything. Python code runs, through the [`torch_api::Torch`] table, only for
//! new functions and stacks, and for unusual values and tensors.
//!
//! Recording must not depend on, or change, what the program computes: tensors in ordinary memory are read in place,
//! and the autograd graph is only read. The operations that torch must run for us (copies from devices, dense forms of
//! sparse tensors, sums of gradients that arrive in parts) are hidden from the program's modes.

mod calls;
mod describe;
mod device;
mod gradients;
mod lifecycle;
mod overflow;
mod provenance;
mod python_objects;
mod recorder;
mod torch_api;

pub(crate) use calls::open_calls::OpenCall;
pub(crate) use device::captured_graphs::CapturedGraph;
pub(crate) use gradients::node_hooks::HookPlacer;
pub(crate) use python_objects::ask;
pub(crate) use recorder::Recorder;
