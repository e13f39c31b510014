//! The command from outside: real files in, whole outputs and exit codes out.
#![allow(clippy::unwrap_used, missing_docs)]

mod compare;
mod convert;
mod diff;
mod explain;
mod help;
mod journal;
mod ls;
mod memory;
mod merge;
mod no_hangs;
#[cfg(target_os = "linux")]
mod peak;
mod run;
mod show;
mod stats;
mod workspace;
