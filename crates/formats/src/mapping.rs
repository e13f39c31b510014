//! A mapped file that notices when it shrinks.
//!
//! A file may be cut short by another program while it is mapped. What lies in pages behind its new end then faults,
//! which [`bus_guard`](crate::bus_guard) turns into zeros and a mark; what lies in the same page as the end becomes zeros
//! without a fault, which only the size of the file tells. [`Mapping::check`] asks for both, and so does the end of every
//! read-only mapping: [`Watch`] reports what no check before it has.

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
    /// That cannot be written.
    ReadOnly(Mmap),
    /// That can; what is written stays in this process.
    CopyOnWrite(MmapMut),
}

/// What is mapped, and what became of it.
struct Backing {
    /// Nothing for a file without a name, which nobody else can open.
    path: Option<PathBuf>,
    size: u64,
    identity: Identity,
    #[cfg(unix)]
    slot: &'static bus_guard::Slot,
    is_listed: AtomicBool,
    is_reported: AtomicBool,
}

/// Device and number of a file: its name may come to be that of a different file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

/// How a file became shorter.
#[derive(Clone, Copy)]
enum Shrinkage {
    To(u64),
    /// It is as long as it was, or gone, but a read of it has failed.
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

    /// An error if a read of the file has failed so far. Costs one load; does not see a cut within the last page.
    pub(crate) fn check_faults(&self) -> Result<(), Error> {
        if self.backing.has_faulted() { self.check() } else { Ok(()) }
    }

    /// An error if the file has become shorter than what is mapped of it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.backing.check()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.memory {
            // Whoever reads nothing more may have read zeros before.
            Memory::ReadOnly(_) => drop(self.backing.shrinkage()),
            // A framework holds these for as long as it likes: the work that is watched when one ends has not read it.
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

    /// How the file became shorter, if it did; lists it for whoever watches.
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

/// Mappings that a framework may hold beyond our sight, by address.
type HandedOut = BTreeMap<usize, (usize, Arc<Backing>)>;

fn handed_out() -> MutexGuard<'static, HandedOut> {
    static HANDED_OUT: Mutex<HandedOut> = Mutex::new(BTreeMap::new());
    HANDED_OUT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error if memory that somebody else shows us lies in a copy-on-write mapping of ours whose file has shrunk.
pub fn check_memory(address: usize) -> Result<(), Error> {
    let handed_out = handed_out();
    let Some((start, (length, backing))) = handed_out.range(..=address).next_back() else { return Ok(()) };
    if address - start < *length { backing.check() } else { Ok(()) }
}

/// Files that shrank, kept for whoever watches; earlier ones give way.
const MAX_LISTED: usize = 64;

struct Listed {
    number: u64,
    backing: Arc<Backing>,
    shrinkage: Shrinkage,
}

/// How many files have been listed.
static COUNT: AtomicU64 = AtomicU64::new(0);

static SHRUNK: Mutex<VecDeque<Listed>> = Mutex::new(VecDeque::new());

/// Sees the files that shrink during a piece of work, once the work has closed them. Where several are done at the same
/// time, each sees the files of all: better one result too few than one made from zeros.
#[derive(Debug)]
pub struct Watch {
    since: u64,
}

impl Watch {
    /// Watches from here on.
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
