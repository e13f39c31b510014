//! The limitations of a comparison: what its verdict does not cover.

use std::collections::HashSet;

use ulpscope_compare::{Class, ONLY_STATISTICS, Side};

use crate::statement::Statement;
use crate::{Compared, rank_label, unpaired};

/// Notes shown; all of them are in `result.json`.
const SHOWN: usize = 4;

/// One statement for each limitation.
pub(super) fn statements<S>(compared: &Compared<S>) -> Vec<Statement> {
    let mut said = Vec::new();
    let several = compared.ranks.len() > 1;
    for (rank, error) in compared.errors() {
        let label = Some(rank_label(rank, several)).filter(|label| !label.is_empty());
        said.push(Statement::NotCompared { rank: label, error: error.to_string() });
    }
    said.extend(compared.lone_ranks.iter().map(|lone| Statement::Note(lone.clone())));
    let bytes = compared.outcomes().fold(0u64, |sum, outcome| sum.saturating_add(outcome.bytes));
    if bytes == 0 && compared.counts().rows > 0 {
        said.push(Statement::NoElements);
    }
    if let Some(first) = compared.outcomes().find_map(|outcome| outcome.partnerless.first()) {
        said.push(Statement::Unpaired {
            results_agree: compared.agreement.is_agree(),
            target: unpaired::count(compared, Side::Target),
            golden: unpaired::count(compared, Side::Golden),
            first: first.name.clone(),
            side: first.side,
        });
    }
    let classes = compared.classes().unwrap_or_default();
    if classes.of(Class::NotComparable) > 0 {
        said.push(Statement::CallsNotJudged(classes.of(Class::NotComparable)));
    }
    let undecided: u64 = compared.outcomes().map(|outcome| outcome.undecided).sum();
    if undecided > 0 {
        said.push(Statement::RowsNotJudged(undecided));
    }
    if compared.problem_count() > 0 {
        let listed = compared.problems.listed().first();
        let first = listed.or_else(|| compared.outcomes().find_map(|one| one.problems.listed().first()));
        said.push(Statement::NotRead { count: compared.problem_count(), first: first.cloned() });
    }
    said.extend(notes(compared));
    said
}

/// Notes on how the dumps were made and read, except that no elements were compared.
fn notes<S>(compared: &Compared<S>) -> Vec<Statement> {
    let mut known = HashSet::new();
    let of_ranks = compared.outcomes().flat_map(|outcome| &outcome.notes);
    let notes = compared.notes.iter().chain(of_ranks).filter(|note| known.insert(note.as_str()));
    let notes: Vec<&String> = notes.filter(|note| *note != ONLY_STATISTICS).collect();
    let more = notes.len().saturating_sub(SHOWN);
    let mut said: Vec<Statement> =
        notes.into_iter().take(SHOWN).map(|note| Statement::Note(note.clone())).collect();
    if more > 0 {
        said.push(Statement::MoreNotes(more as u64));
    }
    said
}
