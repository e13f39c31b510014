//! What a path is, and what a folder has in it.

use std::ffi::OsString;
use std::fs::{DirEntry, FileType, Metadata};
use std::io;
use std::time::UNIX_EPOCH;

/// A kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, or an object of a bucket.
    File,
    /// A folder, or the common beginning of the keys of a bucket.
    Folder,
    /// A link that was not followed.
    Link,
    /// A pipe, a device, or a name that no program writes.
    Other,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its kind.
    pub kind: Kind,
    /// Bytes, of a file.
    pub size: u64,
    /// A number that changes with the content of a file: the time of its last change, or what stands for it.
    pub version: u128,
}

/// Something in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
}

impl Kind {
    fn of(kind: FileType) -> Kind {
        if kind.is_symlink() {
            Kind::Link
        } else if kind.is_dir() {
            Kind::Folder
        } else if kind.is_file() {
            Kind::File
        } else {
            Kind::Other
        }
    }
}

impl About {
    pub(super) fn of(metadata: Metadata) -> About {
        let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        About {
            kind: Kind::of(metadata.file_type()),
            size: metadata.len(),
            version: changed.map_or(0, |since| since.as_nanos()),
        }
    }
}

impl Item {
    pub(super) fn of(entry: &DirEntry) -> io::Result<Item> {
        Ok(Item { name: entry.file_name(), kind: Kind::of(entry.file_type()?) })
    }
}
