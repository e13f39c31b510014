//! `DUMP:ENTRY`: one tensor of a dump, where a command line or a function takes the path of a tensor file.
//!
//! DUMP is anything that can be opened as a dump: the folder of a run, of a step or of a rank, or a file. ENTRY is the
//! name of an entry, `Functional.linear.0.forward.input.0`. A path that exists is always itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ulpscope_formats::{Error, Fault, Tensor, storage};

use crate::entry::{Content, Entry};
use crate::rank::Rank;
use crate::tree::{Dump, Select};

/// Maximum places in a message.
const SHOWN: usize = 4;

/// The two parts of an address; nothing if the path exists, or nothing exists before a colon in it.
fn split(path: &Path) -> Option<(PathBuf, &str)> {
    let text = path.to_str()?;
    // What cannot be asked about is not an address: opening it reports why.
    let is_missing = || {
        storage::about_itself(path)
            .is_err_and(|error| !storage::is_remote(path) || error.kind() == ErrorKind::NotFound)
    };
    if !text.contains(':') || !is_missing() {
        return None;
    }
    // The longest path that exists: folders may have colons in their names, times for example.
    let colons = text.rmatch_indices(':').map(|(at, _)| at);
    let ends = colons.filter(|&at| at > 0 && at + 1 < text.len() && !text[at..].starts_with("://"));
    ends.map(|at| (PathBuf::from(&text[..at]), &text[at + 1..])).find(|(dump, _)| storage::exists(dump))
}

/// Whether a path is the address of an entry.
pub(crate) fn is_address(path: &Path) -> bool {
    split(path).is_some()
}

/// The address of an entry.
pub(crate) fn of_entry(dump: &Path, entry: &str) -> PathBuf {
    let mut address = dump.as_os_str().to_owned();
    address.push(":");
    address.push(entry);
    address.into()
}

/// The tensor that a path addresses; nothing if it is not an address.
pub fn tensor_at(path: &Path) -> Result<Option<Tensor>, Error> {
    let Some((dump, name)) = split(path) else { return Ok(None) };
    let in_address = |message: String| Error::whole(Fault::Unsupported(message)).in_file(path);
    let mut found: Vec<(PathBuf, Tensor)> = Vec::new();
    let mut why_not = None;
    for place in Dump::open(&dump, &Select::default())?.steps.iter().flat_map(|step| &step.ranks) {
        // A rank that cannot be read does not hide the tensor of a different one.
        match place.open().and_then(|rank| tensor_in(&rank, name)) {
            Ok(Some(tensor)) => found.push((place.path().to_owned(), tensor)),
            Ok(None) => {}
            Err(error) => why_not = Some(error),
        }
    }
    if found.len() > 1 {
        let folder = |place: &Path| match storage::is_folder(place) {
            true => place.to_owned(),
            false => place.parent().unwrap_or(Path::new("")).to_owned(),
        };
        let mut places: Vec<String> = found
            .iter()
            .take(SHOWN)
            .map(|(place, _)| of_entry(&folder(place), name).display().to_string())
            .collect();
        if found.len() > SHOWN {
            places.push(format!("{} more", found.len() - SHOWN));
        }
        return Err(in_address(format!("names several tensors; name one of them: {}", places.join(", "))));
    }
    match (found.pop(), why_not) {
        (Some((_, tensor)), _) => Ok(Some(tensor)),
        (None, Some(error)) => Err(error),
        (None, None) => {
            let message =
                format!("{} has no entry of this name: ulpscope ls shows its calls", dump.display());
            Err(in_address(message))
        }
    }
}

/// The tensor of an entry of a rank; nothing if there is no such entry.
fn tensor_in(rank: &Rank, name: &str) -> Result<Option<Tensor>, Error> {
    let calls = 0..rank.calls().len();
    // Most entries begin with the name of their call; those of the oldest tools do not.
    let is_near = |&call: &usize| name.starts_with(&rank.name(call));
    let near = calls.clone().filter(is_near).find_map(|call| entry_of(rank, call, name));
    let Some(entry) = near.or_else(|| calls.into_iter().find_map(|call| entry_of(rank, call, name))) else {
        return Ok(None);
    };
    let refused = |message: &str| {
        Error::whole(Fault::Unsupported(message.to_owned())).in_part(name).in_file(&rank.path)
    };
    let Content::Tensor(tensor) = &entry.content else { return Err(refused("is not a tensor")) };
    let elements = rank.tensor(tensor)?;
    elements.map(Some).ok_or_else(|| refused("has statistics only: record it with task=tensor"))
}

/// An entry of a call by its name: that of its tool, or the call's with role and position.
fn entry_of(rank: &Rank, call: usize, name: &str) -> Option<Entry> {
    // What cannot be read is not the entry that was asked for.
    let entries = rank.entries(call).ok()?;
    let plain = |entry: &Entry| {
        let rest = name.strip_prefix(rank.name(call).as_str())?;
        let rest = rest.strip_prefix('.')?.strip_prefix(entry.role.word())?;
        Some(rest.strip_prefix('.').unwrap_or(rest) == entry.path)
    };
    entries.into_iter().find(|entry| entry.name == name || plain(entry) == Some(true))
}
