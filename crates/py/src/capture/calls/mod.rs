//! Calls that torch shows and that the wrappers begin, from arguments to results.

pub(super) mod arguments;
mod call;
pub(super) mod call_in_progress;
pub(super) mod dispatch;
mod frame_reader;
pub(super) mod frames;
pub(super) mod functions;
mod late_copies;
pub(super) mod module_calls;
pub(super) mod open_calls;
mod raised;
mod saved;
