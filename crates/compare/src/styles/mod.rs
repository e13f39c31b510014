//! The ways of comparing that reproduce the older tools: same columns, same rows, same order, same texts.

pub(crate) mod advisor;
pub mod msprobe;
pub mod msprobe1;
mod peer_metrics;
mod python_text;
mod widths;
