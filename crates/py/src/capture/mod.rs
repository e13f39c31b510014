//! Recording calls as they happen.
//!
//! ```text
//! torch ──► Recorder.__torch_function__ ─┐
//! wrappers in Python ──► begin, end ─────┤    arguments ──► items (JSON text, statistics, tensor files) ──┐
//! modules ──► enter_module, leave_module ┤    frames ──► stacks (interned)                               ├─► Journal
//! autograd ──► gradient hooks ───────────┘    tensors ──► flow (who made them)                           ┘
//! ```
//! One Rust call per captured call does everything. Python is asked what a function is called and what a stack looks like
//! when it is seen for the first time, and how a value or tensor out of the ordinary reads, through the
//! [`torch_api::Torch`] table.
//!
//! Nothing recorded may depend on, or change, what the program computes: tensors in ordinary memory are read where they
//! lie, and the autograd graph is only looked at. What torch has to compute (copies from devices, dense forms of sparse
//! tensors, sums of gradients that come in parts) no mode of the program sees.

mod arguments;
mod arriving;
mod backward_names;
mod begun;
mod blanks;
mod buffers;
mod call;
mod changes;
mod effects;
mod failures;
mod flow;
mod frames;
mod functions;
mod gradients;
mod graph;
mod hooks;
mod items;
mod late_copies;
mod ledger;
mod lifecycle;
mod limits;
mod module_calls;
mod modules;
mod open_calls;
mod parameter_gradients;
mod passes;
mod places;
mod plan;
mod properties;
mod python_objects;
mod raised;
mod recorder;
mod saved;
mod seen;
mod state;
mod tensors;
mod threads;
mod torch_api;
mod twins;
mod writing;

pub(crate) use hooks::HookPlacer;
pub(crate) use open_calls::OpenCall;
pub(crate) use recorder::Recorder;
