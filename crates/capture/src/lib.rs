//! The core of capture, without Python: what is recorded of a run, and under which limits.
//!
//! ```text
//! Settings ──► Plan (what is selected) ─┐
//! calls, gradients, values ──► Recording ──► State (one step: counters, Ledger, Limits) ──► journal, tensor files
//!     CallRecord (one call from its beginning to its end)     │
//!     PendingBackward (a backward call whose gradients arrive one by one)
//! tensors ──► Flow (who produced them), Changes (who wrote to which memory), Blanks (to which nobody did)
//! ```
//! Code that calls Python or torch is in `ulpscope-py`, which uses this crate. Generic types here (a tensor, a
//! gradient) are Python objects there, and simple values in the tests.

mod address_map;
mod backward_names;
mod blanks;
mod buffers;
mod call_record;
mod captured_graphs;
mod changes;
mod flow;
mod gradient_counts;
mod ledger;
mod limits;
pub mod modules;
mod name_list;
mod overflow;
mod passes;
mod pending_backward;
mod plan;
mod recording;
mod stack;
mod state;
mod threads;

pub use address_map::{AddressHasher, AddressMap};
pub use backward_names::{aged_backward_name, backward_name};
pub use blanks::Initialised;
pub use buffers::Buffer;
pub use call_record::{CallRecord, Kind};
pub use captured_graphs::{AtReplay, GraphCalls, GraphNumber, IsHere, Replayed, is_in_graph};
pub use changes::{Changes, Storage};
pub use flow::{Flow, FlowNote, Forgotten, TensorObject};
pub use ledger::{
    ACROSS_GRAPH, IN_REPEATED, METADATA, NOT_ARRIVED, NOT_SELECTED, ON_DEVICE, ORIGIN_UNKNOWN, OUTSIDE,
    OVER_BYTES, OVER_CALLS, PASSED_INFINITY, PASSED_NAN, RESULTS_OVER_BYTES, SATURATED, StepLedger,
    WITHIN_GRAPH,
};
pub use limits::Limits;
pub use modules::{ModuleLevel, ModuleName, Modules};
pub use overflow::{Overflow, StepOverflows};
pub use passes::Passes;
pub use pending_backward::{
    FinishedBackward, PartialGradient, PendingBackward, ResultGradient, SharedGradient, StartedBackwards,
    lock_call,
};
pub use plan::{
    DeviceStatistics, Gradients, Interruption, NameTest, Plan, Sample, ScopeState, Settings, UnknownSetting,
};
pub use recording::{CallSelection, Recording};
pub use stack::CallStack;
pub use state::{State, StepId, Written};
pub use threads::{CallingThreads, ThreadId};
