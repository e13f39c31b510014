//! One file per command.

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod merge;
pub(crate) mod stats;
