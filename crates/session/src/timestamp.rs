//! The time of a result, for its name.

use std::path::Path;

use jiff::{ToSpan, Zoned};

/// Local time as the older tools write it, `20261115093059`. A second that already has results in the folder is
/// skipped, so that nothing is replaced.
pub(crate) fn now(folder: Option<&Path>) -> String {
    let mut moment = Zoned::now();
    loop {
        let stamp = moment.strftime("%Y%m%d%H%M%S").to_string();
        let taken = folder.is_some_and(|folder| has_results(folder, &stamp));
        match (taken, moment.checked_add(1.second())) {
            (true, Ok(next)) => moment = next,
            _ => return stamp,
        }
    }
}

fn has_results(folder: &Path, stamp: &str) -> bool {
    let Ok(entries) = folder.read_dir() else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().contains(stamp))
}
