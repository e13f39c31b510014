//! What a machine tells about the files of one of its ranks: which there are, their bytes, and what tells these apart.
//!
//! Nothing is read outside the folders of the rank, and nothing through a link.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ulpscope_formats::file::open_regular;
use ulpscope_formats::{Access, Bytes, Error, Fault};
use ulpscope_kernels::keyed_hash;

use crate::find::{COMPANIONS, Opening};
use crate::links;
use crate::tree::RankPlace;

/// Maximum depth of the folders of a rank.
const MAX_DEPTH: usize = 8;

/// Bytes that are hashed before their memory is returned.
const HASHED_AT_ONCE: u64 = 64 << 20;

/// A file of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RankFile {
    /// Whether it is in the folder of tensors that the user named, and not in that of the rank.
    pub in_data: bool,
    /// Its path below that folder.
    pub path: PathBuf,
}

/// Some bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileRange {
    /// The file.
    pub file: RankFile,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// What is found under the name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileState {
    /// Nothing that can be read.
    Missing,
    /// A link, or something below one.
    Link,
    /// A file of so many bytes.
    Size(u64),
}

/// What must be there before a rank can be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Documents {
    /// The files and their sizes, in order.
    pub files: Vec<(RankFile, u64)>,
    /// Folders directly in that of the rank: some tools look for them.
    pub folders: Vec<PathBuf>,
    /// Links directly in it: they are refused under their names.
    pub links: Vec<PathBuf>,
    /// Whether the tensors are in these files, so that there is nothing else.
    pub have_tensors: bool,
}

/// The files of a rank, on whichever machine. Errors are texts that name it.
pub trait FarRank: Sync {
    /// What must be there before the rank can be opened.
    fn documents(&self) -> Result<Documents, String>;

    /// What is found under names, one for each.
    fn states(&self, files: &[RankFile]) -> Result<Vec<FileState>, String>;

    /// The bytes of ranges, one after the other.
    fn read(&self, ranges: &[FileRange]) -> Result<Vec<u8>, String>;

    /// A hash of each range. With a key that no dump can know, different bytes have different hashes.
    fn digests(&self, ranges: &[FileRange], key: u64) -> Result<Vec<u128>, String>;
}

/// The files of a rank on this machine.
#[derive(Clone, Copy, Debug)]
pub struct LocalFiles<'a>(pub &'a RankPlace);

impl FarRank for LocalFiles<'_> {
    fn documents(&self) -> Result<Documents, String> {
        let root = self.0.root();
        let mut documents = Documents { have_tensors: !self.0.has_records(), ..Documents::default() };
        if let Opening::Entry(path) = &self.0.opening {
            return Err(format!("{}: one tensor of a dump cannot be moved: name the dump", path.display()));
        }
        if documents.have_tensors {
            match &self.0.opening {
                Opening::File(path) => {
                    list(path, Path::new(path.file_name().unwrap_or_default()), 0, &mut documents);
                }
                _ => list(root, Path::new(""), 0, &mut documents),
            }
        } else {
            for name in COMPANIONS.iter().map(PathBuf::from).chain(self.0.opened_names()) {
                let is_known = documents.files.iter().any(|(file, _)| file.path == name);
                if let (false, FileState::Size(size)) = (is_known, state(root, &name)) {
                    documents.files.push((RankFile { in_data: false, path: name }, size));
                }
            }
            for item in fs::read_dir(root).map_err(|error| in_folder(root, error))?.flatten() {
                let name = PathBuf::from(item.file_name());
                match item.file_type() {
                    Ok(kind) if kind.is_symlink() => documents.links.push(name),
                    Ok(kind) if kind.is_dir() => documents.folders.push(name),
                    _ => {}
                }
            }
        }
        documents.files.sort();
        documents.folders.sort();
        documents.links.sort();
        Ok(documents)
    }

    fn states(&self, files: &[RankFile]) -> Result<Vec<FileState>, String> {
        Ok(files
            .iter()
            .map(|file| self.folder(file).map_or(FileState::Missing, |folder| state(folder, &file.path)))
            .collect())
    }

    fn read(&self, ranges: &[FileRange]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(ranges.iter().map(|range| range.length as usize).sum());
        for range in ranges {
            let path = self.checked(&range.file)?;
            let start = bytes.len();
            bytes.resize(start + range.length as usize, 0);
            let mut file = open_regular(&path).map_err(|error| error.to_string())?;
            file.seek(SeekFrom::Start(range.offset))
                .and_then(|_| file.read_exact(&mut bytes[start..]))
                .map_err(|error| in_folder(&path, error))?;
        }
        Ok(bytes)
    }

    fn digests(&self, ranges: &[FileRange], key: u64) -> Result<Vec<u128>, String> {
        let mut mapped: Option<(&RankFile, Bytes)> = None;
        let mut found = Vec::with_capacity(ranges.len());
        for range in ranges {
            if mapped.as_ref().is_none_or(|(file, _)| *file != &range.file) {
                let path = self.checked(&range.file)?;
                let bytes = Bytes::map(&path, Access::ReadOnly).map_err(|error| error.to_string())?;
                mapped = Some((&range.file, bytes));
            }
            let Some((_, bytes)) = &mapped else { continue };
            let part = part_of(bytes, range).map_err(|error| error.in_file(&range.file.path).to_string())?;
            let pieces = (0..range.length).step_by(HASHED_AT_ONCE as usize).map(|start| {
                let end = range.length.min(start + HASHED_AT_ONCE);
                // What was read before is not needed again.
                part.release(0..start as usize);
                &part[start as usize..end as usize]
            });
            found.push(keyed_hash(pieces, key));
            bytes.check().map_err(|error| error.to_string())?;
        }
        Ok(found)
    }
}

impl LocalFiles<'_> {
    fn folder(&self, file: &RankFile) -> Option<&Path> {
        if file.in_data { self.0.data_folder() } else { Some(self.0.root()) }
    }

    /// The path of a file, if nothing leads out of its folder.
    fn checked(&self, file: &RankFile) -> Result<PathBuf, String> {
        let folder = self.folder(file).ok_or_else(|| format!("{}: no folder", file.path.display()))?;
        links::refuse_below(folder, &file.path).map_err(|error| error.to_string())?;
        Ok(folder.join(&file.path))
    }
}

/// The bytes of a range.
fn part_of(bytes: &Bytes, range: &FileRange) -> Result<Bytes, Error> {
    let end = range.offset.checked_add(range.length).filter(|&end| end <= bytes.len() as u64);
    let Some(end) = end else {
        let expected = format!("{} bytes from byte {}", range.length, range.offset);
        let found = format!("a file of {} bytes", bytes.len());
        return Err(Error::whole(Fault::truncated(expected, found)));
    };
    Ok(bytes.slice(range.offset as usize..end as usize))
}

fn state(folder: &Path, name: &Path) -> FileState {
    if links::refuse_below(folder, name).is_err() {
        let is_there = folder.join(name).symlink_metadata().is_ok();
        return if is_there { FileState::Link } else { FileState::Missing };
    }
    match folder.join(name).symlink_metadata() {
        Ok(about) if about.is_file() => FileState::Size(about.len()),
        _ => FileState::Missing,
    }
}

/// Adds every file below a folder, or a file. Links are not followed.
fn list(path: &Path, named: &Path, depth: usize, found: &mut Documents) {
    let Ok(about) = fs::symlink_metadata(path) else { return };
    if about.is_file() {
        found.files.push((RankFile { in_data: false, path: named.to_owned() }, about.len()));
    } else if about.is_dir() && depth < MAX_DEPTH {
        let Ok(items) = fs::read_dir(path) else { return };
        for item in items.flatten() {
            list(&item.path(), &named.join(item.file_name()), depth + 1, found);
        }
    }
}

fn in_folder(path: &Path, error: std::io::Error) -> String {
    Error::whole(error).in_file(path).to_string()
}
