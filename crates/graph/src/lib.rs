//! The graphs that GE, the graph compiler of Ascend devices, and TensorFlow write: operators, their tensors, attributes
//! and edges.
//!
//! ```text
//! ge_proto_*.txt (text of a protobuf message) ──┐
//! *.txt.json     (the same as JSON)           ──┼─► fields ──► build ──► Graph ──► list, info, casts, diff, draw
//! ge_onnx_*.pbtxt (text, in ONNX's terms)     ──┘              ▲
//! .meta, event files (messages of TensorFlow) ─► tensorflow ──┘
//! ```
//!
//! Files of hundreds of megabytes are usual. They are read once from beginning to end, field by field; no tree of a file
//! is ever built. Fields that nobody asks for, weights above all, are skipped. Files of every version are read: no field
//! is required, and unknown ones are skipped.

mod build;
mod casts;
mod diff;
mod draw;
mod fields;
mod find;
mod fusion;
mod info;
mod json_fields;
mod model;
mod tensorflow;
mod text_fields;

pub use casts::{CastGroup, casts};
pub use diff::{GraphDiff, OpDifference, diff, diff_all};
pub use draw::draw;
pub use find::{GraphFile, graph_files, is_built, open, read_graphs};
pub use fusion::{FusionPass, FusionResult, parse as parse_fusion_results, read_fusion_results};
pub use info::{Consumer, OpFilter, OpInfo, TensorInfo, find_ops, info, list, type_counts};
pub use model::{Attr, Edge, Graph, Op, TensorDesc};
