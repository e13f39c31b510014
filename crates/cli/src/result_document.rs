//! Finds the `result.json` of a comparison.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};
use ulpscope_session::quoted;

use crate::walk::{leads_out, stays_within};

/// The file name of `compare`'s result.
pub(crate) const RESULT: &str = "result.json";

/// Whether a path is a result, and not a dump: a file of its name, or a folder with one in it or in a folder of it.
pub(crate) fn has_result(named: &Path) -> bool {
    if named.is_dir() {
        result_at(named).is_ok()
    } else {
        named.file_name().is_some_and(|name| name == RESULT)
    }
}

/// The result file: the named one, or the newest below a folder, which may hold several. Links out of the folder are
/// not followed.
pub(crate) fn result_at(named: &Path) -> anyhow::Result<PathBuf> {
    let kind = fs::metadata(named).with_context(|| format!("cannot read {}", named.display()))?;
    if !kind.is_dir() {
        return Ok(named.to_owned());
    }
    let listed = fs::read_dir(named).with_context(|| format!("cannot list {}", named.display()))?;
    let mut places = vec![named.join(RESULT)];
    for folder in listed {
        places.push(folder.with_context(|| format!("cannot list {}", named.display()))?.path().join(RESULT));
    }
    let mut found: Vec<(bool, SystemTime, PathBuf)> = Vec::new();
    let mut outside = Vec::new();
    for (number, path) in places.into_iter().enumerate() {
        match stays_within(named, &path) {
            Ok(true) => {
                let moment = fs::metadata(&path).and_then(|kind| kind.modified());
                // The folder's own result takes precedence over those in subfolders.
                found.push((number == 0, moment.unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
            Ok(false) if path.is_file() => outside.push(path),
            Ok(false) | Err(_) => {}
        }
    }
    if let Some((_, _, path)) = found.into_iter().max() {
        return Ok(path);
    }
    if let Some(path) = outside.first() {
        bail!("{}; name the file itself to read it", leads_out(path));
    }
    bail!(
        "{}: expected a {RESULT} in it or in a folder of it, found none; `ulpscope compare TARGET GOLDEN -o {}` writes one",
        named.display(),
        quoted(named)
    )
}
