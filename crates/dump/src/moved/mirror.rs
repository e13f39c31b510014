//! The folder on this machine that stands for a far rank: its records, and the tensors that were moved.
//!
//! A file of several tensors has its full size and holes where nothing was moved, so it takes no more disk than what was.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ulpscope_formats::{Error, Fault};

use super::choice::{Choice, Side, choose};
use super::far::{Documents, FarRank, FileRange, FileState, LocalFiles, RankFile};
use super::stored::StoredTensors;
use crate::rank::Rank;
use crate::tree::RankPlace;

/// Bytes that are moved at a time.
const PIECE_BYTES: u64 = 8 << 20;

/// Small ranges in one piece.
const RANGES_AT_ONCE: usize = 4096;

/// Pieces on their way at the same time.
const PIECES_AT_ONCE: usize = 3;

/// How much was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoveCounts {
    /// Bytes of tensors that were copied.
    pub moved: u64,
    /// Tensors that were not, as the budget did not last for them.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
}

/// Why a far rank could not be opened.
#[derive(Debug)]
pub enum MoveError {
    /// It cannot be read, or is not to be moved.
    Dump(Error),
    /// The far machine could not be asked, or there is no room here.
    NotMoved(String),
}

impl From<Error> for MoveError {
    fn from(error: Error) -> MoveError {
        MoveError::Dump(error)
    }
}

/// A folder for the files of a far rank. Whoever made it removes it.
#[derive(Debug)]
pub struct MirrorFolder<'a> {
    folder: &'a Path,
    place: &'a RankPlace,
}

impl<'a> MirrorFolder<'a> {
    /// An empty folder for a rank.
    pub fn new(folder: &'a Path, place: &'a RankPlace) -> MirrorFolder<'a> {
        MirrorFolder { folder, place }
    }

    /// Moves a rank, and opens it. Tensors with the bytes of a tensor of `at_hand` are not moved. Of the others at most
    /// `budget` bytes are, and they are taken off it.
    pub fn open(
        &self,
        far: &dyn FarRank,
        at_hand: Option<(&RankPlace, &Rank)>,
        budget: &mut u64,
    ) -> Result<(Rank, MoveCounts), MoveError> {
        let failed = MoveError::NotMoved;
        let documents = far.documents().map_err(failed)?;
        let mut counts = MoveCounts::default();
        if documents.have_tensors {
            let size: u64 = documents.files.iter().map(|(_, size)| size).sum();
            *budget = budget.checked_sub(size).ok_or_else(|| self.too_large(size, *budget))?;
            counts.moved = size;
        }
        self.prepare(&documents).map_err(failed)?;
        let whole = documents.files.into_iter();
        let whole = whole.map(|(file, length)| FileRange { file, offset: 0, length }).collect();
        self.fetch(far, whole).map_err(failed)?;
        let mirrored = self.place.in_folders(&self.root(), &self.data());
        let mut rank = mirrored.open()?;
        if documents.have_tensors {
            return Ok((rank, counts));
        }
        let stored = StoredTensors::of(&rank, far, &|path| mirrored.name_of(path)).map_err(failed)?;
        let choice = self.choose(&stored, far, at_hand, *budget).map_err(failed)?;
        counts = MoveCounts {
            moved: choice.moved.iter().map(|range| range.length).sum(),
            left: choice.left,
            left_bytes: choice.left_bytes,
        };
        *budget -= counts.moved;
        for (file, state) in &stored.states {
            let state = match state {
                // Nothing of it is read, unless it is moved: then it grows.
                FileState::Size(_) if !stored.packs.contains(file) => FileState::Size(0),
                state => *state,
            };
            self.make(file, state).map_err(failed)?;
        }
        self.fetch(far, choice.moved).map_err(failed)?;
        rank.moved = Some(choice.tensors);
        Ok((rank, counts))
    }

    fn choose(
        &self,
        stored: &StoredTensors,
        far: &dyn FarRank,
        at_hand: Option<(&RankPlace, &Rank)>,
        budget: u64,
    ) -> Result<Choice, String> {
        let far = Side { tensors: &stored.tensors, files: far };
        let Some((place, rank)) = at_hand else { return choose(far, None, budget) };
        let files = LocalFiles(place);
        let own = StoredTensors::of(rank, &files, &|path| place.name_of(path))?;
        choose(far, Some(Side { tensors: &own.tensors, files: &files }), budget)
    }

    /// What texts name of the mirror, and what they should name.
    pub fn names(&self) -> Vec<(PathBuf, PathBuf)> {
        let data = self.place.data_folder().map(|data| (self.data(), data.to_owned()));
        std::iter::once((self.root(), self.place.root().to_owned())).chain(data).collect()
    }

    fn root(&self) -> PathBuf {
        self.folder.join("rank")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn too_large(&self, size: u64, budget: u64) -> Error {
        let why = format!(
            "is on a different node, and has no records beside its tensors: all of its {size} bytes must be moved, and {budget} \
             may be (--move-limit): raise it, or copy the dump to the node of the other side"
        );
        Error::whole(Fault::Unsupported(why)).in_file(self.place.root())
    }

    fn path(&self, file: &RankFile) -> PathBuf {
        if file.in_data { self.data().join(&file.path) } else { self.root().join(&file.path) }
    }

    /// Makes the files of the documents, and the folders and links beside them.
    fn prepare(&self, documents: &Documents) -> Result<(), String> {
        let in_root = |error: std::io::Error| in_folder(self.folder, &error);
        fs::create_dir_all(self.root()).map_err(in_root)?;
        fs::create_dir_all(self.data()).map_err(in_root)?;
        for folder in &documents.folders {
            fs::create_dir_all(self.root().join(plain(folder)?)).map_err(in_root)?;
        }
        for link in &documents.links {
            make_link(&self.root().join(plain(link)?)).map_err(in_root)?;
        }
        documents.files.iter().try_for_each(|(file, size)| self.make(file, FileState::Size(*size)))
    }

    /// Makes an empty file of the size that the far one has, or a link that is refused as the far one.
    fn make(&self, file: &RankFile, state: FileState) -> Result<(), String> {
        plain(&file.path)?;
        let path = self.path(file);
        let make = || -> std::io::Result<()> {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            match state {
                FileState::Size(size) => File::create(&path)?.set_len(size),
                FileState::Link if path.symlink_metadata().is_err() => make_link(&path),
                FileState::Link | FileState::Missing => Ok(()),
            }
        };
        // A link among the folders above was made as such before: nothing is written through it.
        if self.is_below_link(file) { Ok(()) } else { make().map_err(|error| in_folder(&path, &error)) }
    }

    fn is_below_link(&self, file: &RankFile) -> bool {
        let root = if file.in_data { self.data() } else { self.root() };
        let folders = file.path.ancestors().skip(1);
        folders.map(|folder| root.join(folder)).any(|folder| folder.is_symlink())
    }

    /// Copies ranges in pieces, a few at the same time.
    fn fetch(&self, far: &dyn FarRank, ranges: Vec<FileRange>) -> Result<(), String> {
        let pieces = Mutex::new(pieces(ranges));
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let failed: Mutex<Option<String>> = Mutex::new(None);
        let work = || {
            while let Some(piece) = next() {
                if let Err(why) = far.read(&piece).and_then(|bytes| self.write(&piece, &bytes)) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                    pieces.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
            }
        };
        std::thread::scope(|scope| {
            (1..PIECES_AT_ONCE).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn write(&self, piece: &[FileRange], bytes: &[u8]) -> Result<(), String> {
        let size: u64 = piece.iter().map(|range| range.length).sum();
        if bytes.len() as u64 != size {
            return Err(format!("expected {size} bytes of a far file, found {}", bytes.len()));
        }
        let mut rest = bytes;
        for range in piece {
            let path = self.path(&range.file);
            let (own, others) = rest.split_at(range.length as usize);
            rest = others;
            let mut file =
                OpenOptions::new().write(true).open(&path).map_err(|error| in_folder(&path, &error))?;
            let written = file.seek(SeekFrom::Start(range.offset)).and_then(|_| file.write_all(own));
            written.map_err(|error| in_folder(&path, &error))?;
        }
        Ok(())
    }
}

/// Ranges in pieces: large ones are cut, small ones are put together.
fn pieces(ranges: Vec<FileRange>) -> VecDeque<Vec<FileRange>> {
    let mut pieces = VecDeque::new();
    let mut piece: Vec<FileRange> = Vec::new();
    let mut size = 0;
    let mut known = HashSet::new();
    for range in ranges.into_iter().filter(|range| range.length > 0 && known.insert(range.clone())) {
        let end = range.offset + range.length;
        let mut offset = range.offset;
        while offset < end {
            let length = (end - offset).min(PIECE_BYTES - size);
            piece.push(FileRange { file: range.file.clone(), offset, length });
            offset += length;
            size += length;
            if size == PIECE_BYTES || piece.len() == RANGES_AT_ONCE {
                pieces.push_back(std::mem::take(&mut piece));
                size = 0;
            }
        }
    }
    if !piece.is_empty() {
        pieces.push_back(piece);
    }
    pieces
}

/// A relative path without dots: the far machine is not trusted either.
fn plain(path: &Path) -> Result<&Path, String> {
    let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if is_plain { Ok(path) } else { Err(format!("{} leads out of its folder", path.display())) }
}

#[cfg(unix)]
fn make_link(path: &Path) -> std::io::Result<()> {
    // It leads to itself: nothing can be read through it.
    std::os::unix::fs::symlink(path, path)
}

/// Elsewhere the file is missing.
#[cfg(not(unix))]
fn make_link(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

fn in_folder(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
