//! Opens a journal as a rank: the records of a killed run.
//!
//! The documents that the end of the step would have made are made now, in nameless files: a journal may be
//! larger than memory, its folder may not be writable, and reading a dump must leave no files.

use std::io::{BufWriter, Write};
use std::path::Path;

use ulpscope_formats::json;
use ulpscope_formats::{Access, Bytes, Error, Fault, file};

use super::documents::Documents;
use super::encode::rooms::count_pending;
use super::line::shown;
use super::outline::Outline;
use super::scan::{self, Trust};
use crate::call::CallKind;
use crate::companion::Companion;
use crate::ledger::Ledger;
use crate::msprobe::{self, Beside};
use crate::rank::Rank;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// Maximum names of running calls that are reported beside the innermost.
const SHOWN: usize = 8;

/// Opens a journal.
pub(crate) fn open(path: &Path) -> Result<Rank, Error> {
    let journal = Bytes::map(path, Access::ReadOnly)?;
    journal.reading(|| read(path, &journal))
}

fn read(path: &Path, journal: &Bytes) -> Result<Rank, Error> {
    let mut outline = scan::scan(journal, path, Trust::Foreign)?;
    let running = running(&outline, journal);
    let mut notes = if outline.is_over { Vec::new() } else { how_it_ended(&outline, &running, path) };
    notes.extend(without_numbers(&outline, journal, path));
    let ledger = outline
        .ledger
        .map(|ledger| json::read(ledger.of(journal)).and_then(|ledger| Ledger::from_json(&ledger)));
    let ledger = match ledger.transpose() {
        Ok(ledger) => ledger,
        Err(error) => {
            outline.problems.add(&error.in_part("the ledger").in_file(path));
            None
        }
    };
    let problems = std::mem::take(&mut outline.problems);
    let documents = Documents { journal, outline: &outline };
    let made = |document: &dyn Fn(&mut dyn Write) -> Result<(), Error>| {
        made(path, document).map_err(|error| error.in_file(path))
    };
    let dump = made(&|out| documents.dump(out))?;
    let mut beside = Beside::made(path, ledger);
    beside.is_over = outline.is_over;
    beside.running = running.into_iter().collect();
    beside.notes = notes;
    if !outline.is_debug() {
        beside.stacks = Companion::made(path, made(&|out| documents.stacks(out))?);
        beside.parents = Companion::made(path, made(&|out| documents.parents(out))?);
    }
    msprobe::assemble(path, dump, beside, problems)
}

/// How the run ended, if it did not end normally.
fn how_it_ended(outline: &Outline, running: &[String], path: &Path) -> Vec<String> {
    let path = path.display();
    let ended = inside(running).map(|calls| format!("{path}: the run ended inside {calls}"));
    let torn = outline.torn.as_ref();
    let torn = torn.map(|torn| format!("{path}: the run ended while it wrote {torn}: it is left out"));
    let is_over = outline.ledger.is_some() || ended.is_some() || torn.is_some();
    let before = (!is_over).then(|| format!("{path}: the run ended before the step was over"));
    [torn, ended, before].into_iter().flatten().collect()
}

/// A note on the tensors whose numbers had not arrived from their device.
fn without_numbers(outline: &Outline, journal: &[u8], path: &Path) -> Option<String> {
    let parts = outline.calls.iter().flat_map(|call| outline.parts_of(call));
    let (path, end) = (path.display(), "their statistics are missing");
    match parts.map(|part| count_pending(part.of(journal))).sum::<usize>() {
        0 => None,
        1 => Some(format!("{path}: the numbers of 1 tensor had not arrived from its device: {end}")),
        count => {
            Some(format!("{path}: the numbers of {count} tensors had not arrived from their device: {end}"))
        }
    }
}

/// The names of the calls that were running, innermost first.
fn running(outline: &Outline, journal: &[u8]) -> Vec<String> {
    // Gradients of parameters are recorded one by one: the run is never inside of them.
    let calls = outline.running.iter().rev().map(|&call| &outline.calls[call as usize]);
    let calls = calls.filter(|call| call.kind != CallKind::ParametersGrad);
    let names = calls.filter_map(|call| json::read(call.name.of(journal)).ok());
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// A description of where the run ended.
fn inside(running: &[String]) -> Option<String> {
    let (innermost, around) = running.split_first()?;
    let innermost = shown(innermost);
    let (around, more) = around.split_at(around.len().min(SHOWN));
    let around = around.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    Some(match (around.is_empty(), more.len()) {
        (true, _) => innermost,
        (false, 0) => format!("{innermost}, and {around}"),
        (false, more) => format!("{innermost}, and {around} and {more} more"),
    })
}

/// Makes a document: in the folder of the journal, which has space for dumps, or else in the system's folder for
/// temporary files.
pub(super) fn made(
    path: &Path,
    document: &dyn Fn(&mut dyn Write) -> Result<(), Error>,
) -> Result<Bytes, Error> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    made_in(folder, document).or_else(|_| {
        let folder = std::env::temp_dir();
        made_in(&folder, document).map_err(|error| match error.fault {
            Fault::Io(error) => {
                let message = format!(
                    "its documents cannot be written, neither beside it nor in {}: {error}",
                    folder.display()
                );
                Error::whole(Fault::Unsupported(message))
            }
            _ => error,
        })
    })
}

fn made_in(folder: &Path, document: &dyn Fn(&mut dyn Write) -> Result<(), Error>) -> Result<Bytes, Error> {
    let file = file::nameless(folder).map_err(Error::whole)?;
    let mut out = BufWriter::with_capacity(BUFFER, &file);
    document(&mut out)?;
    out.flush().map_err(Error::whole)?;
    drop(out);
    Bytes::map_file(&file, Access::ReadOnly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_can_be_written_documents_are_made_elsewhere() {
        let write = |out: &mut dyn Write| out.write_all(b"text").map_err(Error::whole);
        let document = made(Path::new("no/such/folder/journal.jsonl"), &write);
        assert_eq!(document.map(|bytes| bytes.to_vec()).ok().as_deref(), Some(b"text".as_slice()));
    }
}
