//! The commands, one file each. A command that exists in both dialects has one function for each.

pub(crate) mod compare_two;
pub(crate) mod convert;
pub(crate) mod find;
pub(crate) mod help;
pub(crate) mod pkl;
pub(crate) mod print;
pub(crate) mod vector_compare;
