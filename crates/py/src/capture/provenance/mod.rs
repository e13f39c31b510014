//! Where tensors come from: effects of calls and properties on existing tensors, and the queries of torch objects that
//! [`ulpscope_capture::Flow`] needs.

pub(super) mod call_memory;
mod effects;
pub(super) mod properties;
mod tensor_objects;
