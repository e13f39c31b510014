//! The limitations of a comparison: what its verdict does not cover.

use std::collections::HashMap;

use ulpscope_compare::{Class, FindingKind, Note, Side};

use crate::statement::Statement;
use crate::{Compared, rank_label, unpaired};

/// Notes shown; all of them are in `result.json`.
const SHOWN: usize = 4;

/// One statement for each limitation. `levels_are_said`: whether it was said before that the capture levels differ.
pub(super) fn statements<S>(compared: &Compared<S>, levels_are_said: bool) -> Vec<Statement> {
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
    said.extend(notes(compared, levels_are_said));
    said
}

/// Whether a note is said before anything else: without it, the rest is misunderstood.
fn is_first(note: &Note) -> bool {
    is_before_all(note)
        || matches!(
            note,
            Note::NonFiniteOnOneSide { .. }
                | Note::DifferentPrograms { .. }
                | Note::OtherWeights { .. }
                | Note::PaddingDiffers
        )
}

/// Whether a note is said even before that most calls could not be judged: it is the reason.
fn is_before_all(note: &Note) -> bool {
    matches!(
        note,
        Note::NoBackwardPass { .. }
            | Note::InputsCutDifferently { .. }
            | Note::PartsCompared { .. }
            | Note::NothingInCommon { .. }
    )
}

/// What is said first: notes, and that most calls could not be judged, if so.
pub(super) fn first_statements<S>(
    compared: &Compared<S>,
    most_not_judged: Option<Statement>,
) -> Vec<Statement> {
    let (reasons, others): (Vec<Note>, Vec<Note>) =
        first_notes(compared).into_iter().partition(is_before_all);
    let noted = |notes: Vec<Note>| notes.into_iter().map(Statement::NotedFirst);
    noted(reasons).chain(most_not_judged).chain(noted(others)).collect()
}

/// Adds to the words of an agreement: what of the inputs was compared comes before it.
pub(super) fn add_to_agreement<S>(compared: &Compared<S>, said: &mut Vec<Statement>) {
    let (before, after): (Vec<Note>, Vec<Note>) = first_notes(compared).into_iter().partition(is_before_all);
    said.splice(0..0, before.into_iter().map(Statement::NotedFirst));
    said.extend(after.into_iter().map(Statement::NotedFirst));
}

/// The notes that are said first, each once.
fn first_notes<S>(compared: &Compared<S>) -> Vec<Note> {
    let first = compared.first_divergence().map(|(_, first)| first.finding.kind);
    let is_left = |note: &&Note| match note {
        // A call that returns them is named with them.
        Note::NonFiniteOnOneSide { .. } => first != Some(FindingKind::NonFiniteBornHere),
        // What agrees in another step is no news beside a divergence.
        Note::DifferentPrograms { .. } | Note::OtherWeights { .. } | Note::PaddingDiffers => first.is_none(),
        _ => is_first(note),
    };
    let mut notes: Vec<&Note> = Vec::new();
    for note in compared.outcomes().flat_map(|outcome| &outcome.notes).filter(is_left) {
        // Steps and ranks have their own numbers. What is not finite stays so in later steps, where other results are first.
        let is_known = |known: &&Note| match (note, *known) {
            (Note::NonFiniteOnOneSide { side, .. }, Note::NonFiniteOnOneSide { side: known, .. }) => {
                side == known
            }
            (Note::DifferentPrograms { .. } | Note::OtherWeights { .. }, known) => {
                std::mem::discriminant(known) == std::mem::discriminant(note)
            }
            (note, known) => known == note,
        };
        if !notes.iter().any(is_known) {
            notes.push(note);
        }
    }
    notes.into_iter().take(SHOWN).cloned().collect()
}

/// Notes on how the dumps were made and read, except those that are said elsewhere.
fn notes<S>(compared: &Compared<S>, levels_are_said: bool) -> Vec<Statement> {
    let several = compared.ranks.len() > 1;
    let of_ranks = compared.ranks.iter().filter_map(|rank| Some((rank, &rank.result.as_ref().ok()?.0.notes)));
    let of_ranks = of_ranks.flat_map(|(rank, notes)| {
        notes.iter().cloned().map(move |note| (note, Some(rank_label(rank, several))))
    });
    let of_dumps = compared.notes.iter().map(|note| (Note::Text(note.clone()), None));
    let is_left = |note: &Note| match note {
        Note::OnlyStatistics => false,
        Note::LevelsDiffer { .. } => !levels_are_said,
        _ if is_first(note) => false,
        _ => true,
    };
    let mut notes: Vec<(Note, Vec<String>)> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (note, label) in of_dumps.chain(of_ranks).filter(|(note, _)| is_left(note)) {
        let at = *known.entry(note.to_string()).or_insert(notes.len());
        match notes.get_mut(at) {
            Some((_, labels)) => labels.extend(label),
            None => notes.push((note, label.into_iter().collect())),
        }
    }
    let more = notes.len().saturating_sub(SHOWN);
    let mut said: Vec<Statement> = notes
        .into_iter()
        .take(SHOWN)
        // What holds on some steps or ranks only is said of these: the others may have a finding that it seems to deny.
        .map(|(note, mut ranks)| {
            if ranks.len() == compared.outcomes().count() {
                ranks.clear();
            }
            let has_more = ranks.len() > SHOWN;
            ranks.truncate(SHOWN);
            Statement::Noted { ranks, has_more, note }
        })
        .collect();
    if more > 0 {
        said.push(Statement::MoreNotes(more as u64));
    }
    said
}
