//! Recording calls as they happen.
//!
//! ```text
//! torch ──► Recorder.__torch_function__ ─┐
//! wrappers in Python ──► begin, end ─────┤    arguments ──► items (JSON text, statistics, tensor files) ──┐
//! modules ──► enter_module, leave_module ┤    frames ──► stacks (interned)                               ├─► Journal
//! autograd ──► gradient hooks ───────────┘    tensors ──► flow (who made them)                           ┘
//! ```
//! What is recorded, counted and written is [`ulpscope_capture`]'s, which knows no Python; here are the folders that ask
//! Python's objects: `calls/` (from arguments to results), `gradients/` (hooks in the autograd graph), `provenance/` (where
//! tensors come from), `describe/` (values as JSON), `lifecycle/` (steps, settings, errors).
//!
//! One Rust call per captured call does everything. Python is asked what a function is called and what a stack looks like
//! when it is seen for the first time, and how a value or tensor out of the ordinary reads, through the
//! [`torch_api::Torch`] table.
//!
//! Nothing recorded may depend on, or change, what the program computes: tensors in ordinary memory are read where they
//! lie, and the autograd graph is only looked at. What torch has to compute (copies from devices, dense forms of sparse
//! tensors, sums of gradients that come in parts) no mode of the program sees.

mod calls;
mod describe;
mod gradients;
mod lifecycle;
mod provenance;
mod python_objects;
mod recorder;
mod torch_api;

pub(crate) use calls::open_calls::OpenCall;
pub(crate) use gradients::node_hooks::HookPlacer;
pub(crate) use recorder::Recorder;
