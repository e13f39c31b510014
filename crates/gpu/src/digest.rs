//! The digest that the kernel computes, for tensors in ordinary memory.
//!
//! Words of 8 bytes, of the elements packed in row-major order, are mixed with their positions and added. A sum can be
//! computed in any order, so the same bytes have the same digest on every device.

use ulpscope_tensor::View;

/// The digest of a tensor.
pub fn word_digest(view: &View<'_>) -> u64 {
    let bytes = view.to_packed();
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let sum = (0..).zip(words).fold(0u64, |sum, (position, word)| sum.wrapping_add(mixed(word, position)));
    mixed(sum, bytes.len() as u64)
}

/// As in `statistics.cu`.
fn mixed(word: u64, position: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(position.wrapping_add(1)));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
