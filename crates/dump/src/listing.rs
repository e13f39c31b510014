//! The content of a folder, and which of it belongs to a dump.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ulpscope_formats::file::Format;
use ulpscope_formats::storage::{self, Kind};
use ulpscope_formats::{Error, natural};

use crate::acl;
use crate::find::{Opening, digits};
use crate::journal::{JOURNAL_FILE, is_journal};
use crate::mapping_csv::{self, MAPPING_FILE};
use crate::passed_over::{PassedOver, holds_tensors};
use crate::problems::Problems;

/// Maximum white space before the first line of a `.pkl`.
const SPACE_LOOKED_AT: usize = 64;

/// The records of msprobe and Ulpscope.
pub(crate) const RECORDS: [&str; 2] = ["dump.json", "debug.json"];

/// Digits of the time in microseconds at the end of an ACL dump's file name.
const ACL_TIME_DIGITS: usize = 16;

/// The content of a folder, by name, in order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) files: Vec<String>,
    pub(crate) folders: Vec<String>,
    /// Folders whose names begin with a dot (`.git`, `.cache`): programs keep their own files there, not those of a
    /// run.
    pub(crate) hidden: Vec<String>,
    pub(crate) links: Vec<String>,
    /// Pipes and similar files, and files whose names are not valid text.
    pub(crate) strange: Vec<String>,
}

/// A file with tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TensorFile {
    /// Its path below the folder.
    pub(crate) path: PathBuf,
    /// The path that its tensors are named after: that of the file, unless `mapping.csv` has a different one.
    pub(crate) named: PathBuf,
}

impl Listing {
    pub(crate) fn read(folder: &Path) -> Result<Listing, Error> {
        let in_folder = |error: std::io::Error| Error::whole(error).in_file(folder);
        let mut listing = Listing::default();
        for item in storage::list(folder).map_err(in_folder)? {
            // No tool writes a name that is not valid text.
            let name = match item.name.into_string() {
                Ok(name) => name,
                Err(name) => {
                    listing.strange.push(name.to_string_lossy().into_owned());
                    continue;
                }
            };
            let list = match item.kind {
                Kind::Link => &mut listing.links,
                Kind::Folder if name.starts_with('.') => &mut listing.hidden,
                Kind::Folder => &mut listing.folders,
                Kind::File => &mut listing.files,
                Kind::Other => &mut listing.strange,
            };
            list.push(name);
        }
        for list in listing.lists_mut() {
            list.sort_unstable();
        }
        Ok(listing)
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        [&self.files, &self.folders, &self.hidden, &self.links, &self.strange]
            .iter()
            .all(|list| list.is_empty())
    }

    fn lists_mut(&mut self) -> [&mut Vec<String>; 5] {
        [&mut self.files, &mut self.folders, &mut self.hidden, &mut self.links, &mut self.strange]
    }

    /// The dumps of Ulpscope, msprobe, ptdbg_ascend or torch_npu.hooks directly in the folder.
    pub(crate) fn openings(&self, folder: &Path) -> Vec<Opening> {
        let mut openings = Vec::new();
        let records: Vec<PathBuf> = RECORDS
            .into_iter()
            .filter(|name| self.files.iter().any(|file| file == name))
            .map(|name| folder.join(name))
            .collect();
        let journal = folder.join(JOURNAL_FILE);
        if self.files.iter().any(|file| file == JOURNAL_FILE) && is_journal(&journal) {
            openings.push(Opening::Journal(journal));
        } else if !records.is_empty() {
            openings.push(Opening::Msprobe(records));
        }
        let lines: Vec<&String> =
            self.files.iter().filter(|name| name.ends_with(".pkl") && is_lines(&folder.join(name))).collect();
        if lines.len() > 1 && lines.iter().all(|name| overflow_number(name).is_some()) {
            let mut lines = lines;
            lines.sort_by_key(|name| overflow_number(name));
            openings.push(Opening::Pkl(lines.into_iter().map(|name| folder.join(name)).collect()));
        } else {
            openings.extend(lines.into_iter().map(|name| Opening::Pkl(vec![folder.join(name)])));
        }
        openings
    }
}

/// Whether a `.pkl` is text. A pickle, which may have the same extension, never begins with a bracket.
fn is_lines(path: &Path) -> bool {
    let mut beginning = [0; SPACE_LOOKED_AT];
    let read = storage::read_beginning(path, &mut beginning);
    // A file that cannot be read is kept: opening it reports why.
    read.map_or(true, |length| matches!(beginning[..length].trim_ascii_start().first(), Some(b'[') | None))
}

/// The number of an overflow dump of ptdbg_ascend: `Tensor___add___1_forward_2.pkl` is the second.
fn overflow_number(name: &str) -> Option<u64> {
    let (call, number) = name.strip_suffix(".pkl")?.rsplit_once(['_', '.'])?;
    let call = call.ends_with("forward") || call.ends_with("backward");
    call.then(|| digits(number)).flatten()
}

/// Every tensor file below a folder, in order of their paths; other files are listed separately.
pub(crate) fn tensor_files(
    folder: &Path,
    problems: &mut Problems,
    passed: &mut PassedOver,
) -> Vec<TensorFile> {
    let mut files = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(relative) = waiting.pop() {
        let listing = match Listing::read(&folder.join(&relative)) {
            Ok(listing) => listing,
            Err(error) => {
                problems.add(&error);
                continue;
            }
        };
        let here = folder.join(&relative);
        let is_mapped = listing.files.iter().any(|name| name == MAPPING_FILE);
        let mapped = if is_mapped { mapping_csv::read_in(&here, problems) } else { HashMap::new() };
        for name in listing.files.iter().filter(|name| !(is_mapped && *name == MAPPING_FILE)) {
            let path = here.join(name);
            if is_tensor_file(name) || holds_tensors(&path) {
                let named = mapped.get(name).map_or_else(|| relative.join(name), |name| relative.join(name));
                files.push(TensorFile { path: relative.join(name), named });
            } else {
                passed.file(&path);
            }
        }
        passed.not_files(&here, &listing);
        waiting.extend(listing.folders.into_iter().map(|name| relative.join(name)));
    }
    let bytes = |file: &TensorFile| file.named.as_os_str().as_encoded_bytes().to_vec();
    files.sort_by(|a, b| natural::compare(&bytes(a), &bytes(b)).then_with(|| a.path.cmp(&b.path)));
    files
}

/// Whether a name is that of a tensor file.
pub(crate) fn is_tensor_file(name: &str) -> bool {
    let Some((_, extension)) = name.rsplit_once('.') else { return false };
    Format::may_hold_tensors(extension) || acl::is_name(name) || ends_in_time(name)
}

/// Whether a name ends with a time, as those of ACL dump files do.
fn ends_in_time(name: &str) -> bool {
    let is_time = |time: &str| time.len() == ACL_TIME_DIGITS && digits(time).is_some();
    name.rsplit_once('.').is_some_and(|(_, time)| is_time(time))
}
