//! A mapped file that detects when it shrinks.
//!
//! Another program may truncate a file while it is mapped. Reads of whole pages beyond the new end fault;
//! [`bus_guard`](crate::bus_guard) turns them into zeros and a mark. The rest of the page that contains the end
//! becomes zeros without a fault, which only the size of the file shows. [`Mapping::check`] tests both. So does the
//! drop of every read-only mapping: [`Watch`] reports what no earlier check has reported.
//!
//! A remote file is mapped in the same way. Its parts are read when they are looked at, and one that cannot be read is
//! reported like pages that are lost, with the reason.

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
#[cfg(target_os = "linux")]
use crate::storage::on_demand::OnDemand;

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
    /// Where the bytes come from, if they are read when they are looked at.
    #[cfg(target_os = "linux")]
    on_demand: Option<Arc<OnDemand>>,
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

/// How a file is mapped, for the handler of faults.
#[cfg(unix)]
fn watched(memory: &Memory) -> bus_guard::Watched {
    match memory {
        Memory::ReadOnly(_) => bus_guard::Watched::ReadOnly,
        Memory::CopyOnWrite(_) => bus_guard::Watched::Writable,
    }
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
            #[cfg(target_os = "linux")]
            on_demand: None,
            #[cfg(unix)]
            slot: bus_guard::watch(&memory, watched(&memory)),
            is_listed: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        });
        if is_writable {
            handed_out().insert(memory.as_ptr() as usize, (memory.len(), Arc::clone(&backing)));
        }
        Mapping { memory, backing }
    }

    /// A remote file, at the addresses that were reserved for it.
    #[cfg(target_os = "linux")]
    pub(crate) fn on_demand(memory: Mmap, path: &Path, file: Arc<OnDemand>) -> Mapping {
        let backing = Arc::new(Backing {
            path: Some(path.to_owned()),
            size: memory.len() as u64,
            identity: Identity(0, 0),
            on_demand: Some(file),
            slot: bus_guard::watch(&memory, bus_guard::Watched::OnDemand),
            is_listed: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
        });
        Mapping { memory: Memory::ReadOnly(memory), backing }
    }

    /// Whether bytes are read when they are looked at.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.backing.is_on_demand()
    }

    /// Reads a part now, if it is a remote file's.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
    pub(crate) fn fetch(&self, part: std::ops::Range<usize>) -> Result<(), Error> {
        #[cfg(target_os = "linux")]
        if let (Some(file), Some(path)) = (&self.backing.on_demand, &self.backing.path) {
            return file.fetch(part).map_err(|error| Error::whole(error).in_file(path));
        }
        Ok(())
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
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.backing.on_demand {
            file.close();
        }
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

    fn is_on_demand(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.on_demand.is_some();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Other systems refuse to shorten a file that is mapped.
    #[cfg(not(unix))]
    fn has_faulted(&self) -> bool {
        false
    }

    /// How the file became shorter, if it did. Also lists it for [`Watch`].
    fn shrinkage(self: &Arc<Self>) -> Option<Shrinkage> {
        let path = self.path.as_ref().filter(|_| !self.is_on_demand());
        let now = path.and_then(|path| fs::metadata(path).ok());
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

    /// Why a part of a remote file could not be read.
    fn failure(&self) -> Option<std::io::Error> {
        #[cfg(target_os = "linux")]
        return self.on_demand.as_ref().and_then(|file| file.failure());
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Whether every reader of its zeros has been or will be told. A remote file is marked before a reader goes on, and
    /// stays so; a file that shrank may be read at its very end without a mark.
    fn is_told(&self) -> bool {
        self.is_on_demand() && self.is_reported.load(Ordering::SeqCst)
    }

    fn error(&self, shrinkage: Shrinkage) -> Error {
        let error = Error::whole(match shrinkage {
            Shrinkage::To(size) => Fault::Shrank { from: self.size, to: size },
            Shrinkage::Unknown => self.failure().map_or(Fault::LostPages, Fault::Io),
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

    /// An error that names the first file that shrank. A remote file that could not be read is left out if that was
    /// reported where it was read.
    pub fn check(&self) -> Result<(), Error> {
        self.errors(|backing| !backing.is_told()).into_iter().next().map_or(Ok(()), Err)
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
