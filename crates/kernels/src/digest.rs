//! Hashes of a tensor's bytes in row-major order, as in a packed file.

use md5::{Digest as _, Md5};
use ulpscope_tensor::View;

use crate::stop;

/// The kind of hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestKind {
    /// CRC-32 as zlib computes it: what msprobe and ptdbg_ascend call "md5".
    Crc32,
    /// MD5.
    Md5,
    /// XXH3 with 128 bits: fast, and long enough to identify the bytes.
    Xxh3,
    /// A sum of words of 64 bits, each mixed with its position: one that any number of threads, and a GPU, can compute
    /// while they read the bytes for something else. It finds differences; it does not resist an attacker.
    Mix64,
}

/// A computed hash; prints as lower-case hex of its full width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Digest {
    /// 8 hex digits.
    Crc32(u32),
    /// 32 hex digits.
    Md5([u8; 16]),
    /// 32 hex digits.
    Xxh3(u128),
    /// 16 hex digits.
    Mix64(u64),
}

/// Bytes hashed at a time if the elements are not packed.
const GATHER_BYTES: usize = 16 * 1024;

/// Bytes of a packed tensor hashed at a time.
const CHUNK_BYTES: usize = 16 << 20;

/// The digest of a view's elements, packed in row-major order whatever its strides.
pub fn digest(view: &View<'_>, kind: DigestKind) -> Digest {
    match kind {
        DigestKind::Crc32 => {
            let mut hasher = crc32fast::Hasher::new();
            feed(view, |bytes| hasher.update(bytes));
            Digest::Crc32(hasher.finalize())
        }
        DigestKind::Md5 => {
            let mut hasher = Md5::new();
            feed(view, |bytes| hasher.update(bytes));
            Digest::Md5(hasher.finalize().into())
        }
        DigestKind::Xxh3 => {
            if let Some(packed) = view.as_packed() {
                return Digest::Xxh3(xxhash_rust::xxh3::xxh3_128(packed));
            }
            let mut hasher = xxhash_rust::xxh3::Xxh3::new();
            feed(view, |bytes| hasher.update(bytes));
            Digest::Xxh3(hasher.digest128())
        }
        DigestKind::Mix64 => {
            let (mut sum, mut length) = (0u64, 0u64);
            feed(view, |bytes| {
                sum = sum.wrapping_add(mixed_sum(bytes, length / 8));
                length += bytes.len() as u64;
            });
            Digest::Mix64(mixed(sum, length))
        }
    }
}

/// The sum of the mixed words of some bytes, the first of which has this position. The last word may be short.
fn mixed_sum(bytes: &[u8], first: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = if rest.is_empty() { &[][..] } else { &[last][..] };
    (first..)
        .zip(words.iter().chain(last))
        .fold(0, |sum, (position, word)| sum.wrapping_add(mixed(u64::from_le_bytes(*word), position)))
}

/// A word at its position, with every bit of the result dependent on every bit of both. `statistics.cu` has the same.
fn mixed(word: u64, position: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(position.wrapping_add(1)));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A hash of bytes that come in pieces. Who does not know the key cannot make different bytes with equal hashes.
pub fn keyed_hash<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, key: u64) -> u128 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::with_seed(key);
    pieces.into_iter().for_each(|piece| hasher.update(piece));
    hasher.digest128()
}

/// Calls `update` with the bytes in pieces: all but the last are multiples of 8.
fn feed(view: &View<'_>, mut update: impl FnMut(&[u8])) {
    if let Some(packed) = view.as_packed() {
        return packed.chunks(CHUNK_BYTES).take_while(|_| !stop::is_asked()).for_each(update);
    }
    let size = view.dtype().size();
    let step = GATHER_BYTES / size;
    let mut scratch = [0; GATHER_BYTES];
    for start in (0..view.len()).step_by(step).take_while(|_| !stop::is_asked()) {
        let part = &mut scratch[..step.min(view.len() - start) * size];
        view.gather(start, part);
        update(part);
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Digest::Crc32(hash) => write!(f, "{hash:08x}"),
            Digest::Md5(hash) => hash.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
            Digest::Xxh3(hash) => write!(f, "{hash:032x}"),
            Digest::Mix64(hash) => write!(f, "{hash:016x}"),
        }
    }
}
