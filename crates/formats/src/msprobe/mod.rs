//! The JSON files of an msprobe dump: `dump.json`, `debug.json`, `stack.json`, `construct.json`, of every release.
//!
//! A `dump.json` grows with the number of calls of a step. Its tree is easily larger than memory, so it is read call
//! by call; so are the other two. Nothing is lost: unknown fields of a release are kept, and writing what was read
//! gives the same bytes as the tool's own `json.dump(indent=1)`. The process that wrote a dump may have been killed,
//! so a truncated file yields every complete call and then one error that says where it ends.
//!
//! ```text
//! dump.json      ──► DumpJson      ──► Call { key, sections of Items }, …     ──► DumpWriter
//! stack.json     ──► StackJson     ──► Stack { names, lines }, …              ──► StackWriter
//! construct.json ──► ConstructJson ──► Link { child, parent }, …              ──► ConstructWriter
//! ```

mod body;
mod construct;
mod dump;
mod item;
mod stack;

pub use construct::{ConstructJson, ConstructWriter, Link, Parent};
pub use dump::{Call, DumpJson, DumpWriter};
pub use item::{Item, TensorItem, plain_file_name};
pub use stack::{Stack, StackForm, StackJson, StackWriter};

use crate::json::Layout;

/// The layout of the tool's files.
pub const LAYOUT: Layout = Layout::Indented(1);
