//! Zip archives as torch and numpy use them: named byte ranges, mostly stored uncompressed.
//!
//! Reading returns uncompressed entries in place. Writing starts each payload on a 64-byte boundary, so that a
//! program that maps the file can use it in place.

mod read;
mod unfolded;
mod write;

pub(crate) use read::Archive;
pub(crate) use write::ArchiveWriter;

/// Whether a name stays below its folder on every system.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('/')
        && !name.contains(['\\', '\0'])
        && !name.split('/').any(|step| step == "..")
}

/// How every archive with at least one entry begins.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
