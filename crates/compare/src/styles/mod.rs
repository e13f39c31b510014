//! The ways of comparing that reproduce the older tools: same columns, same rows, same order, same texts.

pub mod msprobe;
mod peer_metrics;
mod python_text;
mod widths;
