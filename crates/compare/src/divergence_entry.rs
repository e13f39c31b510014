//! Facts from the two dumps about the entry that shows a divergence: its source, dtype and files.
//!
//! Looked up only for calls that introduced an error, so that an explanation can name the next thing to look at.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Content, Entry, Rank, Role};

/// The entry that shows a divergence. The first of two is the target's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DivergenceEntry {
    /// Whether it is an input of the call, and not an output.
    pub is_taken: bool,
    /// Where it comes from, as the dump says: `parameter:fc.weight`, `buffer:bn.running_mean`, `outside`, an entry of
    /// another call.
    pub source: Option<String>,
    /// The same for each side.
    pub sources: [Option<String>; 2],
    /// The dtypes.
    pub dtypes: [Option<String>; 2],
    /// How to name the elements on a command line: their files, or `DUMP:ENTRY`.
    pub files: [Option<PathBuf>; 2],
}

/// A call in a dump.
pub(crate) type Place<'a> = (&'a Rank, Option<usize>);

impl DivergenceEntry {
    /// Looks up an entry by its name, in the target or else in the golden, and its counterpart by role and position.
    pub(crate) fn of(name: &str, target: Place<'_>, golden: Place<'_>) -> DivergenceEntry {
        let entries = [target, golden].map(|(rank, call)| {
            // Read errors were reported when the call was compared.
            call.and_then(|call| rank.entries(call).ok()).unwrap_or_default()
        });
        let Some(named) = entries.iter().flatten().find(|entry| entry.name == name) else {
            return DivergenceEntry::default();
        };
        let same = |entry: &&Entry| entry.role == named.role && entry.path == named.path;
        let found = [0, 1].map(|side| entries[side].iter().find(same));
        let tensors = found.map(|entry| match entry.map(|entry| &entry.content) {
            Some(Content::Tensor(tensor)) => Some(tensor),
            _ => None,
        });
        let short = |dtype: &str| dtype.strip_prefix("torch.").unwrap_or(dtype).to_owned();
        DivergenceEntry {
            is_taken: matches!(named.role, Role::Input | Role::Parameter),
            sources: tensors.map(|tensor| tensor.and_then(|tensor| tensor.source.clone())),
            source: tensors.iter().flatten().find_map(|tensor| tensor.source.clone()),
            dtypes: tensors.map(|tensor| tensor.map(|tensor| short(&tensor.dtype))),
            files: [0, 1]
                .map(|side| found[side].and_then(|entry| [target, golden][side].0.tensor_address(entry))),
        }
    }
}
