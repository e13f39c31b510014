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
    }
}

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
        }
    }
}
