//! Writes a journal: typed lines and values, encoded directly into the buffer of the recorder.
//!
//! ```text
//! Header, StackLine, CallLine, RaisedLine, Ledger ──► encode ──► one line        (lines.rs)
//! ListText, ObjectText, Plain, Section            ──► encode ──► values in it    (values.rs)
//! TensorHead, TensorRest                          ──► encode ──► tensors in them (tensors.rs)
//! Ticket, Numbers                                 ──► place  ──► statistics that arrive later (rooms.rs)
//! ```
//! `line.rs` and `quick.rs` read this grammar. `round_trip.rs` tests that they read back every line written here.
//! Nothing here allocates: a call has several lines, and a run has millions of calls.

mod ledger;
mod lines;
pub(crate) mod rooms;
#[cfg(test)]
mod round_trip;
mod tensors;
mod values;

pub(in crate::journal) use lines::STACK_FORM;
pub use lines::{CallLine, Header, LINE_END, RaisedLine, StackForm, StackLine};
pub use rooms::{Numbers, Ticket, add_with_tickets};
pub use tensors::{Elements, TensorHead, TensorRest, add_shared_with};
pub use values::{ListText, ObjectText, Plain, Section, push_float, push_int, push_null};
