//! Writing a journal: typed lines and values, encoded straight into the buffer of whoever records.
//!
//! ```text
//! Header, StackLine, CallLine, RaisedLine, Ledger ──► encode ──► one line        (lines.rs)
//! ListText, ObjectText, Plain, Section            ──► encode ──► values in it    (values.rs)
//! TensorHead, TensorRest                          ──► encode ──► tensors in them (tensors.rs)
//! ```
//! The grammar is the one that `line.rs` and `quick.rs` read; `round_trip.rs` proves that they read every line
//! written here as what it says. Nothing here allocates: a call has several lines, and a run has millions of calls.

mod ledger;
mod lines;
#[cfg(test)]
mod round_trip;
mod tensors;
mod values;

pub use lines::{CallLine, Header, LINE_END, RaisedLine, StackLine};
pub use tensors::{TensorHead, TensorRest, add_shared_with};
pub use values::{ListText, ObjectText, Plain, Section, push_float, push_int, push_null};
