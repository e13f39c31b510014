//! Compares two dumps: pairs their entries, measures how far these differ, and judges the differences.
//!
//! ```text
//! target, golden ──► Style::plan ──► Plan: units (paired calls), and what has no counterpart
//!                                      │
//!                     unit by unit, on all cores, in order
//!                                      ▼
//!                    Judged { rows, call } ──► Sink (csv, xlsx, memory)  and  Summary
//! ```
//! A [`Style`] decides how entries are paired, measured and judged, and which columns a row has: ours is the native
//! one, the others reproduce the older tools' rows to the digit. Rows are passed on and dropped, so that memory does
//! not grow with the dump.

mod agreement;
mod divergence_entry;
mod fact;
mod fact_bytes;
mod final_result;
mod finding;
pub mod flat;
mod job;
mod ledgers;
mod levels;
mod mapping;
mod native;
pub mod network;
mod note;
pub mod number;
mod origins;
pub mod overflow;
mod pairing;
mod proof;
mod reading;
mod region;
pub mod results;
mod row_spool;
mod run;
mod sharded;
mod stack;
pub mod standards;
mod style;
pub mod styles;
mod verdict;
pub mod words;

pub use agreement::{Agreement, Answer, Surroundings, agreement};
pub use divergence_entry::DivergenceEntry;
pub use fact::{ArgumentDifference, Fact, Likeness, NonFiniteCount, Plain, Statistics};
pub use final_result::{EndDifference, FinalResult, UnexplainedStep};
pub use finding::{
    CauseRemark, CauseTraits, Finding, FindingCause, FindingKind, LeftDetails, Measure, Part, Precision,
    ShowsIn,
};
pub use job::{
    OpenedPair, Outputs, RankPair, RankPairs, RankResult, compare_dumps, compare_opened, compare_pair,
    first_divergence, pair_ranks,
};
pub use mapping::Mapping;
pub use native::{COLUMNS, Native, PROOF_COLUMNS};
pub use note::{CountDifference, Counted, InputPart, Note};
pub use origins::{OriginCounts, Share};
pub use pairing::{
    CallPair, EntryHow, EntryPair, EntryReason, EntryUnit, How, Matching, PairCounts, PairOptions, Pairing,
    Reason, Unit, UnknownMatching, pair, pair_entries,
};
pub use proof::{Proof, ProofVerdict, Prover, Proving, ReplayedError, WrongSide};
pub use region::{Region, RegionCall, RegionCalls, RegionResult};
pub use row_spool::{pack_row, unpack_row};
pub use run::{
    CompareError, Counts, FailingCall, NoProgress, Paired, Progress, RankOutcome, Sink, compare_ranks,
    compare_ranks_knowing,
};
pub use sharded::{
    BadParallel, Layout, Parallel, ParameterFault, ParameterFaultKind, ParameterSlice, RankGroup, RankGroups,
    ShardFault, StagePlace, compare_group, compare_groups, group_ranks,
};
pub use stack::CodeLines;
pub use style::{Conclusions, Judged, Known, Partnerless, Plan, Row, Settle, Side, Style, Verdict};
pub use verdict::{Class, ClassCounts, Divergence, LoneCall};
