//! Whether two programs end in the same: values, decisions, buffers, and gradients of parameters.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};

use super::counterparts::Counterparts;
use super::gradient_cut::CutOff;
use super::gradients::Gradients;
use super::last_values::{Last, last_values};
use super::padding;
use super::program::{Program, Value, Weight};
use crate::native::thresholds::conclude::NEAR_A_TIE;
use crate::native::thresholds::final_results::ALLOWED;
use crate::style::Side;

/// A final result that is no value of the forward pass, and that differs.
#[derive(Clone, Debug)]
pub(in crate::native) struct EndApart {
    pub(in crate::native) what: EndKind,
    /// Relative to its size.
    pub(in crate::native) error: f64,
    pub(in crate::native) allowed: f64,
}

impl EndApart {
    /// Two values that differ.
    pub(super) fn of_values(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> EndApart {
        let [one, other] = counterparts.pair(pair);
        let what = EndKind::Value(Side::Target, one.call);
        EndApart { what, error: counterparts.apart(pair), allowed: counterparts.allowed(one, other) }
    }
}

/// Which final result.
#[derive(Clone, Debug)]
pub(in crate::native) enum EndKind {
    /// The gradient of a parameter, by its name in the target, and the call of the target that cuts it off, if one was found.
    Gradient { of: String, cut_off: Option<CutOff> },
    /// What a step leaves in a parameter, by its name in the target.
    Parameter(String),
    /// What is left in a buffer, by its name in the target.
    Buffer(String),
    /// What a call of one side returned or wrote, which differs or has nothing on the other side to be compared with.
    Value(Side, usize),
    /// What a call of the target returned, which may differ at padding alone: no gradient shows a difference, and statistics do
    /// not show where it is.
    AtPadding(usize),
    /// What the models return at a place: the calls that made it.
    Returned(String, [usize; 2]),
    /// The same, where no call made it: parameters or buffers.
    ReturnedOrigin(String, [String; 2]),
    /// What the models return at a place, which may have its elements in different places: statistics do not show where they are.
    Moved(String, [usize; 2]),
}

/// What the final results say.
pub(super) struct Ends {
    /// Pairs of values that differ.
    pub(super) differing: Vec<[usize; 2]>,
    /// Whether there are final results, and all that could be compared agree, gradients among them.
    pub(super) agree: bool,
    /// What differs and is no pair of values.
    pub(super) apart: Option<EndApart>,
    /// Whether values differ at positions that a mask leaves out as padding, and nowhere else.
    pub(super) differ_in_padding: bool,
    /// Where some differ by statistics alone: the relative norm of errors that may not show.
    pub(super) hidden: Option<f64>,
    /// Whether each side was given tensors that the other was not. Pairs that differ may follow from these.
    pub(super) has_other_inputs: bool,
}

/// `is_cut`: whether inputs are cut differently.
pub(super) fn compare(
    counterparts: &Counterparts<'_>,
    weights: &[(&str, &str)],
    limit: f64,
    is_cut: impl Fn() -> bool,
) -> Ends {
    let [target, golden] = counterparts.programs;
    let is_cut = LazyCell::new(is_cut);
    let mut last = last_values(counterparts);
    last.compare_passed(counterparts);
    last.compare_reduced(counterparts);
    last.compare_returned(counterparts, || *is_cut);
    let differ_in_padding = last.leave_out_padding(counterparts);
    let Last { differing, agreeing, is_clear, apart, hidden, moved, .. } = last;
    let gradients = Gradients::of(counterparts.programs, weights, limit);
    if !differing.is_empty() && gradients.agree() && *is_cut {
        // Pieces of a batch lead to a part of the results each: gradients, which are sums over all, tell more.
        let (differing, apart, has_other_inputs) = (Vec::new(), None, true);
        return Ends { differing, agree: true, apart, differ_in_padding, hidden, has_other_inputs };
    }
    if let Some(&pair) = differing.first()
        && gradients.agree()
        && padding::may_be_all_that_differs(counterparts, &differing)
    {
        let what = EndKind::AtPadding(counterparts.pair(pair)[0].call);
        let apart = Some(EndApart { what, ..EndApart::of_values(counterparts, pair) });
        let (differing, has_other_inputs) = (Vec::new(), false);
        return Ends { differing, agree: false, apart, differ_in_padding, hidden, has_other_inputs };
    }
    if let Some(&pair) = differing.first()
        && !same_inputs(counterparts)
    {
        // Other inputs lead to other results: where the programs part, these do not tell.
        let apart = gradients.apart.or_else(|| Some(EndApart::of_values(counterparts, pair)));
        return Ends { differing, agree: false, apart, differ_in_padding, hidden, has_other_inputs: true };
    }
    // A backward pass of which no gradient could be compared says nothing.
    let is_seen = gradients.are_compared || !(target.has_backward && golden.has_backward);
    let apart = gradients.apart.clone().or(buffers(counterparts, limit)).or(apart);
    let apart = apart.or(moved.filter(|_| !gradients.agree()));
    // What is computed from a final result, such as a loss or gradients, shows whether elements are in their places.
    let agree = agreeing > 0 && (is_clear || gradients.agree()) && is_seen && apart.is_none();
    Ends { differing, agree, apart, differ_in_padding, hidden, has_other_inputs: false }
}

pub(super) fn is_decision(value: &Value) -> bool {
    value.unit == 0.0
}

/// Whether two last values are the same: floats within accumulated rounding, decisions as far as ties allow.
pub(super) fn is_same(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> bool {
    let [one, other] = counterparts.pair(pair);
    if one.count != other.count || is_decision(one) != is_decision(other) {
        return false;
    }
    if !is_decision(one) {
        return counterparts.apart(pair) <= counterparts.allowed(one, other);
    }
    turned(counterparts, pair) <= allowed_to_turn(counterparts, pair)
}

/// How many decisions may differ: of floats that are apart by a share of their size, as many are so near to a tie.
fn allowed_to_turn(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> f64 {
    let [one, other] = counterparts.pair(pair);
    let (Some(ours), Some(theirs)) = (one.decided_from, other.decided_from) else { return 0.0 };
    let [ours, theirs] = counterparts.pair([ours, theirs]);
    (NEAR_A_TIE.get() * counterparts.allowed(ours, theirs) * one.count as f64).floor()
}

/// How many decisions differ; of statistics, how many at least.
fn turned(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> f64 {
    let [one, other] = counterparts.pair(pair);
    if one.shape == other.shape
        && let Some(turned) = counterparts.differing_elements(pair)
    {
        return turned;
    }
    if one.numbers == other.numbers {
        return 0.0;
    }
    let [[max, min, mean, _], [other_max, other_min, other_mean, _]] = [one.numbers, other.numbers];
    let range = [max, other_max].into_iter().flatten().fold(f64::NEG_INFINITY, f64::max)
        - [min, other_min].into_iter().flatten().fold(f64::INFINITY, f64::min);
    let moved = mean.zip(other_mean).map_or(0.0, |(one, other)| (one - other).abs());
    let least = if range > 0.0 { moved * one.count as f64 / range } else { 0.0 };
    if least.is_finite() { least.max(1.0) } else { one.count as f64 }
}

/// The first buffer in which the two sides leave something else: by name, and else by content.
fn buffers(counterparts: &Counterparts<'_>, limit: f64) -> Option<EndApart> {
    let [target, golden] = counterparts.programs;
    let squares = [target, golden].into_iter().flat_map(|program| &program.values).map(|value| value.square);
    let allowed = limit.max(ALLOWED.get() * squares.fold(0.0, f64::max).sqrt());
    let error = |one: usize, other: usize| counterparts.apart([one, other]);
    let count = |program: &Program, value: usize| program.values[value].count;
    let mut theirs: BTreeMap<&String, usize> =
        golden.ends.buffers.iter().map(|(name, &value)| (name, value)).collect();
    let mut ours: Vec<(&String, usize)> = Vec::new();
    for (name, &one) in &target.ends.buffers {
        match theirs.get(name).copied().filter(|&other| count(golden, other) == count(target, one)) {
            Some(other) => {
                theirs.remove(name);
                let error = error(one, other);
                if error > allowed {
                    return Some(EndApart { what: EndKind::Buffer(name.clone()), error, allowed });
                }
            }
            None => ours.push((name, one)),
        }
    }
    for (name, one) in ours {
        let like = theirs.iter().filter(|(_, other)| count(golden, **other) == count(target, one));
        let nearest = like.map(|(name, &other)| (error(one, other), (*name).clone()));
        let Some((error, other)) = nearest.min_by(|one, other| one.0.total_cmp(&other.0)) else { continue };
        if error > allowed {
            return Some(EndApart { what: EndKind::Buffer(name.clone()), error, allowed });
        }
        theirs.remove(&other);
    }
    None
}

/// Whether a final result may have its elements in other places, which statistics do not show: it was made by a call that
/// moves elements, and its counterpart by another.
pub(super) fn may_be_elsewhere(counterparts: &Counterparts<'_>, end: usize) -> bool {
    let [target, golden] = counterparts.programs;
    let operation = &target.operations[target.values[end].call];
    let Some(other) = counterparts.nearest[0][end] else { return true };
    let other = &golden.operations[golden.values[other].call];
    operation.name != other.name
        && (operation.reorders || other.reorders)
        && !counterparts.is_sure(Side::Target, end)
}

/// Whether two results that look the same may have their elements in different places: only statistics are known, and one
/// program alone moved elements at last.
pub(super) fn may_be_moved(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> bool {
    let [one, other] = counterparts.pair(pair);
    let moved = [0, 1].map(|side| counterparts.programs[side].is_moved(pair[side]));
    one.count > 1
        && moved[0] != moved[1]
        && (one.shape != other.shape || counterparts.elements(pair).is_none())
}

/// Whether the side that was given fewer tensors was given none that the other was not.
fn same_inputs(counterparts: &Counterparts<'_>) -> bool {
    let inputs = counterparts.programs.map(|program| {
        let bits = |input: &Weight| (input.count, input.numbers.map(|number| number.map(f64::to_bits)));
        program.inputs.iter().map(bits).collect::<HashSet<_>>()
    });
    let [fewer, more] = if inputs[0].len() <= inputs[1].len() { [0, 1] } else { [1, 0] };
    inputs[fewer].is_subset(&inputs[more])
}
