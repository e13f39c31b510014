//! Reads a dump of any supported tool: steps, ranks, calls, entries, stacks.
//!
//! ```text
//! path ──► Dump ──► Step ──► RankPlace ──open──► Rank ──► Call, Call, …        (an index: 32 bytes a call)
//!                                                  ├─ entries(call) ──► Entry, …     (read on request)
//!                                                  ├─ stack(call), frames(call), parent(call)
//!                                                  └─ tensor(entry) ──► mapped file
//! ```
//! A dump may be larger than memory, and so may its index files. Therefore opening a rank reads its files once and
//! keeps only the name and place of each call. Everything else is decoded from the mapped file on request.
//!
//! A partly damaged dump is partly read: what could not be read is listed once in [`Problems`], with
//! its file and place.

mod acl;
mod address;
mod arguments;
mod async_npy;
mod call;
mod call_entries;
mod call_table;
mod companion;
mod damage;
mod entry;
mod file_part;
mod files;
mod find;
mod inputs;
mod joined;
pub mod journal;
mod key;
mod ledger;
mod links;
mod listing;
mod mapping_csv;
pub mod moved;
mod msprobe;
mod names;
pub mod operators;
mod parents;
mod passed_over;
mod pkl;
mod problems;
mod rank;
mod several;
mod stacks;
mod structure;
mod tensorflow;
mod tree;
mod unpack;
mod view;
pub mod writer;

pub use acl::{DeviceOverflow, OperatorFile, read_operator_file};
pub use address::tensor_at;
pub use arguments::{Argument, CallArguments};
pub use call::{Call, CallKind};
pub use entry::{Content, Data, Entry, MeshPlacement, NonFiniteCounts, Role, TensorEntry};
pub use file_part::FilePart;
pub use find::AFTER_LAST_STEP;
pub use inputs::Inputs;
pub use key::parse_key;
pub use ledger::{Ledger, ModelResults};
pub use mapping_csv::read_in as mapped_names;
pub use problems::Problems;
pub use rank::{Rank, Task, Tool};
pub use several::{OneOfSeveral, OriginNames, ShownCall};
pub use tree::{Dump, Holders, RankPlace, Select, Step};
pub use ulpscope_formats::Error;
pub use ulpscope_formats::pkl_lines::Frame;
pub use unpack::{PackedRank, Unpacked};
pub use view::{AssembledTensor, RankView};
