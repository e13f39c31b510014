//! One class for each call: which calls introduced an error, and which only pass it on.
//!
//! `conclude` goes over the calls in execution order. Most other files are one kind of cause, or one reason not to blame a call.
//! `conclusion` and `conclusion_list` hold the result, `verdict` and `remarks` put it into rows, findings and notes, and `proofs`
//! checks it by replay.

pub(in crate::native) mod amplified;
pub(in crate::native) mod blame;
pub(in crate::native) mod cast;
pub(in crate::native) mod conclude;
pub(in crate::native) mod conclusion;
pub(in crate::native) mod conclusion_list;
pub(in crate::native) mod gradients;
pub(in crate::native) mod inherited;
pub(in crate::native) mod non_finite;
pub(in crate::native) mod proofs;
pub(in crate::native) mod regions;
pub(in crate::native) mod remarks;
pub(in crate::native) mod reordered;
pub(in crate::native) mod routes;
pub(in crate::native) mod side_branches;
pub(in crate::native) mod standalone_tensors;
pub(in crate::native) mod uninitialised;
pub(in crate::native) mod updates;
pub(in crate::native) mod verdict;
