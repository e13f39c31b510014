//! Maps by address, or by a number that is a hash already.
//!
//! Every call looks up its tensors by their addresses several times. Nobody outside chooses them, so the hash need not
//! withstand an attacker, which is what the standard one spends its time on.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by address.
pub type AddressMap<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;

/// A hash of numbers: a multiplication, whose upper half depends on all bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressHasher(u64);

/// An odd number without a pattern in its bits: 2⁶⁴ divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        // The map takes its slot from the lowest bits, which a product of aligned addresses leaves at zero.
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects lie at multiples of 16, often in equal distances.
    #[test]
    fn neighbouring_addresses_have_different_slots() {
        for distance in [16, 64, 96, 4096, 1 << 20] {
            let slots: std::collections::HashSet<u64> = (0..1024_usize)
                .map(|index| {
                    let mut hasher = AddressHasher::default();
                    hasher.write_usize(0x7f12_3456_0000 + index * distance);
                    hasher.finish() & 0xffff
                })
                .collect();
            assert!(slots.len() > 900, "{} slots at a distance of {distance}", slots.len());
        }
    }

    #[test]
    fn the_order_of_numbers_matters() {
        let hash = |numbers: &[u64]| {
            let mut hasher = AddressHasher::default();
            numbers.iter().for_each(|&number| hasher.write_u64(number));
            hasher.finish()
        };
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
        assert_ne!(hash(&[0, 1]), hash(&[1, 0]));
    }
}
