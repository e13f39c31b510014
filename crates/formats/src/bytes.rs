//! Bytes that many tensors can share: a mapped file or allocated memory, and slices of either.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

#[cfg(unix)]
use memmap2::UncheckedAdvice;
use memmap2::{MmapMut, MmapOptions};

use crate::error::{Error, Fault};
use crate::file::{open_regular, regular_metadata};
use crate::mapping::{Mapping, Memory, check_memory};
use crate::storage;

/// A range of bytes that is cheap to clone and to slice. Slices keep the whole owner alive.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<Owner>,
    range: Range<usize>,
}

enum Owner {
    Mapped(Mapping),
    /// Allocated pages, for copies with the alignment that frameworks want for tensors.
    Pages(MmapMut),
    Heap(Vec<u8>),
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
}

/// Bytes copied between two calls of `go_on`.
const COPIED_AT_ONCE: usize = 16 << 20;

#[cfg(target_os = "linux")]
use crate::storage::on_demand::map as on_demand;

/// Other systems cannot put bytes at an address in one step.
#[cfg(not(target_os = "linux"))]
fn on_demand(_storage: &dyn storage::Storage, path: &Path) -> Result<Bytes, Error> {
    let message = "files of buckets are read on Linux only: copy the file to this machine";
    Err(Error::whole(Fault::Unsupported(message.to_owned())).in_file(path))
}

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Pages are shared with the file cache and cannot be written.
    ReadOnly,
    /// A framework may write to the pages. The writes stay private to this process and never reach the file.
    CopyOnWrite,
}

impl Bytes {
    /// Maps a file. Folders, pipes and devices are refused: only a regular file has a reliable size.
    ///
    /// A remote file is mapped without being read, see [`storage`](crate::storage). One that a framework may write to is
    /// copied.
    pub fn map(path: &Path, access: Access) -> Result<Bytes, Error> {
        if let Some(storage) = storage::of(path) {
            let bytes = on_demand(&*storage, path)?;
            return match access {
                Access::ReadOnly => Ok(bytes),
                Access::CopyOnWrite => bytes.copied(&|| Ok(())),
            };
        }
        let file = open_regular(path)?;
        Bytes::map_open(&file, Some(path), access).map_err(|fault| Error::whole(fault).in_file(path))
    }

    /// Maps a file that is already open and may have no name.
    pub fn map_file(file: &File, access: Access) -> Result<Bytes, Error> {
        Bytes::map_open(file, None, access).map_err(Error::whole)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn from_mapping(mapping: Mapping) -> Bytes {
        let range = 0..mapping.memory().len();
        Bytes { owner: Arc::new(Owner::Mapped(mapping)), range }
    }

    /// Has these bytes read now, if they are a remote file's: at once is faster than part by part when they are looked
    /// at. More than a share of the memory for remote files is read later.
    pub fn fetch(&self) -> Result<(), Error> {
        match &*self.owner {
            Owner::Mapped(mapping) => mapping.fetch(self.range.clone()),
            Owner::Pages(_) | Owner::Heap(_) | Owner::Foreign(_) => Ok(()),
        }
    }

    fn map_open(file: &File, path: Option<&Path>, access: Access) -> Result<Bytes, Fault> {
        let metadata = regular_metadata(file)?;
        if metadata.len() == 0 {
            return Ok(Bytes::from(Vec::new()));
        }
        let mut options = MmapOptions::new();
        // Otherwise the whole private writable mapping counts against the machine's memory.
        options.no_reserve_swap();
        // The size must be that of the metadata, which it is compared with later, even if the file has grown since.
        options.len(usize::try_from(metadata.len()).map_err(|_| Fault::TooLarge {
            what: "the size",
            limit: usize::MAX as u64,
            found: metadata.len(),
        })?);
        // SAFETY: the mapping is never handed out as `&mut`, and a read-only or private mapping cannot be
        // written through by us. Where another process truncates the file meanwhile, `Mapping` has reads go on with
        // zeros, and says so when it is asked.
        #[expect(unsafe_code)]
        let memory = unsafe {
            match access {
                Access::ReadOnly => Memory::ReadOnly(options.map(file)?),
                Access::CopyOnWrite => Memory::CopyOnWrite(options.map_copy(file)?),
            }
        };
        let range = 0..memory.len();
        let owner = Owner::Mapped(Mapping::new(memory, path, &metadata));
        Ok(Bytes { owner: Arc::new(owner), range })
    }

    /// Runs `read` on these bytes. If their file shrank, returns that error instead of the result of `read`, which
    /// may have read zeros.
    pub fn reading<T>(&self, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let result = read();
        self.check()?;
        result
    }

    /// An error if the file of these bytes is shorter than when it was mapped, because then zeros may have been read.
    /// Asks the system for the size of the file.
    pub fn check(&self) -> Result<(), Error> {
        match &*self.owner {
            Owner::Mapped(mapping) => mapping.check(),
            // A framework's tensor may be in one of our mappings.
            Owner::Foreign(_) => check_memory(self.as_ptr() as usize),
            Owner::Pages(_) | Owner::Heap(_) => Ok(()),
        }
    }

    /// The same for callers that read small parts and check often. It costs nothing, but misses a file that was
    /// truncated within its last page. Text shows that anyway, because zeros are not text; [`Watch`](crate::Watch)
    /// sees it in the end.
    pub fn check_faults(&self) -> Result<(), Error> {
        match &*self.owner {
            Owner::Mapped(mapping) => mapping.check_faults(),
            Owner::Pages(_) | Owner::Heap(_) | Owner::Foreign(_) => Ok(()),
        }
    }

    /// Whether these bytes are in a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(*self.owner, Owner::Mapped(_))
    }

    /// Copies bytes of a mapped file into allocated memory. Calls `go_on` from time to time.
    pub fn copied(&self, go_on: &dyn Fn() -> io::Result<()>) -> Result<Bytes, Error> {
        if !self.is_mapped() || self.is_empty() {
            return Ok(self.clone());
        }
        let copy = || {
            let mut pages = MmapMut::map_anon(self.len())?;
            for (to, from) in pages.chunks_mut(COPIED_AT_ONCE).zip(self.chunks(COPIED_AT_ONCE)) {
                go_on()?;
                to.copy_from_slice(from);
            }
            Ok(Bytes { owner: Arc::new(Owner::Pages(pages)), range: 0..self.len() })
        };
        self.reading(|| copy().map_err(|error: io::Error| Error::whole(error)))
    }

    /// Memory of another owner, such as a framework's tensor. Its length must not change.
    pub fn foreign(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Bytes {
        let owner = Owner::Foreign(Box::new(owner));
        let range = 0..owner.as_slice().len();
        Bytes { owner: Arc::new(owner), range }
    }

    /// A part of these bytes, sharing their owner.
    ///
    /// # Panics
    /// If the range is out of bounds: callers check lengths from files first, to report them as errors.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.range.len(),
            "slice {range:?} of {}",
            self.range.len()
        );
        let start = self.range.start;
        Bytes { owner: Arc::clone(&self.owner), range: start + range.start..start + range.end }
    }

    /// Returns the memory of a part to the system after it has been read: a mapping larger than memory would
    /// otherwise displace everything else. Reading it again loads it from the file again. Does nothing for bytes
    /// without a file, and nothing on systems without such advice.
    #[cfg_attr(not(unix), expect(unused_variables))]
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        self.advise_release(range);
    }

    #[cfg(unix)]
    fn advise_release(&self, range: Range<usize>) {
        let Owner::Mapped(mapping) = &*self.owner else { return };
        // The memory of remote files has a budget of its own, and no file that it could be loaded from.
        if mapping.is_on_demand() {
            return;
        }
        let Memory::ReadOnly(map) = mapping.memory() else { return };
        let (start, length) = (self.range.start + range.start, range.end.saturating_sub(range.start));
        if range.end > self.range.len() || length == 0 {
            return;
        }
        // SAFETY: the mapping is read-only and of a file, so a page that is dropped comes back with the same content
        // when it is read: no reference into it can see a change. Zeros that stand in for the file come back as zeros.
        #[expect(unsafe_code)]
        let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, length) };
        // If the advice is not taken, that costs only memory.
        drop(advised);
    }

    /// Whether both are the same range of memory (not only equal bytes).
    pub fn is_same(&self, other: &Bytes) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner) && self.range == other.range
    }

    /// Whether a framework may write to these bytes: allocated memory, or a private mapping.
    pub fn is_writable(&self) -> bool {
        match &*self.owner {
            Owner::Mapped(mapping) => matches!(mapping.memory(), Memory::CopyOnWrite(_)),
            Owner::Pages(_) | Owner::Heap(_) | Owner::Foreign(_) => true,
        }
    }
}

impl Owner {
    fn as_slice(&self) -> &[u8] {
        match self {
            Owner::Mapped(mapping) => mapping.memory(),
            Owner::Pages(pages) => pages,
            Owner::Heap(bytes) => bytes,
            Owner::Foreign(owner) => (**owner).as_ref(),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owner.as_slice()[self.range.clone()]
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        let range = 0..bytes.len();
        Bytes { owner: Arc::new(Owner::Heap(bytes)), range }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}
