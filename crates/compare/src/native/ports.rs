//! Two programs that compute the same by different calls, judged by what they compute.
//!
//! Unpaired calls cannot be compared, and what follows from them cannot be explained call by call. So final results
//! decide whether two such programs agree, and [`Correspondence`] where they part.

use ulpscope_dump::CallKind;

use super::correspondence::{Agreed, Correspondence, Cut, EndApart, EndKind, Unrelated};
use super::judgement::Runs;
use super::thresholds::confidence;
use super::thresholds::ports::{CALLS_PER_LONE, FEW_LONE};
use crate::native::attribution::conclude::results;
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::attribution::conclusion_list::ConclusionList;
use crate::native::attribution::updates::{computed_from_gradients, is_unit_of_optimizer};
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation};
use crate::native::evidence::flow::{Calls, Flow};
use crate::native::evidence::written::PARAMETER;
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::final_results::final_parameters::FinalParameters;
use crate::pairing::Unit;
use crate::style::Side;
use crate::verdict::Class;

/// How the names of modules begin.
const MODULE: &str = "Module.";

/// What was concluded of two programs.
pub(super) struct Port {
    pub(super) conclusions: ConclusionList,
    /// Where they part; nothing, where their final results agree.
    pub(super) cut: Option<Cut>,
    /// What agrees, where they do not part.
    pub(super) agreed: Option<Agreed>,
    /// Whether what agrees speaks for calls that have no partner.
    pub(super) is_vouched: bool,
    /// That they have next to nothing in common, if so.
    pub(super) unrelated: Option<Unrelated>,
}

/// What values say of two programs.
pub(super) enum Said {
    /// Where they part, or that their final results agree.
    Port(Box<Port>),
    /// Final results agree, and so do parameters that unpaired calls work towards. What paired calls leave in the state of an
    /// optimizer is for partners to tell.
    UnlessBlamed(Box<Port>),
    /// Too few final results can be compared to tell.
    Unseen,
    /// Too little to conclude from, and the first final result that differs all the same.
    Open(Option<EndApart>),
}

/// Where two programs part, or that their final results agree.
pub(super) fn judge(runs: &Runs<'_>) -> Said {
    concluded(runs).unwrap_or(Said::Open(None))
}

fn concluded(runs: &Runs<'_>) -> Option<Said> {
    let Runs { units, flow, kept, calls, .. } = runs;
    let is_rewritten = kept.updates.is_rewritten;
    if flow.is_guessed != [false; 2] || kept.first_apart.is_some() && !is_rewritten {
        return None;
    }
    // What a run that was killed had computed last is no final result.
    if calls.iter().any(|calls| calls.rank.is_cut()) {
        return None;
    }
    let (cut, agreed) = match Correspondence::of(runs.programs()) {
        // What an optimizer makes of gradients that agree is for partners to tell, or for what it leaves in parameters.
        Correspondence::Agree(agreed) if has_lone_updates(units, flow) && !is_rewritten => {
            let conclusions = without_blame(units);
            let port =
                Port { conclusions, cut: None, agreed: Some(agreed), is_vouched: true, unrelated: None };
            return updates_agree(runs).then(|| Said::UnlessBlamed(Box::new(port)));
        }
        Correspondence::Agree(agreed) => {
            if !is_rewritten
                && is_port(units, flow, kept)
                && let Some(apart) = left_apart(runs)
            {
                return Some(Said::Open(Some(apart)));
            }
            (None, Some(agreed))
        }
        Correspondence::Differ(cut) => (Some(*cut), None),
        // Where calls have partners, these tell more.
        Correspondence::Unrelated(unrelated) if is_port(units, flow, kept) => {
            let conclusions = without_blame(units);
            let unrelated = Some(unrelated);
            let port = Port { conclusions, cut: None, agreed: None, is_vouched: false, unrelated };
            return Some(Said::Port(Box::new(port)));
        }
        Correspondence::Unrelated(_) => return None,
        Correspondence::Open(None) => return Some(Said::Unseen),
        Correspondence::Open(apart) => return Some(Said::Open(apart)),
    };
    let first = match &cut {
        Some(cut) => Some(flow.unit_of[0].of(*cut.target.first()?)?),
        None => None,
    };
    let mut conclusions: ConclusionList =
        units.iter().enumerate().map(|(at, unit)| of_unit(at, unit, first)).collect();
    if let (Some(first), Some(cut)) = (first, &cut) {
        conclusions.set(first, blamed(&units[first], cut));
    }
    let mut is_vouched = agreed.is_some();
    if is_rewritten && cut.is_none() {
        is_vouched = kept.all_agree();
        if let Some((by, left)) = kept.blamed() {
            conclusions.set(by, left);
        }
    }
    Some(Said::Port(Box::new(Port { conclusions, cut, agreed, is_vouched, unrelated: None })))
}

/// Whether all parameters are left the same, and unpaired calls that compute from gradients do nothing but work towards them, or
/// belong to an optimizer, which counts its steps. An average of weights is neither.
fn updates_agree(runs: &Runs<'_>) -> bool {
    let Runs { units, flow, calls, .. } = runs;
    let left = FinalParameters::of_all(units, flow, *calls, runs.trained);
    let updates = computed_from_gradients(units, flow);
    let is_known =
        |at: usize| left.agrees(at) || left.is_towards(at) || is_unit_of_optimizer(&units[at], *calls);
    left.all_agree() && (0..units.len()).all(|at| !updates[at] || !units[at].is_lone() || is_known(at))
}

/// A parameter that the two runs leave different, although their gradients agree.
fn left_apart(runs: &Runs<'_>) -> Option<EndApart> {
    let left = FinalParameters::of_all(runs.units, runs.flow, runs.calls, runs.trained).first_apart?;
    let name = left.name.strip_prefix(PARAMETER).unwrap_or(&left.name).to_owned();
    let (error, allowed) = (left.error.whole, left.expected.whole);
    Some(EndApart { what: EndKind::Parameter(name), error, allowed })
}

/// The largest noise of any result.
pub(super) fn noise_of(runs: &Runs<'_>) -> f64 {
    let units = runs.units.iter().enumerate();
    let results = units.flat_map(|(at, unit)| results(unit).map(move |(entry, _)| (at, entry)));
    results.map(|(at, entry)| runs.noise.of(at, entry).allowed().whole).fold(0.0, f64::max)
}

/// What is concluded of units where none is to blame.
pub(super) fn without_blame(units: &[CallEvidence]) -> ConclusionList {
    units.iter().enumerate().map(|(at, unit)| of_unit(at, unit, None)).collect()
}

/// Whether the forward passes consist of different calls.
pub(super) fn is_port(units: &[CallEvidence], flow: &Flow, kept: &FinalParameters) -> bool {
    let updates = computed_from_gradients(units, flow);
    let is_call = |at: &usize| {
        let is_update = updates[*at]
            || kept.is_towards(*at)
            || kept.updates.contains(*at)
            || flow.operations[*at].is_in_place;
        let is_recorded_by_both = !units[*at].is_left_out;
        is_recorded_by_both && units[*at].kind == CallKind::Forward && !flow.is_composite(*at) && !is_update
    };
    let (mut lone, mut all) = (0, 0);
    for at in (0..units.len()).filter(is_call) {
        all += 1;
        lone += usize::from(units[at].is_lone() && !units[at].adds_nothing);
    }
    is_of_two_programs(lone, all)
}

/// Whether pairing lets one expect two different programs: more is not known before calls are read.
pub(super) fn may_be_port(units: &[Unit], calls: [&Calls<'_>; 2]) -> bool {
    let is_operation = |side: Side, call: usize| {
        let rank = calls[side as usize].rank;
        let of = &rank.calls()[call];
        of.kind == CallKind::Forward && !rank.base(of.base).starts_with(MODULE)
    };
    let (mut lone, mut all) = (0, 0);
    for unit in units {
        let (side, call, is_lone) = match unit {
            Unit::Pair(pair) => (Side::Target, pair.target, false),
            Unit::TargetOnly { call, .. } => (Side::Target, *call, true),
            Unit::GoldenOnly { call, .. } => (Side::Golden, *call, true),
        };
        if is_operation(side, call) {
            all += 1;
            lone += usize::from(is_lone);
        }
    }
    is_of_two_programs(lone, all)
}

/// Whether so many unpaired calls, of all of the forward pass, are a different program.
fn is_of_two_programs(lone: usize, all: usize) -> bool {
    let (lone, all) = (lone as f64, all as f64);
    lone > FEW_LONE.get() && lone * CALLS_PER_LONE.get() > all
}

fn has_lone_updates(units: &[CallEvidence], flow: &Flow) -> bool {
    computed_from_gradients(units, flow)
        .into_iter()
        .zip(units)
        .any(|(is_update, unit)| is_update && unit.is_lone())
}

/// The class of a unit: of what differs behind the first call of the cut, it is the cause.
fn of_unit(at: usize, unit: &CallEvidence, first: Option<usize>) -> Conclusion {
    if unit.is_lone() {
        return Conclusion::of(Class::DifferentProgram);
    }
    let tensors = || unit.entries.iter().filter(|entry| entry.is_tensor);
    if tensors().all(|entry| entry.state.is_settled()) {
        return Conclusion::of(Class::Equal);
    }
    let is_near = |entry: &EntryEvidence| match (entry.state, &entry.numbers) {
        (Relation::Apart, Some(extent)) => extent.mismatched == 0 && extent.relative() <= extent.limit(),
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
fn blamed(unit: &CallEvidence, cut: &Cut) -> Conclusion {
    let sure = (1.0 - cut.allowed / cut.error).max(0.0);
    let share = match cut.is_of_both {
        _ if cut.may_begin_earlier || cut.is_missing => confidence::GUESS,
        true => 1.0,
        false => 1.0 / (cut.named.max(1) as f64).sqrt(),
    };
    let class = if cut.is_of_both { Class::DivergedHere } else { Class::DifferentProgram };
    let relative = |whole: f64| ErrorProfile { whole, ..ErrorProfile::default() };
    Conclusion {
        entry: results(unit).next().map(|(number, _)| number),
        error: relative(cut.error),
        expected: relative(cut.allowed),
        is_of_taker: true,
        ..found(class, Cause::Region, 0, sure * share)
    }
}
