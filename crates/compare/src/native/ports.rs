//! Two programs that compute the same by different calls, judged by what they compute.
//!
//! Calls without partner cannot be compared, and what follows from them cannot be explained call by call. So final results
//! decide whether two such programs agree, and [`Correspondence`] where they part.

use ulpscope_dump::CallKind;

use super::conclude::results;
use super::conclusion::{Cause, Conclusion, found};
use super::correspondence::{Agreed, Correspondence, Cut};
use super::expect::Apart;
use super::flow::Flow;
use super::judgement::Runs;
use super::kept::Kept;
use super::observed::{Observed, Seeing, Seen};
use crate::verdict::Class;

/// One in so many calls of the forward pass is made by one side only: a different program. With fewer, partners tell
/// more.
const PORT: usize = 20;

/// A few such calls are a change of one program, whatever their share.
const FEW: usize = 8;

/// What was concluded of two programs.
pub(super) struct Port {
    pub(super) conclusions: Vec<Conclusion>,
    /// Where they part; nothing, where their final results agree.
    pub(super) cut: Option<Cut>,
    /// What agrees, where they do not part.
    pub(super) agreed: Option<Agreed>,
}

/// Where two programs part, or that their final results agree; nothing, if too little was recorded to tell.
pub(super) fn judge(runs: &Runs<'_>) -> Option<Port> {
    let Runs { units, flow, kept, noise, calls, .. } = runs;
    if flow.is_guessed != [false; 2] || kept.first_apart.is_some() {
        return None;
    }
    let heard =
        units.iter().enumerate().flat_map(|(at, unit)| results(unit).map(move |(entry, _)| (at, entry)));
    let heard = heard.map(|(at, entry)| noise.of(at, entry).allowed().whole).fold(0.0, f64::max);
    let (cut, agreed) = match Correspondence::of(calls[0], calls[1], heard) {
        // What an optimizer makes of gradients that agree is for partners to tell.
        Correspondence::Agree(_) if has_lone_updates(units, flow) => return None,
        Correspondence::Agree(agreed) => (None, Some(agreed)),
        Correspondence::Differ(cut) => (Some(*cut), None),
        Correspondence::Open => return None,
    };
    let first = match &cut {
        Some(cut) => Some(flow.unit_of[0].of(*cut.target.first()?)?),
        None => None,
    };
    let mut conclusions: Vec<Conclusion> =
        units.iter().enumerate().map(|(at, unit)| of_unit(at, unit, first)).collect();
    if let (Some(first), Some(cut)) = (first, &cut) {
        conclusions[first] = blamed(&units[first], cut);
    }
    Some(Port { conclusions, cut, agreed })
}

/// Whether the forward passes consist of different calls.
pub(super) fn is_port(units: &[Observed], flow: &Flow, kept: &Kept) -> bool {
    let updates = updates(units, flow);
    let is_call = |at: &usize| {
        let is_update = updates[*at] || kept.is_towards(*at) || flow.operations[*at].is_in_place;
        units[*at].kind == CallKind::Forward && !flow.is_composite(*at) && !is_update
    };
    let (mut lone, mut all) = (0, 0);
    for at in (0..units.len()).filter(is_call) {
        all += 1;
        lone += usize::from(units[at].is_lone() && !units[at].adds_nothing);
    }
    lone > FEW && lone * PORT > all
}

fn has_lone_updates(units: &[Observed], flow: &Flow) -> bool {
    updates(units, flow).into_iter().zip(units).any(|(is_update, unit)| is_update && unit.is_lone())
}

/// The calls that compute from gradients, as an optimizer does.
fn updates(units: &[Observed], flow: &Flow) -> Vec<bool> {
    let mut updates = vec![false; units.len()];
    for (at, unit) in units.iter().enumerate().filter(|(_, unit)| unit.kind == CallKind::Forward) {
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        updates[at] = taken.clone().any(Seen::is_of_gradient)
            || taken.flat_map(|entry| flow.makers(entry)).flatten().any(|maker| updates[maker]);
    }
    updates
}

/// The class of a unit: of what differs behind the first call of the cut, it is the cause.
fn of_unit(at: usize, unit: &Observed, first: Option<usize>) -> Conclusion {
    if unit.is_lone() {
        return Conclusion::of(Class::DifferentProgram);
    }
    let tensors = || unit.entries.iter().filter(|entry| entry.is_tensor);
    if tensors().all(|entry| entry.state.is_settled()) {
        return Conclusion::of(Class::Equal);
    }
    let is_near = |entry: &Seen| match (entry.state, &entry.numbers) {
        (Seeing::Apart, Some(extent)) => extent.mismatched == 0 && extent.relative() <= extent.limit(),
        (state, _) => state.is_settled(),
    };
    if tensors().all(is_near) {
        return Conclusion::of(Class::Noise);
    }
    match first {
        Some(first) if first <= at && results(unit).any(|(_, entry)| !is_near(entry)) => {
            Conclusion { from: Some(first), ..Conclusion::of(Class::Inherited) }
        }
        _ => Conclusion::of(Class::NotComparable),
    }
}

/// The first call of the cut. The surer, the further behind it results are apart, and the fewer calls may have done it.
fn blamed(unit: &Observed, cut: &Cut) -> Conclusion {
    let sure = (1.0 - cut.allowed / cut.error).max(0.0);
    let share = if cut.is_of_both { 1.0 } else { 1.0 / (cut.named.max(1) as f64).sqrt() };
    let class = if cut.is_of_both { Class::DivergedHere } else { Class::DifferentProgram };
    let relative = |whole: f64| Apart { whole, ..Apart::default() };
    Conclusion {
        entry: results(unit).next().map(|(number, _)| number),
        error: relative(cut.error),
        expected: relative(cut.allowed),
        is_of_taker: true,
        ..found(class, Cause::Region, 0, sure * share)
    }
}
