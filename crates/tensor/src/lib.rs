//! A tensor: a dtype, a shape, strides, and borrowed bytes.
//!
//! Everything above this crate uses [`View`]s. A view borrows little-endian bytes from any source
//! (a mapped file, a torch storage, a test's array) and has already been checked: all its elements are
//! within those bytes. There is no I/O here and there are no threads.

mod dtype;
mod encoding;
mod float8;
mod python_float;
mod region;
mod scalar;
mod view;

pub use dtype::{AclType, DType, UnknownDType};
pub use encoding::{Encoding, FloatLimits, NumberKind};
pub use float8::{Float8, Table};
pub use python_float::{push_python_float, python_float_repr};
pub use region::Region;
pub use scalar::Scalar;
pub use view::{View, ViewError, contiguous_strides, coordinates, element_count};
