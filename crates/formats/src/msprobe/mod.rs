//! The JSON files of an msprobe dump: `dump.json`, `debug.json`, `stack.json`, `construct.json`, of every release.
//!
//! A `dump.json` grows with the number of calls of a step, easily beyond what a tree of it would take in memory,
//! so it is read call by call; so are the other two. Nothing is lost on the way: what a release wrote that is
//! not known here stays as it was, and writing what was read gives the same bytes as the tool's own
//! `json.dump(indent=1)`. The writer of a dump may have been killed, so a file that breaks off yields every
//! complete call and then one error that says where.
//!
//! ```text
//! dump.json      ──► DumpJson      ──► Call { key, sections of Items }, …     ──► DumpWriter
//! stack.json     ──► StackJson     ──► Stack { names, lines }, …              ──► StackWriter
//! construct.json ──► ConstructJson ──► Link { child, parent }, …              ──► ConstructWriter
//! ```

mod construct;
mod dump;
mod item;
mod stack;

pub use construct::{ConstructJson, ConstructWriter, Link, Parent};
pub use dump::{Call, DumpJson, DumpWriter};
pub use item::{Item, TensorItem, plain_file_name};
pub use stack::{Stack, StackForm, StackJson, StackWriter};

use crate::json::Layout;

/// How the tool lays its files out.
pub const LAYOUT: Layout = Layout::Indented(1);
