//! The folder of answers: what was compared, and from what.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ulpscope_dump::Inputs;
use ulpscope_formats::file::Unfinished;

use super::answer::UnitAnswer;
use super::job::RowTargets;
use crate::{Request, timestamp};

/// Changes with every incompatible change of an answer or of the manifest.
pub(crate) const SCHEMA: &str = "ulpscope.units/1";

/// The folder, in that of the results.
const FOLDER: &str = "units";

const MANIFEST: &str = "manifest.json";

/// The folder of answers.
#[derive(Debug)]
pub struct UnitStore {
    folder: PathBuf,
    /// In the names of the sheets; that of the first start.
    pub(crate) timestamp: String,
    /// Whether answers of an earlier start may be used.
    is_resumed: bool,
}

/// What all answers have in common.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    schema: String,
    ulpscope: String,
    timestamp: String,
    settings: serde_json::Value,
}

/// What an answer of a comparison depends on besides its inputs.
pub(crate) fn compare_settings(
    request: &Request,
    rows: &RowTargets,
    move_limit: u64,
) -> io::Result<serde_json::Value> {
    let mut request = serde_json::to_value(request)?;
    if let Some(fields) = request.as_object_mut() {
        // Which ranks are compared may grow; how the summary speaks may change.
        fields.remove("select");
        fields.remove("language");
    }
    Ok(serde_json::json!({
        "request": request,
        "formats": rows.formats,
        "all_rows": rows.all_rows,
        "move_limit": move_limit,
    }))
}

impl UnitStore {
    /// Opens the folder of answers in a folder of results. With `resume`, answers of an earlier start are used if the
    /// settings are the same; without, they are removed.
    pub(crate) fn open(results: &Path, settings: serde_json::Value, resume: bool) -> io::Result<UnitStore> {
        let folder = results.join(FOLDER);
        if resume && let Some(known) = Manifest::read(&folder)? {
            if known.settings != settings {
                return Err(io::Error::other(format!(
                    "{}: what is to be resumed has other settings: resume it with the same options and paths, name a \
                     different folder, or start again without --resume",
                    folder.join(MANIFEST).display()
                )));
            }
            return Ok(UnitStore { folder, timestamp: known.timestamp, is_resumed: true });
        }
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        let timestamp = timestamp::now(Some(results));
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            ulpscope: env!("CARGO_PKG_VERSION").to_owned(),
            timestamp: timestamp.clone(),
            settings,
        };
        save(&folder.join(MANIFEST), &serde_json::to_vec_pretty(&manifest)?)?;
        Ok(UnitStore { folder, timestamp, is_resumed: false })
    }

    /// The answer of an earlier start, if it is one and its inputs are unchanged.
    pub(crate) fn usable(&self, unit: &str, inputs: &[Inputs]) -> bool {
        let Some((answer, _)) = self.is_resumed.then(|| self.read(unit).ok()).flatten() else { return false };
        // A sheet may have been moved away.
        let answer: UnitAnswer = answer;
        !answer.is_error()
            && answer.failures.is_empty()
            && answer.inputs == inputs
            && answer.files.iter().all(|file| file.exists())
    }

    /// Saves an answer: the rows first, so that an answer always has its rows.
    pub(crate) fn save(&self, unit: &str, answer: &[u8], rows: &[u8]) -> io::Result<()> {
        save(&self.rows_file(unit), rows)?;
        save(&self.answer_file(unit), answer)
    }

    /// An answer and its rows.
    pub(crate) fn read<R: DeserializeOwned>(&self, unit: &str) -> io::Result<(UnitAnswer<R>, Vec<u8>)> {
        let path = self.answer_file(unit);
        let answer = UnitAnswer::<R>::parse(&fs::read(&path)?);
        let answer = answer.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        if answer.unit != unit {
            return Err(io::Error::other(format!("{}: the answer of {}", path.display(), answer.unit)));
        }
        Ok((answer, fs::read(self.rows_file(unit))?))
    }

    fn answer_file(&self, unit: &str) -> PathBuf {
        self.folder.join(format!("{unit}.json"))
    }

    fn rows_file(&self, unit: &str) -> PathBuf {
        self.folder.join(format!("{unit}.rows"))
    }
}

impl Manifest {
    /// `None` if there is none, or a different release wrote it.
    fn read(folder: &Path) -> io::Result<Option<Manifest>> {
        let text = match fs::read(folder.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let manifest: Option<Manifest> = serde_json::from_slice(&text).ok();
        let is_own = |one: &Manifest| one.schema == SCHEMA && one.ulpscope == env!("CARGO_PKG_VERSION");
        Ok(manifest.filter(is_own))
    }
}

/// Removes the answers of an earlier comparison, and nothing else.
fn remove(folder: &Path) -> io::Result<()> {
    let items = match fs::read_dir(folder) {
        Ok(items) => items,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for item in items {
        let path = item?.path();
        if path.extension().is_some_and(|suffix| ["json", "jsonl", "rows"].iter().any(|own| suffix == *own)) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Writes a file completely or not at all, and waits until it is on disk.
fn save(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = Unfinished::create(path)?;
    unfinished.file().write_all(bytes)?;
    unfinished.file().sync_all()?;
    unfinished.finish()
}
