//! Names and structures as numbers: what has to be remembered of an operation to match it.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Takes in parts, one after the other. Two operations with equal fingerprints are taken for equal: among a billion
/// of them two different ones would collide once in some 10^20 runs.
#[derive(Clone)]
pub(crate) struct Fingerprint([DefaultHasher; 2]);

impl Fingerprint {
    /// Of nothing.
    pub(crate) fn new() -> Fingerprint {
        let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
        // The two halves must not be the same function.
        hashers[1].write_u8(1);
        Fingerprint(hashers)
    }

    /// Takes in a part.
    pub(crate) fn take(&mut self, part: impl Hash) {
        self.0.iter_mut().for_each(|hasher| part.hash(hasher));
    }

    /// Of all parts so far.
    pub(crate) fn finish(&self) -> u128 {
        let [high, low] = [&self.0[0], &self.0[1]].map(|hasher| u128::from(hasher.finish()));
        high << 64 | low
    }
}
