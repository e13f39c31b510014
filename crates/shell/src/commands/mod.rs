//! The commands, one file each. A command that exists in both dialects has one function for each.

pub(crate) mod auto_check;
pub(crate) mod compare_two;
pub(crate) mod convert;
pub(crate) mod find;
mod fusion;
pub(crate) mod help;
pub(crate) mod list_ops;
pub(crate) mod node_info;
pub(crate) mod overflow_panels;
pub(crate) mod pkl;
pub(crate) mod print;
pub(crate) mod result_summary;
pub(crate) mod train;
pub(crate) mod vector_compare;
