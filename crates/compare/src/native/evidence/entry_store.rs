//! The entries of all units, in a few large pieces of memory.
//!
//! Entries are kept until the end of a comparison, while rows are made and dropped all the time. Small pieces of memory of both
//! kinds lie side by side: then little of what rows leave behind can be used again, and the allocator searches long for it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence};

/// Entries of a piece.
const PIECE: usize = 1 << 14;

/// Units whose entries are changed together.
const CHANGED_TOGETHER: usize = 1 << 12;

/// The entries of a unit.
#[derive(Clone, Debug)]
pub(in crate::native) struct EntrySlice {
    piece: Arc<Vec<EntryEvidence>>,
    start: u32,
    count: u32,
}

impl Deref for EntrySlice {
    type Target = [EntryEvidence];

    fn deref(&self) -> &[EntryEvidence] {
        &self.piece[self.start as usize..][..self.count as usize]
    }
}

impl<'a> IntoIterator for &'a EntrySlice {
    type Item = &'a EntryEvidence;
    type IntoIter = std::slice::Iter<'a, EntryEvidence>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Where the entries of a unit are, while others are added.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::native) struct EntryRange {
    piece: u32,
    start: u32,
    count: u32,
}

/// The entries so far.
#[derive(Debug, Default)]
pub(in crate::native) struct EntryStore {
    pieces: Mutex<Vec<Vec<EntryEvidence>>>,
}

impl EntryStore {
    /// Adds the entries of a unit.
    pub(in crate::native) fn push(&self, entries: Vec<EntryEvidence>) -> EntryRange {
        // A thread that panicked has left whole entries behind.
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let count = entries.len();
        if pieces.last().is_none_or(|piece| piece.capacity() - piece.len() < count) {
            pieces.push(Vec::with_capacity(PIECE.max(count)));
        }
        let number = pieces.len() - 1;
        let piece = &mut pieces[number];
        let start = piece.len();
        piece.extend(entries);
        EntryRange { piece: number as u32, start: start as u32, count: count as u32 }
    }

    /// Ends adding.
    pub(in crate::native) fn into_pieces(self) -> EntryPieces {
        let pieces = self.pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
        EntryPieces(pieces.into_iter().map(Arc::new).collect())
    }
}

/// All entries.
#[derive(Debug)]
pub(in crate::native) struct EntryPieces(Vec<Arc<Vec<EntryEvidence>>>);

impl EntryPieces {
    pub(in crate::native) fn slice(&self, EntryRange { piece, start, count }: EntryRange) -> EntrySlice {
        // Of a comparison without entries there is no piece.
        let piece = self.0.get(piece as usize).cloned().unwrap_or_default();
        EntrySlice { piece, start, count }
    }
}

/// Changes the entries of all units, in order.
pub(in crate::native) fn change(
    units: &mut [CallEvidence],
    mut change: impl FnMut(&CallEvidence, &mut [EntryEvidence]),
) {
    for group in units.chunks_mut(CHANGED_TOGETHER) {
        let mut entries: Vec<EntryEvidence> = group.iter().flat_map(|unit| &unit.entries).cloned().collect();
        let mut rest = entries.as_mut_slice();
        for unit in group.iter() {
            let (own, after) = rest.split_at_mut(unit.entries.len());
            change(unit, own);
            rest = after;
        }
        let piece = Arc::new(entries);
        let mut start = 0;
        for unit in group {
            let count = unit.entries.count;
            unit.entries = EntrySlice { piece: Arc::clone(&piece), start, count };
            start += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use ulpscope_dump::{CallKind, Content, Entry, Role};

    use super::*;
    use crate::native::evidence::call_evidence::{CallNumbers, NewEntry, Source};
    use crate::native::evidence::shared_traits::Shared;
    use crate::style::Side;

    fn units(counts: &[usize]) -> Vec<CallEvidence> {
        let (known, store) = (Shared::default(), EntryStore::default());
        let mut row = 0;
        let ranges: Vec<EntryRange> = counts
            .iter()
            .map(|&count| {
                let new = |_| {
                    let entry = Entry {
                        name: String::new(),
                        role: Role::Input,
                        path: "0".to_owned(),
                        content: Content::None,
                    };
                    row += 1;
                    NewEntry::lone(row, Side::Target, &entry, Source::Unsaid).sharing(&known)
                };
                store.push((0..count).map(new).collect())
            })
            .collect();
        let pieces = store.into_pieces();
        let unit = |entries: EntryRange| CallEvidence {
            calls: CallNumbers::of(None, None),
            kind: CallKind::Forward,
            entries,
            prints: None,
            adds_nothing: false,
            is_unread: false,
            is_left_out: false,
        };
        ranges.into_iter().map(|range| unit(range).with_entries(&pieces)).collect()
    }

    fn rows(units: &[CallEvidence]) -> Vec<u32> {
        units.iter().flat_map(|unit| &unit.entries).map(|entry| entry.row).collect()
    }

    #[test]
    fn each_unit_gets_its_entries_whatever_their_number() {
        let counts = [2, 0, PIECE, 3, PIECE + 1, 1];
        let units = units(&counts);
        assert_eq!(units.iter().map(|unit| unit.entries.len()).collect::<Vec<_>>(), counts);
        assert_eq!(rows(&units), (1..=counts.iter().sum::<usize>() as u32).collect::<Vec<_>>());
        assert!(EntryStore::default().into_pieces().slice(EntryRange::default()).is_empty());
    }

    #[test]
    fn a_change_reaches_the_entries_of_all_units() {
        let mut units = units(&vec![1; CHANGED_TOGETHER + 5]);
        let known = Shared::default();
        let before = rows(&units);
        change(&mut units, |_, entries| entries[0].set_source(Side::Golden, Source::Gradient(7), &known));
        let is_changed =
            |unit: &CallEvidence| unit.entries[0].sources() == [Source::Unsaid, Source::Gradient(7)];
        assert!(units.iter().all(is_changed));
        assert_eq!(rows(&units), before);
    }
}
