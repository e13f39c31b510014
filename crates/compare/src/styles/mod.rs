//! The ways of comparing that reproduce the older tools: same columns, same rows, same order, same texts.

pub(crate) mod advisor;
mod fingerprint;
mod lines;
pub mod msprobe;
pub mod msprobe1;
mod peer_metrics;
pub mod ptdbg;
mod python_text;
mod queues;
pub mod torch_npu;
mod widths;
