//! Where the debugger's files are.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ulpscope_formats::Error;
use ulpscope_formats::tensorflow::DebugFileName;

use super::TfFile;
use crate::find::digits;
use crate::listing::Listing;
use crate::passed_over::PassedOver;
use crate::problems::Problems;

/// How the folder of a device begins: `_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0`.
const DEVICE: &str = "_tfdbg_device_";

/// How files about a run begin: its graph, what was fed and fetched.
const ABOUT: &str = "_tfdbg_";

/// More folders than the scopes of an operator.
const MAX_DEPTH: usize = 64;

/// What the debugger dumped of one run of a session.
pub(crate) struct TfRun {
    /// Its number, if there are several.
    pub(crate) step: Option<u64>,
    pub(crate) folder: PathBuf,
    pub(crate) files: Vec<TfFile>,
}

/// The runs of a folder: it is the folder of a run, of a device of one, or around several; none if it is neither.
pub(crate) fn runs(
    folder: &Path,
    listing: &Listing,
    problems: &mut Problems,
    passed: &mut PassedOver,
) -> Result<Vec<TfRun>, Error> {
    let is_device = folder.file_name().is_some_and(|name| is_device_folder(&name.to_string_lossy()));
    if is_device || has_device(listing) {
        let files = debug_files(folder, listing, problems, passed);
        return Ok(vec![TfRun { step: None, folder: folder.to_owned(), files }]);
    }
    let mut found: Vec<(u64, PathBuf, Listing)> = Vec::new();
    for name in &listing.folders {
        let Some(number) = run_number(name) else { continue };
        let path = folder.join(name);
        let inside = Listing::read(&path)?;
        if has_device(&inside) {
            found.push((number, path, inside));
        }
    }
    let numbers: BTreeSet<u64> = found.iter().map(|(number, ..)| *number).collect();
    // Several sessions count their runs separately: then the order of time counts, which is that of the names.
    let are_distinct = numbers.len() == found.len();
    let several = found.len() > 1;
    let run = |(at, (number, folder, inside)): (usize, (u64, PathBuf, Listing))| {
        let step = if are_distinct { number } else { at as u64 };
        let files = debug_files(&folder, &inside, problems, passed);
        TfRun { step: several.then_some(step), folder, files }
    };
    Ok(found.into_iter().enumerate().map(run).collect())
}

/// Whether a folder is that of a run.
fn has_device(listing: &Listing) -> bool {
    listing.folders.iter().any(|name| is_device_folder(name))
}

/// Whether a folder is that of a device.
fn is_device_folder(name: &str) -> bool {
    name.starts_with(DEVICE)
}

/// The number of a run of a session: `run_1794722146064463_0` is the first.
fn run_number(name: &str) -> Option<u64> {
    let (time, number) = name.strip_prefix("run_")?.split_once('_')?;
    digits(time).filter(|_| !time.is_empty() && !number.is_empty())?;
    digits(number)
}

/// The files of a run: of all of its devices, or of the one that the user named.
fn debug_files(
    folder: &Path,
    listing: &Listing,
    problems: &mut Problems,
    passed: &mut PassedOver,
) -> Vec<TfFile> {
    let mut files = Vec::new();
    let devices: Vec<&String> = listing.folders.iter().filter(|name| is_device_folder(name)).collect();
    if devices.is_empty() {
        collect(folder, Path::new(""), &PathBuf::new(), &mut files, problems, passed);
    }
    for device in devices {
        collect(folder, Path::new(device), &PathBuf::new(), &mut files, problems, passed);
    }
    files
}

/// The files below a folder of a device; folders are the scopes of operators.
fn collect(
    folder: &Path,
    device: &Path,
    scope: &Path,
    files: &mut Vec<TfFile>,
    problems: &mut Problems,
    passed: &mut PassedOver,
) {
    let here = folder.join(device).join(scope);
    let listing = match Listing::read(&here) {
        Ok(listing) => listing,
        Err(error) => return problems.add(&error),
    };
    for name in &listing.files {
        let below = scope.join(name);
        let node_path = below.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        match DebugFileName::parse(&node_path) {
            Some(DebugFileName { node, output, time }) => {
                files.push(TfFile { path: device.join(&below), node, output, time, is_array: false });
            }
            None if name.starts_with(ABOUT) => {}
            None => passed.file(&here.join(name)),
        }
    }
    passed.not_files(&here, &listing);
    if scope.iter().count() < MAX_DEPTH {
        for name in &listing.folders {
            collect(folder, device, &scope.join(name), files, problems, passed);
        }
    }
}
