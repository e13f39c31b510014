//! Reads two tensors of a dump: small ones on one core each, large ones on all cores and page by page.

use std::ops::Range;

use ulpscope_formats::Tensor;
use ulpscope_kernels::{Reading, Threads};

/// Larger pairs are spread over all cores, and their memory is released as it is read; smaller ones are many, and each
/// stays on one core.
const SPREAD_BYTES: u64 = 32 << 20;

/// Bytes of both.
pub(crate) fn bytes(target: &Tensor, golden: &Tensor) -> u64 {
    [target, golden].iter().map(|tensor| (tensor.view().len() * tensor.dtype().size()) as u64).sum()
}

/// Runs a pass over two tensors.
pub(crate) fn read<R>(target: &Tensor, golden: &Tensor, pass: impl FnOnce(Reading<'_>) -> R) -> R {
    if bytes(target, golden) <= SPREAD_BYTES {
        return pass(Threads::One.into());
    }
    let release = |read: Range<usize>| {
        target.release(read.clone());
        golden.release(read);
    };
    pass(Reading { threads: Threads::All, after: Some(&release) })
}
