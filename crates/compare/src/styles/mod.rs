//! Styles that reproduce the older tools: same columns, same rows, same order, same texts.

pub(crate) mod advisor;
mod fingerprint;
mod lines;
pub mod msaccucmp;
pub mod msprobe;
pub mod msprobe1;
mod peer_metrics;
pub mod ptdbg;
pub mod python_text;
mod queues;
pub mod torch_npu;
mod widths;

use ulpscope_dump::{Content, Entry};

/// Bytes read to compare an entry by its elements: the other side is as large, except for its dtype.
fn data_bytes(entry: &Entry) -> u64 {
    match &entry.content {
        Content::Tensor(tensor) if tensor.has_data() => tensor.size().saturating_mul(2),
        _ => 0,
    }
}
