//! Calls of one side that only look at what both sides compute: a logged norm, an accuracy, `loss.item()`.
//!
//! Nothing of the run depends on them. No paired call uses their results, no gradient goes back through them, and they
//! write to nothing. So they are no reason to doubt that two runs agree.
//!
//! Three things look alike and are not. Where both sides have such calls, these may be two forms of one computation whose
//! results were not compared. Where the other side ends in a result, calls that make a new one of it may be what this
//! side ends in: floats, or as many integers where it ends in integers (`argmax + 1`). And what is computed from the
//! run's inputs may be a result of its own.

use std::collections::{BTreeSet, HashMap};

use ulpscope_dump::CallKind;

use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Source};
use crate::native::evidence::flow::Flow;
use crate::style::Side;

/// The units of these calls, in order; none, if a unit that is not `joined` may be something else. `exact`: the dtypes and sizes of
/// the integers and truth values that a unit returns.
pub(in crate::native) fn side_branches(
    units: &[CallEvidence],
    flow: &Flow,
    joined: &[bool],
    exact: impl Fn(usize) -> Vec<ExactResult>,
) -> Vec<usize> {
    let open: Vec<usize> = (0..units.len()).filter(|&at| !joined[at]).collect();
    let Some(side) = open.first().map(|&at| side_of(&units[at])) else { return Vec::new() };
    let is_reading = |&at: &usize| side_of(&units[at]) == side && reads_only(at, units, flow, side);
    let says_sources = !flow.is_guessed[side as usize];
    if says_sources
        && open.iter().all(is_reading)
        && !makes_a_final_result(&open, units, flow, joined)
        && !changes_a_decision(&open, units, flow, joined, exact)
    {
        return open;
    }
    Vec::new()
}

/// A result of exact values: dtype and number of elements.
pub(in crate::native) type ExactResult = (String, u64);

/// Whether unused exact values were made of others in which the other side ends, as many and of the same dtype.
fn changes_a_decision(
    open: &[usize],
    units: &[CallEvidence],
    flow: &Flow,
    joined: &[bool],
    exact: impl Fn(usize) -> Vec<ExactResult>,
) -> bool {
    // Calls come after those whose results they use.
    let mut ends: HashMap<usize, BTreeSet<ExactResult>> = HashMap::new();
    for &at in open.iter().filter(|&&at| !units[at].adds_nothing) {
        // A set: a value may be an argument of the next call twice, and so on.
        let mut inputs = BTreeSet::new();
        for producer in units[at].entries.iter().flat_map(|entry| flow.makers(entry)).flatten() {
            match ends.get(&producer) {
                Some(known) => inputs.extend(known.iter().cloned()),
                None if is_end(producer, flow, joined) => inputs.extend(exact(producer)),
                None => {}
            }
        }
        if flow.takers[at].is_empty() && exact(at).iter().any(|made| inputs.contains(made)) {
            return true;
        }
        ends.insert(at, inputs);
    }
    false
}

/// Whether the other side ends in what both sides compute.
fn is_end(at: usize, flow: &Flow, joined: &[bool]) -> bool {
    let used_by_pairs = flow.takers[at].iter().any(|&(taker, _)| joined[taker as usize]);
    joined[at] && !used_by_pairs && flow.backward.of(at).is_none()
}

fn side_of(unit: &CallEvidence) -> Side {
    if unit.golden().is_none() { Side::Target } else { Side::Golden }
}

fn reads_only(at: usize, units: &[CallEvidence], flow: &Flow, side: Side) -> bool {
    let (unit, operation) = (&units[at], &flow.operations[at]);
    let is_known =
        |entry: &EntryEvidence| !entry.is_tensor || entry.sources()[side as usize] != Source::Unsaid;
    unit.kind == CallKind::Forward
        && flow.backward.of(at).is_none()
        && !operation.is_in_place
        && !operation.communicates
        && unit.entries.iter().filter(|entry| entry.is_taken()).all(is_known)
}

/// Whether a float that no call uses was made of the run's inputs, or of a result in which the other side ends.
fn makes_a_final_result(open: &[usize], units: &[CallEvidence], flow: &Flow, joined: &[bool]) -> bool {
    // Calls come after those whose results they use.
    let mut continues = vec![false; units.len()];
    for &at in open {
        let mut inputs = units[at].entries.iter().filter(|entry| entry.is_taken());
        let follows = inputs.any(|entry| {
            let mut producers = flow.makers(entry).into_iter().flatten();
            entry.sources().iter().any(Source::is_outside)
                || producers.any(|producer| is_end(producer, flow, joined) || continues[producer])
        });
        continues[at] = follows && units[at].entries.iter().any(|entry| entry.is_float && !entry.is_taken());
        if continues[at] && flow.takers[at].is_empty() {
            return true;
        }
    }
    false
}
