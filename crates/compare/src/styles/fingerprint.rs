//! Names and structures as numbers, to match operations with little memory.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Hashes parts in order. Two operations with equal fingerprints count as equal: among a billion of them two different
/// ones would collide once in some 10^20 runs.
#[derive(Clone)]
pub(crate) struct Fingerprint([DefaultHasher; 2]);

impl Fingerprint {
    /// An empty one.
    pub(crate) fn new() -> Fingerprint {
        let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
        // The two halves must be different functions.
        hashers[1].write_u8(1);
        Fingerprint(hashers)
    }

    /// Adds a part.
    pub(crate) fn take(&mut self, part: impl Hash) {
        self.0.iter_mut().for_each(|hasher| part.hash(hasher));
    }

    /// The fingerprint of all parts so far.
    pub(crate) fn finish(&self) -> u128 {
        let [high, low] = [&self.0[0], &self.0[1]].map(|hasher| u128::from(hasher.finish()));
        high << 64 | low
    }
}
