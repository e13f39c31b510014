//! A mapped file that detects when it shrinks.
//!
//! Another program may truncate a file while it is mapped. Reads of whole pages beyond the new end fault;
//! [`bus_guard`](crate::bus_guard) turns them into zeros and a mark. The rest of the page that contains the end
//! becomes zeros without a fault, which only the size of the file shows. [`Mapping::check`] tests both. So does the
//! drop of every read-only mapping: [`Watch`] reports what no earlier check has reported.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, Metadata};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{Mmap, MmapMut};

#[cfg(unix)]
use crate::bus_guard;
use crate::error::{Error, Fault};

/// A mapped file.
pub(crate) struct Mapping {
    memory: Memory,
    backing: Arc<Backing>,
}

/// Pages of a file.
pub(crate) enum Memory {
    /// Read-only pages.
    ReadOnly(Mmap),
    /// Writable pages; writes stay in this process.
    CopyOnWrite(MmapMut),
}

/// The mapped file and its state.
struct Backing {
    /// None for a nameless file, which no one else can open.
    path: Option<PathBuf>,
    size: u64,
    identity: Identity,
    #[cfg(unix)]
    slot: &'static bus_guard::Slot,
    is_listed: AtomicBool,
    is_reported: AtomicBool,
}

/// Device and inode of a file: the name may come to refer to a different file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

/// How a file became shorter.
#[derive(Clone, Copy)]
enum Shrinkage {
    To(u64),
    /// Its size is unchanged or it is gone, but a read of it failed.
    Unknown,
}

impl Identity {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Identity {
        use std::os::unix::fs::MetadataExt;
        Identity(metadata.dev(), metadata.ino())
    }

    #[cfg(not(unix))]
    fn of(_metadata: &Metadata) -> Identity {
        Identity(0, 0)
    }
}

impl Mapping {
    pub(crate) fn new(memory: Memory, path: Option<&Path>, metadata: &Metadata) -> Mapping {
        let is_writable = matches!(memory, Memory::CopyOnWrite(_));
        let backing = Arc::new(Backing {
            path: path.map(Path::to_owned),
            size: metadata.len(),
            identity: Identity::of(metadata),
            #[cfg(unix)]
            slot: bus_guard::watch(&memory, is_writable),
            is_listed: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        });
        if is_writable {
            handed_out().insert(memory.as_ptr() as usize, (memory.len(), Arc::clone(&backing)));
        }
        Mapping { memory, backing }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// An error if a read of the file has failed so far. Costs one load; misses a cut within the last page.
    pub(crate) fn check_faults(&self) -> Result<(), Error> {
        if self.backing.has_faulted() { self.check() } else { Ok(()) }
    }

    /// An error if the file is now shorter than its mapping.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.backing.check()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.memory {
            // No more reads follow, but earlier ones may have read zeros.
            Memory::ReadOnly(_) => drop(self.backing.shrinkage()),
            // A framework may hold these for any time: work that is being watched when one is dropped has not read
            // it.
            Memory::CopyOnWrite(_) => drop(handed_out().remove(&(self.memory.as_ptr() as usize))),
        }
        #[cfg(unix)]
        bus_guard::forget(self.backing.slot);
    }
}

impl Backing {
    fn check(self: &Arc<Self>) -> Result<(), Error> {
        let Some(shrinkage) = self.shrinkage() else { return Ok(()) };
        self.is_reported.store(true, Ordering::SeqCst);
        Err(self.error(shrinkage))
    }

    #[cfg(unix)]
    fn has_faulted(&self) -> bool {
        self.slot.has_faulted()
    }

    /// Other systems refuse to shorten a file that is mapped.
    #[cfg(not(unix))]
    fn has_faulted(&self) -> bool {
        false
    }

    /// How the file became shorter, if it did. Also lists it for [`Watch`].
    fn shrinkage(self: &Arc<Self>) -> Option<Shrinkage> {
        let now = self.path.as_ref().and_then(|path| fs::metadata(path).ok());
        let now = now.filter(|metadata| Identity::of(metadata) == self.identity);
        let shrinkage = match now.map(|metadata| metadata.len()) {
            Some(size) if size < self.size => Shrinkage::To(size),
            _ if self.has_faulted() => Shrinkage::Unknown,
            _ => return None,
        };
        if !self.is_listed.swap(true, Ordering::SeqCst) {
            let mut shrunk = SHRUNK.lock().unwrap_or_else(PoisonError::into_inner);
            if shrunk.len() == MAX_LISTED {
                shrunk.pop_front();
            }
            let number = COUNT.fetch_add(1, Ordering::SeqCst);
            shrunk.push_back(Listed { number, backing: Arc::clone(self), shrinkage });
        }
        Some(shrinkage)
    }

    fn error(&self, shrinkage: Shrinkage) -> Error {
        let error = Error::whole(match shrinkage {
            Shrinkage::To(size) => Fault::Shrank { from: self.size, to: size },
            Shrinkage::Unknown => Fault::LostPages,
        });
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::ReadOnly(map) => map,
            Memory::CopyOnWrite(map) => map,
        }
    }
}

/// Mappings that a framework may still use, by address.
type HandedOut = BTreeMap<usize, (usize, Arc<Backing>)>;

fn handed_out() -> MutexGuard<'static, HandedOut> {
    static HANDED_OUT: Mutex<HandedOut> = Mutex::new(BTreeMap::new());
    HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error if foreign memory is in one of our copy-on-write mappings and the file has shrunk.
pub fn check_memory(address: usize) -> Result<(), Error> {
    let handed_out = handed_out();
    let Some((start, (length, backing))) = handed_out.range(..=address).next_back() else { return Ok(()) };
    if address - start < *length { backing.check() } else { Ok(()) }
}

/// Maximum number of listed files that shrank; the oldest are dropped.
const MAX_LISTED: usize = 64;

struct Listed {
    number: u64,
    backing: Arc<Backing>,
    shrinkage: Shrinkage,
}

/// How many files have been listed.
static COUNT: AtomicU64 = AtomicU64::new(0);

static SHRUNK: Mutex<VecDeque<Listed>> = Mutex::new(VecDeque::new());

/// Finds files that shrank during a piece of work, once the work has closed them. If several run at the same time,
/// each sees the files of all: a missing result is better than one computed from zeros.
#[derive(Debug)]
pub struct Watch {
    since: u64,
}

impl Watch {
    /// Starts to watch.
    pub fn start() -> Watch {
        Watch { since: COUNT.load(Ordering::SeqCst) }
    }

    /// Whether a file shrank.
    pub fn found_any(&self) -> bool {
        COUNT.load(Ordering::SeqCst) != self.since
    }

    /// An error that names the first file that shrank.
    pub fn check(&self) -> Result<(), Error> {
        self.errors(|_| true).into_iter().next().map_or(Ok(()), Err)
    }

    /// The files that shrank and that no error has named yet.
    pub fn unreported(&self) -> Vec<Error> {
        self.errors(|backing| !backing.is_reported.load(Ordering::SeqCst))
    }

    fn errors(&self, is_wanted: impl Fn(&Backing) -> bool) -> Vec<Error> {
        let shrunk = SHRUNK.lock().unwrap_or_else(PoisonError::into_inner);
        let since = shrunk.iter().filter(|one| one.number >= self.since && is_wanted(&one.backing));
        let report = |one: &Listed| {
            one.backing.is_reported.store(true, Ordering::SeqCst);
            one.backing.error(one.shrinkage)
        };
        since.map(report).collect()
    }
}
