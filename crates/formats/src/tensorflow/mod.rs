//! Files of TensorFlow, which are protobuf messages: the tensors that its debugger dumps, and graphs.
//!
//! ```text
//! Event        time, graph, summary { value { node "name:slot:DebugIdentity", tensor } }     tfdbg, TensorBoard
//! TensorProto  dtype, shape, and the elements: as bytes, or as numbers of which the last one is repeated
//! MetaGraphDef graph, and everything that a checkpoint says of it                            model.meta
//! ```
//!
//! The debugger writes one bare event to a file. TensorBoard's files are records with a length and two checksums
//! around each event. Graphs are read by the crate `graph`; here it is said where in a file they are.

mod data_type;
mod event;
mod names;
mod tensor_proto;

pub use data_type::TfType;
pub(crate) use event::EVENT_START;
pub use event::{DebugTensor, graph_range, read_debug_tensor, write_debug_tensor};
pub use names::{DebugFileName, NpyName, argument_name};
pub use tensor_proto::{TensorDescription, describe_tensor, read_shape};
