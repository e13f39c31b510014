//! What a comparison could not see, in words: the limits within which its verdict holds.

use std::collections::HashSet;

use ulpscope_compare::Class;

use crate::explanation::calls;
use crate::{Compared, rank_label, unpaired};

/// Notes that are repeated; all of them are in `result.json`.
const SHOWN: usize = 4;

/// One line for each thing.
pub(super) fn lines<S>(compared: &Compared<S>) -> Vec<String> {
    let mut lines = Vec::new();
    let several = compared.ranks.len() > 1;
    for (rank, error) in compared.errors() {
        let label = rank_label(rank, several);
        lines.push(if label.is_empty() {
            format!("Nothing was compared: {error}")
        } else {
            format!("{label} was not compared: {error}")
        });
    }
    lines.extend(compared.lone_ranks.iter().map(|lone| format!("{lone}.")));
    let bytes = compared.outcomes().fold(0u64, |sum, outcome| sum.saturating_add(outcome.bytes));
    if bytes == 0 && compared.counts().rows > 0 {
        lines.push(
            "No elements were compared, only what the dumps say of their tensors (statistics or digests): \
             reordered elements, and errors that leave these alone, do not show."
                .to_owned(),
        );
    }
    lines.extend(partnerless(compared));
    let classes = compared.classes().unwrap_or_default();
    if classes.of(Class::NotComparable) > 0 {
        lines.push(format!(
            "{} could not be judged: too little was recorded of them, or they work on other shapes.",
            calls(classes.of(Class::NotComparable))
        ));
    }
    let undecided: u64 = compared.outcomes().map(|outcome| outcome.undecided).sum();
    if undecided > 0 {
        let rows = if undecided == 1 { "1 row".to_owned() } else { format!("{undecided} rows") };
        lines.push(format!(
            "{rows} of tensors could not be judged: NaN on both sides, or nothing to compare."
        ));
    }
    if compared.problem_count() > 0 {
        let listed = compared.problems.listed().first();
        let first = listed.or_else(|| compared.outcomes().find_map(|one| one.problems.listed().first()));
        let first = first.map(|first| format!(" The first: {first}")).unwrap_or_default();
        lines.push(format!("Could not be read: {}.{first}", compared.problem_count()));
    }
    lines.extend(notes(compared));
    lines
}

fn partnerless<S>(compared: &Compared<S>) -> Option<String> {
    let first = compared.outcomes().find_map(|outcome| outcome.partnerless.first())?;
    let counted = unpaired::counted(compared)?;
    let judged = match compared.agreement.is_agree() {
        true => "No counterpart, but the results computed from it agree",
        false => "Not compared (no counterpart)",
    };
    Some(format!("{judged}: {counted}. The first: {} ({}).", first.name, first.side.word()))
}

/// What is to know of how the dumps were made and read. That there are no tensors has been said.
fn notes<S>(compared: &Compared<S>) -> Vec<String> {
    let mut notes: Vec<&String> = Vec::new();
    let mut known = HashSet::new();
    let of_ranks = compared.outcomes().flat_map(|outcome| &outcome.notes);
    for note in compared.notes.iter().chain(of_ranks) {
        if known.insert(note) && !note.starts_with("compared by statistics") {
            notes.push(note);
        }
    }
    let more = notes.len().saturating_sub(SHOWN);
    let mut lines: Vec<String> = notes.into_iter().take(SHOWN).map(|note| format!("Note: {note}")).collect();
    if more > 0 {
        let notes = if more == 1 { "note" } else { "notes" };
        lines.push(format!("and {more} more {notes} in result.json"));
    }
    lines
}
