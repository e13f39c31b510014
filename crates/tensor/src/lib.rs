//! What a tensor is: a dtype, a shape, strides, and bytes that belong to somebody else.
//!
//! Everything above this crate speaks in [`View`]s. A view borrows little-endian bytes, wherever they come
//! from (a mapped file, a torch storage, a test's array), and has already been checked: no element it can
//! address lies outside the bytes it was made from. There is no I/O here and there are no threads.

mod dtype;
mod float8;
mod python_float;
mod region;
mod scalar;
mod view;

pub use dtype::{DType, Float8Row};
pub use float8::Table;
pub use python_float::{push_python_float, python_float_repr};
pub use region::Region;
pub use scalar::Scalar;
pub use view::{View, ViewError, contiguous_strides, coordinates, element_count};
