//! Units: pairs of ranks that are compared elsewhere, each on its own.
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
mod dispatcher;
mod elsewhere;
mod far_files;
mod gathered;
mod job;
mod listing;
mod located;
mod queue;
mod store;

pub use answer::UnitAnswer;
pub use dispatcher::{Dispatcher, EngineSettings, NodeListing, locate};
pub use elsewhere::{AnsweredSink, DumpNodes, Elsewhere, ResultFolders};
pub use far_files::{FileReader, answer_about_files};
pub use gathered::{MOVE_LIMIT, Worker};
pub use job::{Answered, answer};
pub use listing::find;
pub use located::{Located, LocatedMap, LocatedRank};
pub use queue::{QueuedUnit, UnitQueue};
pub use store::UnitStore;
