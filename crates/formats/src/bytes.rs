//! Bytes that many tensors can share: a mapped file, or memory of our own, and slices of either.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{Deref, Range};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

#[cfg(unix)]
use memmap2::UncheckedAdvice;
use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::error::{Error, Fault};

/// A cheaply cloned, cheaply sliced run of bytes. Slices keep the whole owner alive.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<Owner>,
    range: Range<usize>,
}

enum Owner {
    ReadOnly(Mmap),
    CopyOnWrite(MmapMut),
    Heap(Vec<u8>),
    Foreign(Box<dyn AsRef<[u8]> + Send + Sync>),
}

/// How a file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Pages are shared with the file cache and cannot be written.
    ReadOnly,
    /// A framework may write to the pages; the writes stay private to this process and never reach the file.
    CopyOnWrite,
}

impl Bytes {
    /// Maps a file. Folders, pipes and devices are refused: only a regular file has a size to trust.
    pub fn map(path: &Path, access: Access) -> Result<Bytes, Error> {
        let file = open(path).map_err(|error| Error::whole(error).in_file(path))?;
        Bytes::map_file(&file, access).map_err(|error| error.in_file(path))
    }

    /// Maps a file that is open already, and may have no name.
    pub fn map_file(file: &File, access: Access) -> Result<Bytes, Error> {
        Bytes::map_open(file, access).map_err(Error::whole)
    }

    fn map_open(file: &File, access: Access) -> Result<Bytes, Fault> {
        // Asked of what was opened: the name may by now be that of something else.
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Fault::malformed(
                "a regular file",
                if metadata.is_dir() { "a folder" } else { "a device or pipe" },
            ));
        }
        if metadata.len() == 0 {
            return Ok(Bytes::from(Vec::new()));
        }
        let mut options = MmapOptions::new();
        // A private writable mapping would otherwise count against the machine's memory in full.
        options.no_reserve_swap();
        // SAFETY: the mapping is never handed out as `&mut`, and a read-only or private mapping cannot be
        // written through by us. Another process that truncates the file meanwhile makes reads fault
        // (SIGBUS), as it would for any program that maps files; dumps are written once and then left alone.
        #[expect(unsafe_code)]
        let owner = unsafe {
            match access {
                Access::ReadOnly => Owner::ReadOnly(options.map(file)?),
                Access::CopyOnWrite => Owner::CopyOnWrite(options.map_copy(file)?),
            }
        };
        let len = owner.as_slice().len();
        Ok(Bytes { owner: Arc::new(owner), range: 0..len })
    }

    /// Memory of another owner, such as a framework's tensor, which must not change length.
    pub fn foreign(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Bytes {
        let owner = Owner::Foreign(Box::new(owner));
        let range = 0..owner.as_slice().len();
        Bytes { owner: Arc::new(owner), range }
    }

    /// A part of these bytes, sharing their owner.
    ///
    /// # Panics
    /// When the range leaves the bytes: callers check lengths from files first, to report them as errors.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        assert!(
            range.start <= range.end && range.end <= self.range.len(),
            "slice {range:?} of {}",
            self.range.len()
        );
        let start = self.range.start;
        Bytes { owner: Arc::clone(&self.owner), range: start + range.start..start + range.end }
    }

    /// Hands the memory behind a part back to the system, for whoever has read it and goes on: a mapping larger than
    /// memory would otherwise crowd everything else out. Reading it again fetches it from the file again. Does nothing
    /// to bytes that have no file behind them, and nothing on systems that take no such advice.
    #[cfg_attr(not(unix), expect(unused_variables))]
    pub fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        self.advise_release(range);
    }

    #[cfg(unix)]
    fn advise_release(&self, range: Range<usize>) {
        let Owner::ReadOnly(map) = &*self.owner else { return };
        let (start, length) = (self.range.start + range.start, range.end.saturating_sub(range.start));
        if range.end > self.range.len() || length == 0 {
            return;
        }
        // SAFETY: the mapping is read-only and of a file, so a page that is dropped comes back with the same content
        // when it is read: no reference into it can see a change.
        #[expect(unsafe_code)]
        let advised = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, length) };
        // Advice that is not taken costs memory, nothing else.
        drop(advised);
    }

    /// Whether both are the very same run of memory (not merely equal bytes).
    pub fn is_same(&self, other: &Bytes) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner) && self.range == other.range
    }

    /// Whether a framework may write to these bytes: our own memory, or a private mapping.
    pub fn is_writable(&self) -> bool {
        !matches!(*self.owner, Owner::ReadOnly(_))
    }
}

/// Opens a file for reading. To open a pipe is to wait for its writer, unless one asks not to.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    options.custom_flags(libc::O_NONBLOCK);
    options.open(path)
}

impl Owner {
    fn as_slice(&self) -> &[u8] {
        match self {
            Owner::ReadOnly(map) => map,
            Owner::CopyOnWrite(map) => map,
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
