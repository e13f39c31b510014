//! Finds the ranks in a folder, whichever tool wrote them.
//!
//! ```text
//! journal.jsonl                  a rank of Ulpscope whose run was killed or is still running
//! dump.json, debug.json          a rank of msprobe or Ulpscope
//! *.pkl of JSON lines            a rank of ptdbg_ascend or torch_npu.hooks
//! step{N}/                       a step; rank{N}/, rank/, proc{pid}/ a rank: searched
//! after_last_step/               what a run did after its last training step: a step without a number
//! …_shape[..]_stride[..]….npy    the asynchronous dump of torch_npu.hooks
//! any other folder               searched if there is nothing of the above beside it (ptdbg_dump_v4.0/)
//! _tfdbg_device_…/               a run that TensorFlow's debugger dumped; run_{time}_{N}/ around it is a step
//! Conv2D.conv1.14.5.1767261601009597    an ACL dump; other tensor files among them are not read
//! conv1_Conv2D.0.1767261601009597.npy   TensorFlow's dump as arrays, if no other tensor files are among them
//! .npy, .pt, .safetensors, …     tensor files of any program, if there is nothing of the above anywhere, or in
//!                                the folder of a step or rank
//! ```
//! Folders whose names begin with a dot are skipped. Links are not followed: their targets are not part of the dump.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ulpscope_formats::file::{Format, Records};
use ulpscope_formats::{Access, Bytes, Error, Fault, storage};

use crate::acl::{self, AclPlace};
use crate::address;
use crate::async_npy;
use crate::journal::{JOURNAL_FILE, MARK};
use crate::ledger::LEDGER_FILE;
use crate::listing::{Listing, TensorFile, is_tensor_file, tensor_files};
use crate::passed_over::{PassedOver, holds_tensors};
use crate::problems::Problems;
use crate::tensorflow::{self, TfFile, TfRun};

/// Maximum depth of the search.
const MAX_DEPTH: usize = 5;

/// Files that belong to a dump beside those that are opened.
pub(crate) const COMPANIONS: [&str; 6] =
    ["dump.json", "debug.json", "stack.json", "construct.json", LEDGER_FILE, JOURNAL_FILE];

/// The folder for what a run did after its last training step. It comes after all steps and is not a step itself.
pub const AFTER_LAST_STEP: &str = "after_last_step";

/// Maximum names in the error that no dump was found.
const SHOWN: usize = 8;

/// A rank that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) step: Option<u64>,
    pub(crate) rank: RankName,
    pub(crate) opening: Opening,
}

/// The name of a rank's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RankName {
    pub(crate) number: Option<u64>,
    pub(crate) text: String,
}

/// What to open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Opening {
    /// `dump.json`, `debug.json`, or both.
    Msprobe(Vec<PathBuf>),
    /// A journal; the files beside it are older.
    Journal(PathBuf),
    /// A `.pkl`, or several overflow dumps.
    Pkl(Vec<PathBuf>),
    /// A folder of files whose names contain all metadata.
    AsyncNpy(PathBuf),
    /// The files of one device and step of an ACL dump.
    Acl(PathBuf, Vec<TensorFile>),
    /// The tensors that TensorFlow dumped in one run.
    Tensorflow(PathBuf, Vec<TfFile>),
    /// Tensor files somewhere below a folder, in order.
    Folder(PathBuf, Vec<TensorFile>),
    /// A tensor file, or a checkpoint.
    File(PathBuf),
    /// One tensor of a dump, by its address.
    Entry(PathBuf),
}

impl Opening {
    /// The file or folder that is opened.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Opening::Msprobe(files) | Opening::Pkl(files) => match files.as_slice() {
                [file] => file,
                files => files.first().and_then(|file| file.parent()).unwrap_or(Path::new("")),
            },
            Opening::Journal(path)
            | Opening::AsyncNpy(path)
            | Opening::Acl(path, _)
            | Opening::Tensorflow(path, _)
            | Opening::Folder(path, _)
            | Opening::File(path)
            | Opening::Entry(path) => path,
        }
    }

    /// Whether a file is one of those that are opened.
    fn holds(&self, folder: &Path, name: &str) -> bool {
        let path = folder.join(name);
        match self {
            Opening::Msprobe(files) | Opening::Pkl(files) => files.contains(&path),
            Opening::Journal(file) | Opening::File(file) => *file == path,
            Opening::AsyncNpy(opened) => opened == folder && async_npy::is_name(name),
            Opening::Acl(opened, _) | Opening::Tensorflow(opened, _) | Opening::Folder(opened, _) => {
                opened == folder
            }
            Opening::Entry(_) => false,
        }
    }
}

/// The number of a folder named `step{N}`.
pub(crate) fn step_number(name: &str) -> Option<u64> {
    digits(name.strip_prefix("step")?)
}

/// The rank of a folder named `rank{N}`, `rank` or `proc{pid}`. A process id is not a rank number.
pub(crate) fn rank_name(name: &str) -> Option<RankName> {
    let text = name.to_owned();
    if let Some(number) = name.strip_prefix("rank") {
        let number = if number.is_empty() { None } else { Some(digits(number)?) };
        return Some(RankName { number, text });
    }
    digits(name.strip_prefix("proc")?).map(|_| RankName { number: None, text })
}

pub(crate) fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Finds the ranks in a folder or file that the user named.
pub(crate) fn find(
    path: &Path,
    problems: &mut Problems,
    notes: &mut Vec<String>,
) -> Result<Vec<Found>, Error> {
    storage::forget(path);
    if address::is_address(path) {
        return Ok(vec![Here::default().found(Opening::Entry(path.to_owned()))]);
    }
    // `.` and links do not show the real name.
    let whole = storage::real_path(path).map_err(|error| Error::whole(error).in_file(path))?;
    let names: Vec<String> = whole
        .ancestors()
        .take(3)
        .filter_map(Path::file_name)
        .map(|name| name.to_string_lossy().into())
        .collect();
    let name = |up: usize| names.get(up).map_or("", String::as_str);
    let is_folder = storage::is_folder(path);
    let folder = usize::from(!is_folder);
    let rank = rank_name(name(folder)).unwrap_or_default();
    // The step is in the name of the folder itself, or of the folder around a rank's.
    let above = if rank.text.is_empty() { folder } else { folder + 1 };
    let here = Here { step: step_number(name(above)), rank, strange: false };
    if !is_folder {
        return Ok(vec![here.found(of_file(path)?)]);
    }
    let mut search = Search { problems, passed: PassedOver::default(), empty: Vec::new() };
    let found = search.look(path, &here, 0)?;
    let Search { empty, passed, .. } = search;
    if !found.is_empty() {
        for folder in empty {
            match Listing::read(&folder) {
                Ok(listing) if listing.is_empty() => {
                    let folder = folder.display();
                    notes.push(format!(
                        "{folder}: an empty folder: the run ended before it recorded anything here"
                    ));
                }
                _ => problems.add(&nothing_in(&folder, &Problems::default())),
            }
        }
        passed.report(path, problems, notes);
        return Ok(found);
    }
    let mut passed = PassedOver::default();
    let files = tensor_files(path, problems, &mut passed);
    if files.is_empty() {
        return Err(nothing_in(path, problems));
    }
    notes.extend(acl::op_debug_note(path, &files));
    let found = here.found_files(path, files, &mut passed);
    passed.report(path, problems, notes);
    Ok(found)
}

/// What to open for a single file.
fn of_file(path: &Path) -> Result<Opening, Error> {
    if let Some("stack.json" | "construct.json" | "ledger.json") =
        path.file_name().and_then(|name| name.to_str())
    {
        let message =
            "belongs to a dump but is not a dump on its own: name the dump.json beside it, or the folder";
        return Err(Error::whole(Fault::Unsupported(message.to_owned())).in_file(path));
    }
    let named = path.file_name().is_some_and(|name| name == JOURNAL_FILE);
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    bytes.reading(|| {
        if named || bytes.starts_with(MARK) {
            return Ok(Opening::Journal(path.to_owned()));
        }
        let format = Format::detect(path, &bytes).map_err(|error| error.in_file(path))?;
        Ok(match format.records() {
            Some(Records::Msprobe) => Opening::Msprobe(vec![path.to_owned()]),
            Some(Records::PklLines) => Opening::Pkl(vec![path.to_owned()]),
            None => Opening::File(path.to_owned()),
        })
    })
}

/// The current position of the search.
#[derive(Clone, Debug, Default)]
struct Here {
    step: Option<u64>,
    rank: RankName,
    /// Whether a folder on the path has an unknown name.
    strange: bool,
}

impl Here {
    fn found(&self, opening: Opening) -> Found {
        Found { step: self.step, rank: self.rank.clone(), opening }
    }

    /// The tensor files of a folder: TensorFlow's, the devices and steps of an ACL dump, or one rank. Files that do not
    /// belong to an ACL dump are passed over.
    fn found_files(&self, folder: &Path, files: Vec<TensorFile>, passed: &mut PassedOver) -> Vec<Found> {
        if let Some(arrays) = tensorflow::arrays(&files) {
            return vec![self.found(Opening::Tensorflow(folder.to_owned(), arrays))];
        }
        let Some((files, others)) = acl::dump_files(folder, &files) else {
            return vec![self.found(Opening::Folder(folder.to_owned(), files))];
        };
        others.iter().for_each(|file| passed.data(&folder.join(&file.path)));
        let found = |place: AclPlace| {
            let device =
                place.device.map(|device| RankName { number: Some(device), text: format!("device{device}") });
            Found {
                step: place.step.or(self.step),
                rank: device.unwrap_or_else(|| self.rank.clone()),
                opening: Opening::Acl(place.folder, place.files),
            }
        };
        acl::groups(folder, &files).into_iter().map(found).collect()
    }
}

struct Search<'p> {
    problems: &'p mut Problems,
    /// Files that are not read.
    passed: PassedOver,
    /// Empty folders of steps and ranks: reported only if there is a dump around them.
    empty: Vec<PathBuf>,
}

impl Search<'_> {
    fn look(&mut self, folder: &Path, here: &Here, depth: usize) -> Result<Vec<Found>, Error> {
        let listing = Listing::read(folder)?;
        let runs = tensorflow::runs(folder, &listing, self.problems, &mut self.passed)?;
        if !runs.is_empty() {
            let found = |run: TfRun| {
                let here = Here { step: run.step.or(here.step), ..here.clone() };
                here.found(Opening::Tensorflow(run.folder, run.files))
            };
            return Ok(runs.into_iter().map(found).collect());
        }
        let mut openings = listing.openings(folder);
        let owns_folders = !openings.is_empty();
        let mut found: Vec<Found> = openings.iter().cloned().map(|one| here.found(one)).collect();
        let mut others = Vec::new();
        for name in &listing.folders {
            let path = folder.join(name);
            let below = if let Some(step) = step_number(name) {
                Here { step: Some(step), ..here.clone() }
            } else if name == AFTER_LAST_STEP {
                Here { step: None, ..here.clone() }
            } else if let Some(rank) = rank_name(name) {
                Here { rank, ..here.clone() }
            } else {
                others.push(path);
                continue;
            };
            found.append(&mut self.look_into(&path, &below, depth)?);
        }
        if found.is_empty() && listing.files.iter().any(|name| async_npy::is_name(name)) {
            let opening = Opening::AsyncNpy(folder.to_owned());
            found.push(here.found(opening.clone()));
            openings.push(opening);
        }
        if found.is_empty()
            && depth < MAX_DEPTH
            && let Some((dump, ranks)) = self.look_around(folder, &others, here, depth)?
        {
            found = ranks;
            others.retain(|path| *path != dump);
        }
        if !found.is_empty() {
            // Folders beside the records of a rank belong to it: they contain its tensors.
            let others = if owns_folders { &[] } else { others.as_slice() };
            self.pass_over(folder, &listing, &openings, others);
        }
        Ok(found)
    }

    /// Lists the files beside a dump that are not part of it.
    fn pass_over(&mut self, folder: &Path, listing: &Listing, openings: &[Opening], others: &[PathBuf]) {
        let is_part = |name: &str| {
            COMPANIONS.contains(&name) || openings.iter().any(|opening| opening.holds(folder, name))
        };
        let mut beside = PassedOver::default();
        for name in listing.files.iter().filter(|name| !is_part(name)) {
            let path = folder.join(name);
            if is_tensor_file(name) || holds_tensors(&path) { beside.data(&path) } else { beside.file(&path) }
        }
        beside.not_files(folder, listing);
        for path in others {
            let files = tensor_files(path, self.problems, &mut beside);
            files.iter().for_each(|file| beside.data(&path.join(&file.path)));
        }
        self.passed.extend(beside.without_documents());
    }

    /// Searches the folder of a step or rank. A problem there does not stop the search of the others.
    fn look_into(&mut self, path: &Path, below: &Here, depth: usize) -> Result<Vec<Found>, Error> {
        if depth >= MAX_DEPTH {
            return Ok(Vec::new());
        }
        let known = self.empty.len() as u64 + self.problems.count();
        match self.look(path, below, depth + 1) {
            Ok(mut found) => {
                // A killed run may have left tensors without records.
                if found.is_empty() && !below.strange {
                    let mut passed = PassedOver::default();
                    let files = tensor_files(path, self.problems, &mut passed);
                    if !files.is_empty() {
                        found.append(&mut below.found_files(path, files, &mut passed));
                        self.passed.extend(passed);
                    }
                }
                if found.is_empty() && self.empty.len() as u64 + self.problems.count() == known {
                    self.empty.push(path.to_owned());
                }
                Ok(found)
            }
            Err(error) if matches!(error.fault, Fault::Io(_)) => {
                self.problems.add(&error);
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Searches folders with unknown names: one of them may be the dump. Returns that folder and its ranks.
    fn look_around(
        &mut self,
        folder: &Path,
        others: &[PathBuf],
        here: &Here,
        depth: usize,
    ) -> Result<Option<(PathBuf, Vec<Found>)>, Error> {
        let mut dumps = Vec::new();
        let here = Here { strange: true, ..here.clone() };
        for path in others {
            match self.look(path, &here, depth + 1) {
                Ok(found) if !found.is_empty() => dumps.push((path.clone(), found)),
                Ok(_) => {}
                Err(error) if matches!(error.fault, Fault::Io(_)) => self.problems.add(&error),
                Err(error) => return Err(error),
            }
        }
        if dumps.len() > 1 {
            let names = dumps.iter().filter_map(|(path, _)| path.file_name());
            let names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
            return Err(several(folder, &names));
        }
        Ok(dumps.pop())
    }
}

/// The error for a folder that contains more than one dump.
pub(crate) fn several(folder: &Path, names: &[String]) -> Error {
    let found = format!("{} dumps: {}; name one of them", names.len(), shown(names));
    Error::whole(Fault::malformed("one dump", found)).in_file(folder)
}

fn nothing_in(folder: &Path, problems: &Problems) -> Error {
    let names: Vec<String> = match Listing::read(folder) {
        Ok(listing) => {
            let folders = listing.folders.iter().chain(&listing.hidden).map(|name| format!("{name}/"));
            let links = listing.links.iter().map(|name| format!("{name} (a link, not followed)"));
            let files = listing.files.iter().cloned();
            folders.chain(files).chain(links).collect()
        }
        Err(error) => return error,
    };
    let mut found = if names.is_empty() { "an empty folder".to_owned() } else { shown(&names) };
    if let Some(problem) = problems.listed().first() {
        found.push_str(&format!("; {problem}"));
    }
    let files = Format::general_extensions(", ");
    let expected = format!(
        "a dump (dump.json, debug.json or journal.jsonl, a .pkl of JSON lines, folders step{{N}}, rank{{N}} or \
         proc{{pid}}, or files {files})"
    );
    Error::whole(Fault::malformed(expected, found)).in_file(folder)
}

fn shown(names: &[String]) -> String {
    match names.get(SHOWN..) {
        Some(rest) if !rest.is_empty() => {
            format!("{} and {} more", names[..SHOWN].join(", "), rest.len())
        }
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_listed_is_not_called_empty() {
        let error = nothing_in(Path::new("no/such/folder"), &Problems::default());
        assert!(matches!(error.fault, Fault::Io(_)), "{error}");
        assert!(error.to_string().starts_with("no/such/folder: "), "{error}");
    }
}
