//! Where files are: on this machine, or in a bucket of an object store.
//!
//! A path that begins with the scheme of a registered [`Storage`] (`s3://bucket/run/step0`) is that storage's; every other
//! path is one of this machine. Readers of dumps ask here what a path is and what a folder has in it, and map files with
//! [`Bytes::map`](crate::Bytes::map), which maps a remote file without downloading it: see `on_demand`. Files are
//! written on this machine alone.

mod about;
#[cfg(target_os = "linux")]
pub(crate) mod on_demand;

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{Error, Fault};
use crate::file::open_regular;

pub use about::{About, Item, Kind};

/// Files that are not on this machine. It has no links: nothing in it leads anywhere else.
pub trait Storage: Send + Sync {
    /// How its paths begin: `s3://`.
    fn schemes(&self) -> &'static [&'static str];

    /// What a folder has in it, in no order. A folder of which nothing is known is not found.
    fn list(&self, folder: &Path) -> io::Result<Vec<Item>>;

    /// What a path is. Nothing of this name is the error `NotFound`.
    fn about(&self, path: &Path) -> io::Result<About>;

    /// Opens a file.
    fn open(&self, path: &Path) -> io::Result<Opened>;

    /// Lists folders above and below a path again the next time: they may have changed.
    fn forget(&self, path: &Path);
}

/// A file of a storage, as it was when it was opened.
pub struct Opened {
    /// The file.
    pub object: Arc<dyn Object>,
    /// Its first bytes, which came with the answer.
    pub beginning: Vec<u8>,
}

/// A file that is read in parts. A part of a file that has changed since it was opened is an error.
pub trait Object: Send + Sync {
    /// Bytes in all.
    fn size(&self) -> u64;

    /// Reads a part for each range, as many as possible at the same time. Ranges are within the file.
    fn read(&self, ranges: &[std::ops::Range<u64>]) -> io::Result<Vec<Vec<u8>>>;
}

static STORAGES: RwLock<Vec<Arc<dyn Storage>>> = RwLock::new(Vec::new());

/// Makes a storage available to this process. One that has its schemes already is kept.
pub fn register(storage: Arc<dyn Storage>) {
    let mut storages = STORAGES.write().unwrap_or_else(PoisonError::into_inner);
    if storages.iter().all(|known| known.schemes() != storage.schemes()) {
        storages.push(storage);
    }
}

/// The storage of a path; nothing if it is on this machine.
pub(crate) fn of(path: &Path) -> Option<Arc<dyn Storage>> {
    let text = path.to_str()?;
    if !text.contains("://") {
        return None;
    }
    let storages = STORAGES.read().unwrap_or_else(PoisonError::into_inner);
    let is_its =
        |storage: &&Arc<dyn Storage>| storage.schemes().iter().any(|scheme| text.starts_with(scheme));
    storages.iter().find(is_its).map(Arc::clone)
}

/// Whether a path is not one of this machine.
pub fn is_remote(path: &Path) -> bool {
    of(path).is_some()
}

/// An error if a path is not one of this machine: nothing is written elsewhere.
pub fn refuse_to_write(path: &Path) -> io::Result<()> {
    if !is_remote(path) {
        return Ok(());
    }
    let message =
        "results are written on this machine only: name a local path, and copy it to the bucket afterwards";
    Err(io::Error::new(ErrorKind::Unsupported, message))
}

/// What a path is; links are followed.
pub fn about(path: &Path) -> io::Result<About> {
    of(path).map_or_else(|| fs::metadata(path).map(About::of), |storage| storage.about(path))
}

/// What a path is; a link is a link.
pub fn about_itself(path: &Path) -> io::Result<About> {
    of(path).map_or_else(|| fs::symlink_metadata(path).map(About::of), |storage| storage.about(path))
}

/// Whether a path is a folder; links are followed.
pub fn is_folder(path: &Path) -> bool {
    about(path).is_ok_and(|about| about.kind == Kind::Folder)
}

/// Whether a path is a file; links are followed.
pub fn is_file(path: &Path) -> bool {
    about(path).is_ok_and(|about| about.kind == Kind::File)
}

/// Whether there is anything of this name; links are followed. What a storage cannot answer counts as there: opening it
/// reports why.
pub fn exists(path: &Path) -> bool {
    match of(path) {
        None => path.exists(),
        Some(storage) => {
            storage.about(path).map_or_else(|error| error.kind() != ErrorKind::NotFound, |_| true)
        }
    }
}

/// The path without links and dots. Remote paths have none.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    if is_remote(path) { Ok(path.to_owned()) } else { path.canonicalize() }
}

/// What a folder has in it, in no order.
pub fn list(folder: &Path) -> io::Result<Vec<Item>> {
    match of(folder) {
        Some(storage) => storage.list(folder),
        None => fs::read_dir(folder)?.map(|item| Item::of(&item?)).collect(),
    }
}

/// Lists remote folders above and below a path again the next time they are asked about. Call it before a search.
pub fn forget(path: &Path) {
    if let Some(storage) = of(path) {
        storage.forget(path);
    }
}

/// Reads the beginning of a regular file. Returns how many bytes there are.
pub fn read_beginning(path: &Path, beginning: &mut [u8]) -> Result<usize, Error> {
    let Some(storage) = of(path) else {
        return open_regular(path).and_then(|mut file| file.read(beginning).map_err(Error::whole));
    };
    let opened = storage.open(path).map_err(|error| Error::whole(Fault::Io(error)).in_file(path))?;
    let length = opened.beginning.len().min(beginning.len());
    beginning[..length].copy_from_slice(&opened.beginning[..length]);
    Ok(length)
}
