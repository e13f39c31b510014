//! What there is to know of two runs beyond which call is at fault: where they take different ways to the same results,
//! where only their arguments or their dtypes differ.

use std::sync::PoisonError;

use ulpscope_dump::{CallKind, Content, Entry, Rank, Role};

use crate::native::attribution::conclude::argument_differs;
use crate::native::correspondence::Pieces;
use crate::native::correspondence::cut_inputs::cut_inputs;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, place};
use crate::native::evidence::measure::recorded;
use crate::native::thresholds::ports::FEW_LONE;
use crate::native::{Hindsight, NativePlan};
use crate::note::Note;
use crate::style::Side;
use crate::verdict::Class;

/// Routes that are named; the others are counted.
const SHOWN: usize = 3;

/// One note for each thing.
pub(in crate::native) fn remarks(plan: &NativePlan<'_>, known: &Hindsight) -> Vec<Note> {
    let mut notes = match &known.pieces {
        Some(pieces) => of_pieces(plan, pieces),
        None => cut_inputs(plan, &known.observed),
    };
    notes.extend(unrelated(known));
    notes.extend(non_finite(plan, known));
    notes.extend(programs(plan, known));
    notes.extend(routes(plan, known));
    notes.extend(side_branches(plan, known));
    notes.extend(arguments(plan, known));
    notes.extend(dtypes(plan, known));
    notes.extend(amplified(plan, known));
    notes
}

/// Inputs that are cut differently, and up to where what follows from them agrees.
fn of_pieces(plan: &NativePlan<'_>, pieces: &Pieces) -> Vec<Note> {
    let mut notes = vec![pieces.note.clone()];
    if !pieces.agreeing.is_empty() || !pieces.differing.is_empty() {
        let first = pieces.differing.first().map(|part| part.call);
        let before = |call: &&usize| first.is_none_or(|first| **call < first);
        let last = pieces.agreeing.iter().filter(before).max();
        notes.push(Note::PartsCompared {
            agree: pieces.agreeing.len() as u64,
            differ: pieces.differing.len() as u64,
            last_agreeing: last.map(|&call| plan.target.rank.name(call)),
            first_differing: first.map(|call| plan.target.rank.name(call)),
        });
    }
    notes
}

fn unrelated(known: &Hindsight) -> Option<Note> {
    let found = known.unrelated.as_ref()?;
    Some(Note::NothingInCommon { parameters: found.parameters, same: found.same })
}

/// The first result that is NaN on one side only, or NaN or infinite where two programs part.
fn non_finite(plan: &NativePlan<'_>, known: &Hindsight) -> Option<Note> {
    let is_one_sided = |entry: &EntryEvidence| {
        // Infinities may be meant, as in masks.
        let side = match entry.numbers.as_ref().map(|numbers| [0, 1].map(|side| numbers.has_nan(side))) {
            Some([true, false]) => Side::Target,
            Some([false, true]) => Side::Golden,
            _ => return None,
        };
        (!entry.is_taken() && entry.state != Relation::Blank).then_some(side)
    };
    let mut results =
        known.observed.iter().flat_map(|unit| unit.entries.iter().map(move |entry| (unit, entry)));
    let found = results.find_map(|(unit, entry)| Some((is_one_sided(entry)?, plan.entry_name(unit, entry))));
    let at_cut = || {
        let (side, [target, golden]) = known.non_finite?;
        let name = match side {
            Side::Target => plan.target.rank.name(target),
            Side::Golden => plan.golden.rank.name(golden),
        };
        Some((side, name))
    };
    let (side, first) = found.or_else(at_cut).or_else(|| nan_of_one_side(plan, known))?;
    Some(Note::NonFiniteOnOneSide { side, first })
}

/// Whether a call returned NaN in an entry.
pub(in crate::native) fn is_nan_result(entry: &Entry) -> bool {
    match &entry.content {
        Content::Tensor(tensor) if entry.role == Role::Output => {
            recorded(tensor).iter().flatten().any(|number| number.is_nan())
        }
        _ => false,
    }
}

/// The first result that is NaN among unpaired calls, where those of one side alone have any.
fn nan_of_one_side(plan: &NativePlan<'_>, known: &Hindsight) -> Option<(Side, String)> {
    if known.is_vouched {
        return None;
    }
    let first = |side: Side, rank: &Rank, call: &dyn Fn(&CallEvidence) -> Option<usize>| {
        let returned = plan.lone_nan[side as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let lone = known.observed.iter().filter(|unit| !returned.is_empty() && unit.is_lone());
        let lone = lone.filter_map(call).filter(|call| returned.contains(call));
        let mut entries = lone.flat_map(|call| rank.entries(call).unwrap_or_default());
        Some(entries.find(is_nan_result)?.name)
    };
    let target = first(Side::Target, plan.target.rank, &CallEvidence::target);
    let golden = first(Side::Golden, plan.golden.rank, &CallEvidence::golden);
    let is_paired = |side: usize| {
        let mut all = known.observed.iter().flat_map(|unit| &unit.entries);
        all.any(|entry| entry.numbers.as_ref().is_some_and(|numbers| numbers.has_nan(side)))
    };
    match (target, golden) {
        (Some(first), None) if !is_paired(1) => Some((Side::Target, first)),
        (None, Some(first)) if !is_paired(0) => Some((Side::Golden, first)),
        _ => None,
    }
}

/// Two programs that agree in what they compute, and not in how.
fn programs(plan: &NativePlan<'_>, known: &Hindsight) -> Vec<Note> {
    let is_blamed = known.conclusions.is_any_blamed();
    let Some(agreed) = known.agreed.as_ref().filter(|_| !is_blamed) else { return Vec::new() };
    let is_lone =
        |unit: &&CallEvidence| unit.is_lone() && !unit.adds_nothing && unit.kind == CallKind::Forward;
    let lone = || known.observed.iter().filter(is_lone);
    let unpaired = [
        lone().filter(|unit| unit.target().is_some()).count() as u64,
        lone().filter(|unit| unit.golden().is_some()).count() as u64,
    ];
    let forward =
        |rank: &Rank| rank.calls().iter().filter(|call| call.kind == CallKind::Forward).count() as u64;
    let mut notes = Vec::new();
    // A few calls of one side are a change of one program.
    if (unpaired[0] + unpaired[1]) as f64 > FEW_LONE.get() {
        notes.push(Note::DifferentPrograms {
            unpaired,
            calls: [forward(plan.target.rank), forward(plan.golden.rank)],
            results: agreed.ends.iter().take(SHOWN).map(|&call| plan.target.rank.name(call)).collect(),
            more: agreed.ends.len().saturating_sub(SHOWN) as u64,
        });
    }
    if agreed.differ_in_padding {
        notes.push(Note::PaddingDiffers);
    }
    let [target, golden] = &agreed.other_weights;
    if let Some(first) = target.first().or(golden.first()) {
        notes.push(Note::OtherWeights {
            target: target.len() as u64,
            golden: golden.len() as u64,
            first: first.clone(),
            side: if target.is_empty() { Side::Golden } else { Side::Target },
        });
    }
    notes
}

fn routes(plan: &NativePlan<'_>, known: &Hindsight) -> Vec<Note> {
    let name = |unit: usize| plan.name(&known.observed[unit]);
    let mut notes: Vec<Note> = known
        .routes
        .ends
        .iter()
        .take(SHOWN)
        .map(|&(begin, end)| Note::DifferentWays { begin: name(begin), end: name(end) })
        .collect();
    let more = known.routes.ends.len().saturating_sub(SHOWN);
    if more > 0 {
        notes.push(Note::MoreDifferentWays(more as u64));
    }
    notes
}

fn side_branches(plan: &NativePlan<'_>, known: &Hindsight) -> Option<Note> {
    let first = &known.observed[*known.side_branches.first()?];
    let side = if first.golden().is_none() { Side::Target } else { Side::Golden };
    Some(Note::SideBranches { side, calls: known.side_branches.len() as u64, first: plan.name(first) })
}

/// Plain arguments that change no result, as far as was seen: a buffer that a call writes into is none.
fn arguments(plan: &NativePlan<'_>, known: &Hindsight) -> Option<Note> {
    let calls = known.observed.iter().enumerate();
    let without_effect = calls.filter(|(at, unit)| {
        matches!(known.conclusions.class(*at), Some(Class::Equal | Class::Noise)) && argument_differs(unit)
    });
    let units: Vec<&CallEvidence> = without_effect.map(|(_, unit)| unit).collect();
    let first = plan.name(units.first()?);
    Some(Note::ArgumentsWithoutEffect { calls: units.len() as u64, first })
}

/// Origins that one side has in a coarser dtype, and what a function makes of their rounding.
fn amplified(plan: &NativePlan<'_>, known: &Hindsight) -> Vec<Note> {
    let notes = known.amplified.iter().take(SHOWN).map(|found| {
        let unit = &known.observed[found.unit];
        let seen = &unit.entries[found.entry];
        let entries = unit.target().and_then(|call| plan.target.rank.entries(call).ok()).unwrap_or_default();
        let source = entries.into_iter().find(|entry| place(entry.role, &entry.path) == seen.place());
        let source = source.and_then(|entry| match entry.content {
            Content::Tensor(tensor) => tensor.source,
            _ => None,
        });
        Note::RoundingAmplified {
            origin: source.unwrap_or_else(|| plan.entry_name(unit, seen)),
            error: found.error,
            call: plan.name(&known.observed[found.by]),
            result: found.result,
        }
    });
    notes.collect()
}

fn dtypes(plan: &NativePlan<'_>, known: &Hindsight) -> Option<Note> {
    let recast = |unit: &&CallEvidence| unit.entries.iter().any(|entry| entry.is_recast && !entry.is_taken());
    let units: Vec<&CallEvidence> = known.observed.iter().filter(recast).collect();
    let first = units.first()?;
    // Where one run alone changes its dtype is told apart from two runs of different ones.
    let is_change =
        |unit: &&&CallEvidence| !unit.entries.iter().any(|entry| entry.is_recast && entry.is_taken());
    let first = units.iter().find(is_change).unwrap_or(first);
    let recast = first.entries.iter().find(|entry| entry.is_recast && !entry.is_taken())?;
    let dtype = |rank: &Rank, call: Option<usize>, at: u64| {
        let entries = call.and_then(|call| rank.entries(call).ok()).unwrap_or_default();
        match entries
            .into_iter()
            .find(|entry| place(entry.role, &entry.path) == at)
            .map(|entry| entry.content)
        {
            Some(Content::Tensor(tensor)) => tensor.dtype,
            _ => "another dtype".to_owned(),
        }
    };
    Some(Note::DtypesDiffer {
        calls: units.len() as u64,
        example: plan.name(first),
        target: dtype(plan.target.rank, first.target(), recast.place()),
        golden: dtype(plan.golden.rank, first.golden(), recast.golden_place()),
    })
}
