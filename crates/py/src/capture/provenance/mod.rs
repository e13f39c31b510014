//! Where tensors come from: what calls and properties do to tensors that were there before them, and how torch's objects
//! are asked what [`ulpscope_capture::Flow`] has to know of them.

mod effects;
pub(super) mod properties;
mod tensor_objects;
