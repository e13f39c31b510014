//! One side of a comparison: which of its calls have rows, their keys for matching, and their rows.

use std::collections::HashMap;

use super::item::Item;
use ulpscope_dump::{CallKind, Entry, Error, Rank, Role};

/// The key that two paired calls share: base, kind, and which call of those it is. The tool counts backward calls in
/// order of appearance, because recomputation changes their numbers.
pub(crate) type CallKey<'a> = (&'a str, CallKind, Option<u32>);

/// A rank with the keys of its calls.
pub(crate) struct Calls<'a> {
    pub(crate) rank: &'a Rank,
    /// By number of call; `None` for calls that the tool skips.
    pub(crate) keys: Vec<Option<CallKey<'a>>>,
    saved: bool,
}

impl<'a> Calls<'a> {
    /// Finds the keys. `renumber`: backward calls are counted in order of appearance.
    pub(crate) fn new(rank: &'a Rank, renumber: bool) -> Calls<'a> {
        let saved = rank.level.as_deref() == Some("debug");
        let mut backward: HashMap<&str, u32> = HashMap::new();
        let keys = rank.calls().iter().map(|call| {
            let base = rank.base(call.base);
            let index = match call.kind {
                CallKind::Saved if !saved => return None,
                CallKind::Backward if renumber => {
                    let next = backward.entry(base).or_default();
                    let index = *next;
                    *next += 1;
                    call.index.map(|_| index)
                }
                _ => call.index,
            };
            Some((base, call.kind, index))
        });
        Calls { rank, keys: keys.collect(), saved }
    }

    /// The entries of a call that the tool has rows for.
    pub(crate) fn entries(&self, call: usize) -> Result<Vec<Entry>, Error> {
        let mut entries = self.rank.entries(call)?;
        entries.retain(|entry| (self.saved || entry.role != Role::Saved) && Item::is_shown(entry));
        Ok(entries)
    }

    /// What follows the name of the call in the name of a row.
    pub(crate) fn suffix<'n>(&self, call_name: &str, row: &'n str) -> &'n str {
        row.strip_prefix(call_name).unwrap_or(row)
    }

    /// The name a row is matched by: its own, with the number of a backward call put right.
    pub(crate) fn row_key(&self, call: usize, call_name: &str, row: &str) -> String {
        let renumbered = match self.keys[call] {
            Some((base, CallKind::Backward, Some(index))) => {
                // Modules have the direction before the number, APIs after it.
                if call_name.ends_with(".backward") {
                    format!("{base}.{index}.backward")
                } else {
                    format!("{base}.backward.{index}")
                }
            }
            _ => return row.to_owned(),
        };
        format!("{renumbered}{}", self.suffix(call_name, row))
    }
}
