//! One file per command.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod locate;
pub(crate) mod ls;
pub(crate) mod manual;
pub(crate) mod merge;
pub(crate) mod network;
pub(crate) mod overflow;
pub(crate) mod page;
pub(crate) mod precision_tool;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod stats;
