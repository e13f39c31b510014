//! The documents of msprobe, in the folder of the journal.

use std::path::Path;

use ulpscope_formats::json::{self, Json, Layout as Indent};
use ulpscope_formats::{Error, file};

use super::FinishedStep;
use crate::ledger::LEDGER_FILE;

/// Makes `dump.json`, `stack.json`, `construct.json` and `ledger.json`; at level debug, `debug.json` and
/// `ledger.json`. Each is complete or absent, and the dump itself is written after all others.
pub(super) fn write(step: &FinishedStep<'_>) -> Result<(), Error> {
    let FinishedStep { folder, documents, .. } = step;
    let outline = documents.outline;
    if !outline.is_debug() {
        file::write_with(&folder.join("stack.json"), |out| documents.stacks(out))?;
        file::write_with(&folder.join("construct.json"), |out| documents.parents(out))?;
    }
    step.write_ledger()?;
    let name = if outline.is_debug() { "debug.json" } else { "dump.json" };
    file::write_with(&folder.join(name), |out| documents.journal.reading(|| documents.dump(out)))
}

/// Writes the ledger of a step.
pub(in crate::journal) fn write_ledger(folder: &Path, ledger: &Json) -> Result<(), Error> {
    file::write_with(&folder.join(LEDGER_FILE), |out| {
        json::write(ledger, Indent::Indented(1), out)?;
        out.write_all(b"\n").map_err(Error::whole)
    })
}
