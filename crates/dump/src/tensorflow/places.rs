//! Where the debugger's files are.

use std::path::{Path, PathBuf};

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

/// Whether a folder is that of a device.
pub(crate) fn is_device_folder(name: &str) -> bool {
    name.starts_with(DEVICE)
}

/// The number of a run of a session: `run_1794722146064463_0` is the first.
pub(crate) fn run_number(name: &str) -> Option<u64> {
    let (time, number) = name.strip_prefix("run_")?.split_once('_')?;
    digits(time).filter(|_| !time.is_empty() && !number.is_empty())?;
    digits(number)
}

/// The files of a run: of all of its devices, or of the one that the user named.
pub(crate) fn debug_files(
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
