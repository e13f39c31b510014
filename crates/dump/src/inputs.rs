//! What a rank is read from: its files with sizes and times, so that a later comparison can tell whether they changed.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ulpscope_formats::storage::{self, Kind};

use crate::tree::RankPlace;

/// Maximum depth of the folders of a rank.
const MAX_DEPTH: usize = 8;

/// The files of a rank, as they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The folder or file.
    pub path: PathBuf,
    /// How many files there are.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// A number made of every file's path, size and time of its last change.
    pub fingerprint: String,
}

impl RankPlace {
    /// What is opened, with the files beside it that belong to it.
    pub(crate) fn with_companions(&self) -> &Path {
        let opened = self.path();
        // The tensors, stacks and modules of records are beside them.
        match opened.parent() {
            Some(folder) if self.has_companions() => folder,
            _ => opened,
        }
    }

    /// The files of this rank. What cannot be listed is not counted: it is reported when the rank is opened.
    pub fn inputs(&self) -> Inputs {
        let path = self.with_companions();
        let mut found = Vec::new();
        list(path, Path::new(""), 0, &mut found);
        if let Some(data) = self.data_folder() {
            list(data, data, 0, &mut found);
        }
        found.sort();
        let mut hash = Fnv::default();
        for file in &found {
            hash.add(file.path.as_os_str().as_encoded_bytes());
            hash.add(&file.bytes.to_le_bytes());
            hash.add(&file.version.to_le_bytes());
        }
        Inputs {
            path: path.to_owned(),
            files: found.len() as u64,
            bytes: found.iter().map(|file| file.bytes).sum(),
            fingerprint: format!("{:016x}", hash.0),
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct File {
    /// Below the folder.
    path: PathBuf,
    bytes: u64,
    /// See [`storage::About::version`].
    version: u128,
}

/// Adds the files below a folder, or a file. Links are not followed: nothing is read through them.
fn list(path: &Path, named: &Path, depth: usize, found: &mut Vec<File>) {
    let Ok(about) = storage::about_itself(path) else { return };
    if about.kind == Kind::File {
        found.push(File { path: named.to_owned(), bytes: about.size, version: about.version });
    } else if about.kind == Kind::Folder && depth < MAX_DEPTH {
        let Ok(items) = storage::list(path) else { return };
        for item in items {
            list(&path.join(&item.name), &named.join(&item.name), depth + 1, found);
        }
    }
}

/// FNV-1a of 64 bits: the same on every machine and in every release.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        // The length first, so that no two lists of texts are the same bytes.
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
