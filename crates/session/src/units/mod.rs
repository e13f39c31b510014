//! Units: pairs of ranks that are compared elsewhere, or ranks that are scanned, each on its own.
//!
//! ```text
//! pairs ──► UnitQueue ──► job (JSON) ──► Dispatcher ──► worker: answer() ──► answer (JSON), rows
//!              │ deliver ◄────────────────────────────────────────────────────────┘
//!              ▼
//!          UnitStore (DIR/units/) ──► merge, in the order of the pairs
//! ```
//! A job says everything that a worker needs. An answer is saved before its unit counts as done, and names the inputs
//! that it was made from: a later comparison uses it again if these are unchanged.

mod answer;
mod compare_work;
mod dispatcher;
mod elsewhere;
mod far_files;
mod gathered;
mod job;
mod listing;
mod located;
mod node_dumps;
mod queue;
mod rank_units;
mod scan_elsewhere;
mod scan_work;
mod store;

pub use answer::UnitAnswer;
pub use dispatcher::{Dispatcher, EngineSettings, NodeListing, locate};
pub use elsewhere::{AnsweredSink, Elsewhere, ResultFolders};
pub use far_files::{FileReader, answer_about_files};
pub use gathered::MOVE_LIMIT;
pub use job::{Answered, Worker, answer};
pub use listing::find;
pub use located::{Located, LocatedMap, LocatedRank};
pub use node_dumps::DumpNodes;
pub use queue::{QueuedUnit, UnitQueue};
pub use rank_units::{RankUnit, rank_units};
pub use scan_elsewhere::ScanElsewhere;
pub use store::UnitStore;
