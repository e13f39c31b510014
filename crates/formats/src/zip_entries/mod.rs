//! Zip archives as torch and numpy use them: named runs of bytes, mostly stored as they are.
//!
//! Reading gives entries in place wherever the archive stores them uncompressed; writing puts each payload on a
//! 64-byte boundary, so that whoever maps the file can use it where it lies.

mod read;
mod unfolded;
mod write;

pub(crate) use read::Archive;
pub(crate) use write::ArchiveWriter;

/// Whether a name stays below the folder it is put in, on every system.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('/')
        && !name.contains(['\\', '\0'])
        && !name.split('/').any(|step| step == "..")
}

/// How every archive with at least one entry begins.
pub(crate) const MAGIC: &[u8] = b"PK\x03\x04";
