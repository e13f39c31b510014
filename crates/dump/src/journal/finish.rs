//! The end of a step: replaces the journal by the documents.

use std::fs;
use std::path::Path;

use ulpscope_formats::json::{self, Json};
use ulpscope_formats::{Access, Bytes, Error, Fault};

use super::JOURNAL_FILE;
use super::documents::Documents;
use super::layouts::{FinishedStep, Layout, write_ledger};
use super::scan::{self, Trust};
use crate::ledger::LEDGER_FILE;
use crate::writer::folder::check_rank_folder;

/// Turns the journal in the folder of a rank into `dump.json`, `stack.json`, `construct.json` and `ledger.json` (at
/// level debug, `debug.json` and `ledger.json`), and removes it.
///
/// Each file is complete or absent. The dump itself is written after all others, and the journal is removed last:
/// whenever the process is killed, there is a journal or a whole dump.
///
/// Lines that cannot be read are left out and noted in the ledger. Without a ledger the journal is kept, and the
/// first unreadable line is the error: the journal can still be read as a dump.
pub fn finish(folder: &Path) -> Result<(), Error> {
    make(folder, &Layout::Msprobe, Trust::Foreign)?;
    remove(folder)
}

/// Makes the files of a layout from a journal that this process wrote, and keeps the journal: its step may continue.
pub fn make_dump(folder: &Path, layout: &Layout) -> Result<(), Error> {
    make(folder, layout, Trust::Own)
}

/// Removes the journal of a rank after its dump has been made.
pub fn remove(folder: &Path) -> Result<(), Error> {
    let path = folder.join(JOURNAL_FILE);
    fs::remove_file(&path).map_err(|error| Error::whole(error).in_file(&path))
}

/// Adds a note to the ledger of a step that has ended.
pub fn add_note(folder: &Path, note: &str) -> Result<(), Error> {
    refuse_links(folder)?;
    let path = folder.join(LEDGER_FILE);
    let bytes = Bytes::map(&path, Access::ReadOnly)?;
    let mut ledger = json::read(&bytes).map_err(|error| error.in_file(&path))?;
    if let Json::Object(pairs) = &mut ledger
        && let Some((_, Json::List(notes))) = pairs.iter_mut().find(|(key, _)| key == "notes")
    {
        notes.push(Json::Str(note.to_owned()));
    }
    write_ledger(folder, &ledger)
}

/// Fails if a folder was replaced by a link since it was made.
fn refuse_links(folder: &Path) -> Result<(), Error> {
    check_rank_folder(folder).map_err(Error::whole)
}

fn make(folder: &Path, layout: &Layout, trust: Trust) -> Result<(), Error> {
    if trust == Trust::Own {
        refuse_links(folder)?;
    }
    let path = folder.join(JOURNAL_FILE);
    let journal = Bytes::map(&path, Access::ReadOnly)?;
    let mut outline = journal.reading(|| scan::scan(&journal, &path, trust))?;
    if trust == Trust::Own {
        outline.lies_in(folder);
    }
    let mut problems = std::mem::take(&mut outline.problems);
    if let Some(torn) = &outline.torn {
        problems.note(format!("{}: {torn}, is left out", path.display()));
    }
    if let (None, Some(first)) = (outline.ledger, problems.listed().first()) {
        let message = format!("{first}; the journal is left as it is, and can be read as a dump");
        return Err(Error::whole(Fault::Unsupported(message)));
    }
    let documents = Documents { journal: &journal, outline: &outline };
    let made = layout.write(&FinishedStep { folder, path: &path, documents, problems: &problems });
    if made.is_err() {
        // The journal may get a later ledger, and this one would contradict it.
        let _ = fs::remove_file(folder.join(LEDGER_FILE));
    }
    made
}
