//! The tensors of one rank in one step, in a few large files.
//!
//! A file for each tensor costs a millisecond on some file systems. So tensors are appended to
//! `tensors-00000.safetensors`, whose header is filled in when the step ends (see
//! [`ShardHeader`]). Until then the journal alone says where each tensor is. When the header or the file is full, the
//! next tensor begins a new file with a larger header.
//!
//! Every tensor is written at once, because its bytes must outlive the process as the line does that names them. Equal
//! tensors have one place.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ulpscope_formats::safetensors::{ShardHeader, ShardPlace};
use ulpscope_formats::{Error, Fault, Tensor, write_packed};
use ulpscope_kernels::read_once;
use ulpscope_tensor::{DType, View};

use super::fingerprint::Fingerprint;
use super::folder::Folder;
use super::names::file_stem;
use super::outgoing::Outgoing;
use super::saved_tensor::{SavedPart, SavedTensor};
use super::tensor_files::{DATA_FOLDER, MAX_KNOWN};

/// Bytes before the elements of the first file: some 130 tensors. Those of later files double.
const FIRST_HEADER: usize = 16 << 10;

/// The largest header.
const MAX_HEADER: usize = 4 << 20;

/// Bytes of a file after which another one begins. Copying and checking a file of this size takes seconds.
const MAX_FILE: u64 = 2 << 30;

/// Files of a rank: their numbers have five digits.
const MAX_FILES: u32 = 100_000;

/// The names of files.
const SHARD_NAME: (&str, &str) = ("tensors-", ".safetensors");

/// Digits of the number in a name.
const SHARD_DIGITS: usize = 5;

/// Whether a file name is that of a file of tensors.
pub fn is_shard_name(name: &str) -> bool {
    let number = name.strip_prefix(SHARD_NAME.0).and_then(|rest| rest.strip_suffix(SHARD_NAME.1));
    number.is_some_and(|text| text.len() == SHARD_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Decides in which file, and where in it, each tensor goes.
#[derive(Debug, Default)]
struct Placing {
    header: Option<ShardHeader>,
    /// How many files there are.
    files: u32,
    /// Bytes of the files before the current one.
    earlier: u64,
    /// Hashes of the names in use.
    names: HashSet<u64>,
    hasher: RandomState,
}

impl Placing {
    /// Bytes of all files.
    fn size(&self) -> u64 {
        self.earlier + self.header.as_ref().map_or(0, ShardHeader::file_size)
    }

    /// The name of a tensor in its file. Two entries may have the same, like keys 1 and "1" of a dictionary.
    fn free_name(&mut self, stem: &str) -> String {
        let stem = file_stem(stem);
        let mut name = stem.clone().into_owned();
        let mut again = 2u64;
        while !self.names.insert(self.hasher.hash_one(name.as_str())) {
            name = format!("{stem}~{again}");
            again += 1;
        }
        name
    }

    /// Whether a tensor of this many bytes begins a new file for its size.
    fn is_full(&self, length: u64) -> bool {
        let Some(header) = &self.header else { return true };
        let has_tensors = header.file_size() > header.reserved() as u64;
        has_tensors && header.file_size().saturating_add(length) > MAX_FILE
    }

    /// Begins a file.
    fn begin(&mut self) {
        let reserved = self.next_header();
        self.earlier = self.size();
        self.files += 1;
        self.header = Some(ShardHeader::new(reserved));
    }

    /// The size of the next file's header.
    fn next_header(&self) -> usize {
        self.header.as_ref().map_or(FIRST_HEADER, |header| (2 * header.reserved()).min(MAX_HEADER))
    }

    /// The place of a tensor in the current file, if its header has room.
    fn add(&mut self, name: &str, dtype: DType, shape: &[usize], length: u64) -> Option<ShardPlace> {
        self.header.as_mut()?.add(name, dtype, shape, length)
    }
}

/// The size of a pack that is not written, to estimate what a run writes.
#[derive(Debug, Default)]
pub struct PackSize(Placing);

impl PackSize {
    /// Adds a tensor.
    pub fn add(&mut self, name: &str, dtype: DType, shape: &[usize]) {
        let placing = &mut self.0;
        let count = shape.iter().fold(1u64, |count, &dim| count.saturating_mul(dim as u64));
        let length = count.saturating_mul(dtype.size() as u64);
        let name = placing.free_name(name);
        if placing.is_full(length) || placing.add(&name, dtype, shape, length).is_none() {
            placing.begin();
            let _: Option<ShardPlace> = placing.add(&name, dtype, shape, length);
        }
    }

    /// The number of files, and their bytes.
    pub fn total(&self) -> (u64, u64) {
        (self.0.files.into(), self.0.size())
    }
}

/// The files of a rank.
#[derive(Debug)]
pub(super) struct Pack {
    path: PathBuf,
    /// Made with the first file.
    folder: Option<Folder>,
    placing: Placing,
    /// The current file; it has the header of `placing`.
    shard: Option<Shard>,
    known: HashMap<Fingerprint, Stored>,
    /// A buffer for parts of tensors, reused.
    waiting: Vec<u8>,
}

#[derive(Debug)]
struct Shard {
    name: Arc<str>,
    file: File,
    /// Where the next write goes.
    position: u64,
    /// Whether the header lacks tensors.
    is_behind: bool,
}

/// A tensor that was written.
#[derive(Clone, Debug)]
struct Stored {
    file: Arc<str>,
    name: Box<str>,
    offset: u64,
    length: u64,
    /// Without repetitions, if it has many.
    shape: Option<Vec<usize>>,
}

impl Stored {
    /// The place for an entry.
    fn saved(&self, stem: &str) -> SavedTensor {
        let name = (*self.name != *file_stem(stem)).then(|| self.name.to_string());
        let part = SavedPart {
            offset: self.offset,
            length: self.length,
            name,
            dtype: None,
            shape: self.shape.clone(),
        };
        SavedTensor { file: self.file.to_string(), part: Some(part) }
    }
}

impl Pack {
    /// Files in `dump_tensor_data/` of a rank's folder. The first tensor creates that folder.
    pub(super) fn new(rank_folder: &Path) -> Pack {
        Pack {
            path: rank_folder.join(DATA_FOLDER),
            folder: None,
            placing: Placing::default(),
            shard: None,
            known: HashMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Sets the new folder of the rank.
    pub(super) fn moved_to(&mut self, rank_folder: &Path) {
        self.path = rank_folder.join(DATA_FOLDER);
        if let Some(folder) = &mut self.folder {
            folder.moved_to(&self.path);
        }
    }

    /// Bytes of all files, with their headers.
    pub(super) fn written(&self) -> u64 {
        self.placing.size()
    }

    /// The bytes that a tensor adds at most: perhaps it needs a new file.
    pub(super) fn most_added(&self, tensor: &Tensor) -> u64 {
        let view = tensor.view();
        let length = read_once(&view).map_or(view.packed_size(), |(once, _)| once.packed_size());
        let most = ShardHeader::most_added(length as u64);
        let has_room = self.placing.header.as_ref().is_some_and(ShardHeader::has_room);
        match has_room && !self.placing.is_full(most) {
            true => most,
            false => most.saturating_add(self.placing.next_header() as u64),
        }
    }

    /// The place of an equal tensor.
    pub(super) fn find(&self, stem: &str, fingerprint: &Fingerprint) -> Option<SavedTensor> {
        self.known.get(fingerprint).map(|stored| stored.saved(stem))
    }

    /// Appends a tensor.
    pub(super) fn save(
        &mut self,
        stem: &str,
        fingerprint: Fingerprint,
        tensor: &Tensor,
    ) -> Result<SavedTensor, Error> {
        let whole = tensor.view();
        let view = if fingerprint.is_once() { whole.without_repeats().0 } else { whole.clone() };
        let name = self.placing.free_name(stem);
        let place = match self.append(&name, &view) {
            // A limit on the size of files may leave room for another file.
            Err(error) if is_too_large(&error) && self.has_tensors() => {
                self.begin()?;
                self.append(&name, &view)
            }
            appended => appended,
        };
        let (file, place) = place?;
        let shape = fingerprint.is_once().then(|| view.shape().to_vec());
        let length = view.packed_size() as u64;
        let stored = Stored { file, name: name.into(), offset: place.offset, length, shape };
        let saved = stored.saved(stem);
        if self.known.len() < MAX_KNOWN {
            self.known.insert(fingerprint, stored);
        }
        Ok(saved)
    }

    /// Fills in the header of the current file.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        let (Some(shard), Some(header)) = (&mut self.shard, &self.placing.header) else { return Ok(()) };
        if !shard.is_behind {
            return Ok(());
        }
        shard
            .fill_in(header)
            .map_err(|error| Error::whole(error).in_file(&self.path.join(shard.name.as_ref())))
    }

    fn has_tensors(&self) -> bool {
        self.placing.header.as_ref().is_some_and(|header| header.file_size() > header.reserved() as u64)
    }

    fn append(&mut self, name: &str, view: &View<'_>) -> Result<(Arc<str>, ShardPlace), Error> {
        let length = view.packed_size() as u64;
        if self.shard.is_none() || self.placing.is_full(length) {
            self.begin()?;
        }
        let mut before = self.placing.header.as_ref().map(ShardHeader::mark);
        let place = match self.placing.add(name, view.dtype(), view.shape(), length) {
            Some(place) => place,
            None => {
                self.begin()?;
                before = self.placing.header.as_ref().map(ShardHeader::mark);
                let place = self.placing.add(name, view.dtype(), view.shape(), length);
                place.ok_or_else(|| {
                    let limit = self.placing.header.as_ref().map_or(0, ShardHeader::reserved) as u64;
                    Error::whole(Fault::TooLarge {
                        what: "the description of a tensor",
                        limit,
                        found: limit + 1,
                    })
                })?
            }
        };
        let Some(shard) = &mut self.shard else { return Err(Error::whole(io::Error::other("no file"))) };
        match shard.write(place.offset, view, &mut self.waiting) {
            Ok(()) => Ok((Arc::clone(&shard.name), place)),
            Err(error) => {
                if let (Some(header), Some(mark)) = (&mut self.placing.header, before) {
                    header.undo(mark);
                    // Nothing refers to the bytes of a partial tensor; the reason of the failure is what matters.
                    let _: io::Result<()> = shard.file.set_len(header.file_size());
                }
                Err(Error::whole(error).in_file(&self.path.join(shard.name.as_ref())))
            }
        }
    }

    /// Completes the current file, and begins the next one.
    fn begin(&mut self) -> Result<(), Error> {
        self.finish()?;
        if self.placing.files >= MAX_FILES {
            return Err(Error::whole(io::Error::from(io::ErrorKind::QuotaExceeded)).in_file(&self.path));
        }
        if self.folder.is_none() {
            let made = Folder::make(&self.path);
            self.folder = Some(made.map_err(|error| Error::whole(error).in_file(&self.path))?);
        }
        let number = self.placing.files;
        let name = format!("{}{number:0width$}{}", SHARD_NAME.0, SHARD_NAME.1, width = SHARD_DIGITS);
        let header = ShardHeader::new(self.placing.next_header());
        let made = self.folder.as_ref().map_or_else(
            || Err(io::ErrorKind::NotFound.into()),
            |folder| {
                let mut file = folder.create(&name)?;
                // The blocks of the header are there from now on, even if the disk is full when it is filled in.
                file.write_all(&header.unfinished()).inspect_err(|_| {
                    let _: io::Result<()> = std::fs::remove_file(self.path.join(&name));
                })?;
                Ok(file)
            },
        );
        let file = made.map_err(|error: io::Error| Error::whole(error).in_file(&self.path.join(&name)))?;
        self.placing.begin();
        let position = header.reserved() as u64;
        self.shard = Some(Shard { name: name.into(), file, position, is_behind: true });
        Ok(())
    }
}

impl Shard {
    /// Writes a tensor. What precedes it is there, or is a filler of zeros.
    fn write(&mut self, offset: u64, view: &View<'_>, waiting: &mut Vec<u8>) -> io::Result<()> {
        self.is_behind = true;
        if self.position != offset {
            self.file.seek(SeekFrom::Start(offset))?;
        }
        // Unknown until everything is written.
        self.position = 0;
        let mut out = Outgoing::new(&self.file, waiting, offset, view.packed_size())?;
        write_packed(view, &mut out)?;
        self.position = out.finish()?;
        Ok(())
    }

    fn fill_in(&mut self, header: &ShardHeader) -> io::Result<()> {
        // A filler before a tensor without elements is at the end, and was not written.
        self.file.set_len(header.file_size())?;
        self.position = 0;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header.finished())?;
        self.is_behind = false;
        self.position = header.reserved() as u64;
        Ok(())
    }
}

fn is_too_large(error: &Error) -> bool {
    matches!(&error.fault, Fault::Io(cause) if cause.kind() == io::ErrorKind::FileTooLarge)
}
