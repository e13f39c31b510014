//! The identity of a tensor's content.

use ulpscope_kernels::{Digest, DigestKind, digest, read_once};
use ulpscope_tensor::{DType, View};

/// The identity of a tensor's content.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    digest: Digest,
    dtype: DType,
    shape: Vec<usize>,
    /// The shape that the digest covers, if each of its elements is repeated many times.
    once: Option<Vec<usize>>,
}

impl Fingerprint {
    /// The fingerprint of a tensor. Elements that it repeats in large numbers are read once: such a tensor does not
    /// share a file with a copy of itself.
    pub fn of(view: &View<'_>) -> Fingerprint {
        let once = read_once(view).map(|(once, _)| once);
        let digest = digest(once.as_ref().unwrap_or(view), DigestKind::Xxh3);
        let once = once.map(|once| once.shape().to_vec());
        Fingerprint { digest, dtype: view.dtype(), shape: view.shape().to_vec(), once }
    }

    /// Whether elements that the tensor repeats in large numbers count once.
    pub(super) fn is_once(&self) -> bool {
        self.once.is_some()
    }
}
