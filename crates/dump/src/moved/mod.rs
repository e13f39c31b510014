//! A rank whose files are on a different machine.
//!
//! ```text
//! FarRank ──documents──► mirror ──open──► Rank ──► its tensors ──► choice: the same as a tensor at hand, or moved, or left
//!    ├────states, digests────────────────────────────────────────────┘                              │
//!    └────read, in pieces──► mirror ◄───────────────────────────────────────────────────────────────┘
//! ```
//! Records are always copied. A tensor is read from a file at hand if its bytes are the same there, else it is copied, as
//! long as a budget lasts. The rest is as if it had not been recorded, and is counted.

mod choice;
mod far;
mod mirror;
mod place;
mod stored;

pub(crate) use choice::{MovedTensors, MovedTo};
pub use far::{Documents, FarRank, FileRange, FileState, LocalFiles, RankFile};
pub use mirror::{MirrorFolder, MoveCounts, MoveError};
