//! Whether two runs were captured alike: compares their levels and ledgers, in every style.
//!
//! A call that one run left out looks like one that the other never made. So the user is warned if the ledgers
//! disagree. Dumps of other tools have no ledger, and get no warning.

use std::collections::BTreeMap;

use ulpscope_dump::{Ledger, Rank};

use crate::note::{CountDifference, Counted, Note};

/// Differences and failed calls shown; a ledger may have many more.
const SHOWN: usize = 8;

/// Characters shown of a text in a ledger.
const SHOWN_TEXT: usize = 300;

/// Notes on how the two ranks were captured.
pub(crate) fn notes(target: &Rank, golden: &Rank) -> Vec<Note> {
    let mut notes = Vec::new();
    let ledgers = [target, golden].map(Rank::ledger);
    for (rank, ledger) in [target, golden].iter().zip(&ledgers) {
        let path = rank.path.display().to_string();
        if rank.is_journal() {
            notes.push(Note::Killed { path: path.clone() });
        }
        let Some(ledger) = ledger else { continue };
        if let Some(why) = &ledger.ended {
            notes.push(Note::EndedEarly { path: path.clone(), why: shortened(why) });
        }
        if !ledger.failed.is_empty() {
            let which = listed(ledger.failed.iter().map(|(call, _)| shortened(call)));
            let calls = ledger.failed_calls();
            notes.push(Note::CallsNotRecorded { path: path.clone(), calls, which });
        }
        if !ledger.unread.is_empty() {
            let why = listed(ledger.unread.iter().map(|(why, _)| shortened(why)));
            notes.push(Note::TensorsNotRead { path, tensors: ledger.unread_tensors(), why });
        }
    }
    notes.extend(unlike(target, golden, &ledgers));
    if let [Some(one), Some(other)] = &ledgers {
        for (rank, own, others) in [(target, one, other), (golden, other, one)] {
            let alone: Vec<&String> = own.notes.iter().filter(|note| !others.notes.contains(note)).collect();
            if !alone.is_empty() {
                let path = rank.path.display().to_string();
                let notes_alone = listed(alone.into_iter().map(|note| shortened(note)));
                notes.push(Note::CaptureNotes { path, notes: notes_alone });
            }
        }
    }
    notes
}

/// How two captures differ. Captures at different levels see different calls: their counts say nothing more.
fn unlike(target: &Rank, golden: &Rank, ledgers: &[Option<Ledger>; 2]) -> Option<Note> {
    if let (Some(level), Some(other)) = (&target.level, &golden.level)
        && level != other
    {
        return Some(Note::LevelsDiffer { target: level.clone(), golden: other.clone() });
    }
    let [Some(one), Some(other)] = ledgers else { return None };
    let mut counts = differences(one, other);
    let more = counts.len().saturating_sub(SHOWN) as u64;
    counts.truncate(SHOWN);
    let paths = [target, golden].map(|rank| rank.path.display().to_string());
    (!counts.is_empty()).then_some(Note::CountsDiffer { paths, counts, more })
}

/// Where the counts of two ledgers disagree.
fn differences(one: &Ledger, other: &Ledger) -> Vec<CountDifference> {
    let mut skipped: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (reason, count) in &one.skipped {
        skipped.entry(reason).or_default().0 = *count;
    }
    for (reason, count) in &other.skipped {
        skipped.entry(reason).or_default().1 = *count;
    }
    let counts =
        [(Counted::Seen, (one.seen, other.seen)), (Counted::Recorded, (one.recorded, other.recorded))];
    let skipped = skipped.into_iter().map(|(reason, both)| (Counted::Skipped(shortened(reason)), both));
    let differ = counts.into_iter().chain(skipped).filter(|(_, (one, other))| one != other);
    differ.map(|(counted, (target, golden))| CountDifference { counted, target, golden }).collect()
}

/// The first few of a list, and how many more there are.
fn listed(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = all.len().saturating_sub(SHOWN);
    let text = all.take(SHOWN).collect::<Vec<String>>().join("; ");
    if more == 0 { text } else { format!("{text}; and {more} more") }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
