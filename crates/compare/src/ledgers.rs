//! Whether two runs were captured alike: compares their levels and ledgers, in every style.
//!
//! A call that one run left out looks like one that the other never made. So the user is warned if the ledgers
//! disagree. Dumps of other tools have no ledger, and get no warning.

use std::collections::BTreeMap;

use ulpscope_dump::{Ledger, Rank};

/// Differences and failed calls shown; a ledger may have many more.
const SHOWN: usize = 8;

/// Characters shown of a text in a ledger.
const SHOWN_TEXT: usize = 300;

/// Notes on how the two ranks were captured.
pub(crate) fn notes(target: &Rank, golden: &Rank) -> Vec<String> {
    let mut notes = Vec::new();
    let ledgers = [target, golden].map(Rank::ledger);
    for (rank, ledger) in [target, golden].iter().zip(&ledgers) {
        let path = rank.path.display();
        if rank.is_journal() {
            notes.push(format!(
                "{path}: the run was killed before the step was over, or is still going: this is what it had recorded"
            ));
        }
        let Some(ledger) = ledger else { continue };
        if let Some(why) = &ledger.ended {
            notes
                .push(format!("{path}: capture ended early, so later calls are missing: {}", shortened(why)));
        }
        if !ledger.failed.is_empty() {
            let which = listed(ledger.failed.iter().map(|(call, _)| shortened(call)));
            let calls = counted(ledger.failed_calls(), "call");
            notes.push(format!("{path}: {calls} could not be recorded: {which}"));
        }
        if !ledger.unread.is_empty() {
            let why = listed(ledger.unread.iter().map(|(why, _)| shortened(why)));
            let tensors = counted(ledger.unread_tensors(), "tensor");
            notes.push(format!("{path}: {tensors} could not be read: {why}"));
        }
    }
    notes.extend(unlike(target, golden, &ledgers));
    if let [Some(one), Some(other)] = &ledgers {
        let paths = (target.path.display(), golden.path.display());
        for (path, own, others) in [(paths.0, one, other), (paths.1, other, one)] {
            let alone: Vec<&String> = own.notes.iter().filter(|note| !others.notes.contains(note)).collect();
            if !alone.is_empty() {
                let alone = listed(alone.into_iter().map(|note| shortened(note)));
                notes.push(format!("{path}: its capture notes, and the other does not: {alone}"));
            }
        }
    }
    notes
}

/// How two captures differ, and what to do about it.
fn unlike(target: &Rank, golden: &Rank, ledgers: &[Option<Ledger>; 2]) -> Option<String> {
    let counts = match ledgers {
        [Some(one), Some(other)] => differences(one, other),
        _ => Vec::new(),
    };
    let paths = format!("{} and {}", target.path.display(), golden.path.display());
    if let (Some(level), Some(other)) = (&target.level, &golden.level)
        && level != other
    {
        let settings = [format!("level {level} against {other}")];
        let told = listed(settings.into_iter().chain(counts).collect::<Vec<String>>().into_iter());
        return Some(format!(
            "{paths} were not captured alike: {told}. What one level leaves out has no counterpart: capture both sides with the \
             same level"
        ));
    }
    (!counts.is_empty()).then(|| {
        format!(
            "{paths}: the two runs did not make the same calls: {}. See what has no counterpart, or whether both sides were captured \
             with the same selection",
            listed(counts.into_iter())
        )
    })
}

/// Where the counts of two ledgers disagree: `calls seen 120 against 118`.
fn differences(one: &Ledger, other: &Ledger) -> Vec<String> {
    let mut counts = vec![
        ("calls seen".to_owned(), (one.seen, other.seen)),
        ("recorded".to_owned(), (one.recorded, other.recorded)),
    ];
    let mut skipped: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (reason, count) in &one.skipped {
        skipped.entry(reason).or_default().0 = *count;
    }
    for (reason, count) in &other.skipped {
        skipped.entry(reason).or_default().1 = *count;
    }
    counts
        .extend(skipped.into_iter().map(|(reason, both)| (format!("skipped ({})", shortened(reason)), both)));
    let differ = counts.into_iter().filter(|(_, (one, other))| one != other);
    differ.map(|(what, (one, other))| format!("{what} {one} against {other}")).collect()
}

fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
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
