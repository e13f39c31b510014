//! The command from outside: real files in, whole outputs and exit codes out.
#![allow(clippy::unwrap_used, missing_docs)]

mod after_last_step;
mod compare;
mod convert;
mod diff;
mod exit_codes;
mod explain;
mod explain_region;
mod help;
mod hostile_names;
mod journal;
mod json_errors;
mod ls;
mod memory;
mod merge;
mod no_hangs;
mod overflow;
mod page;
mod page_source;
mod passed_over;
#[cfg(target_os = "linux")]
mod peak;
mod run;
mod shell;
mod show;
mod stats;
mod view;
mod workspace;
