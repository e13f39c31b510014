//! A dump as a value, whoever wrote it: steps, ranks, calls, entries, stacks.
//!
//! ```text
//! path ──► Dump ──► Step ──► RankPlace ──open──► Rank ──► Call, Call, …        (an index: 32 bytes a call)
//!                                                  ├─ entries(call) ──► Entry, …     (read when asked for)
//!                                                  ├─ stack(call), frames(call), parent(call)
//!                                                  └─ tensor(entry) ──► mapped file
//! ```
//! A dump may be larger than memory, its index files too. So opening a rank reads its files once and keeps of each
//! call only its name and place; everything else is decoded from the mapped file when somebody asks.
//!
//! A dump that is damaged in part is read in part: what could not be read is listed in [`Problems`], once, with
//! its file and place.

mod async_npy;
mod call;
mod companion;
mod damage;
mod entry;
mod files;
mod find;
mod joined;
pub mod journal;
mod key;
mod ledger;
mod links;
mod listing;
mod mapping_csv;
mod msprobe;
mod names;
mod parents;
mod passed_over;
mod pkl;
mod problems;
mod rank;
mod stacks;
mod structure;
mod tree;
pub mod writer;

pub use call::{Call, CallKind};
pub use entry::{Content, Data, Entry, NonFiniteCounts, Role, TensorEntry};
pub use find::AFTER_LAST_STEP;
pub use key::parse_key;
pub use ledger::Ledger;
pub use problems::Problems;
pub use rank::{Rank, Task, Tool};
pub use tree::{Dump, RankPlace, Select, Step};
pub use ulpscope_formats::Error;
pub use ulpscope_formats::pkl_lines::Frame;
