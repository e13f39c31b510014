//! Final results: what the outermost modules return, a loss, and the gradients of parameters.

use std::collections::HashSet;

use super::counterparts::Counterparts;
use super::likeness::distance;
use super::program::Weight;
use crate::style::Side;

/// How many times the accumulated rounding gradients of parameters may be apart: as in `final_results.rs`.
const ALLOWED_IN_GRADIENTS: f64 = 32.0;

/// A gradient so many times smaller than the largest may be zero except for rounding, such as that of a bias of keys.
const CANCELS: f64 = 30.0;

/// What the final results say.
pub(super) struct Ends {
    /// Pairs of values that differ.
    pub(super) differing: Vec<[usize; 2]>,
    /// Whether there are final results, and all that could be compared agree, gradients among them.
    pub(super) agree: bool,
}

pub(super) fn compare(counterparts: &Counterparts<'_>, weights: &[(&str, &str)], limit: f64) -> Ends {
    let [target, golden] = counterparts.programs;
    let (mut differing, mut agreeing, mut is_clear) = (Vec::new(), 0, false);
    for &end in &target.ends {
        if counterparts.has(Side::Target, end) {
            agreeing += 1;
            is_clear |= !may_be_elsewhere(counterparts, end);
            continue;
        }
        let value = &target.values[end];
        let same_count = golden.ends.iter().filter(|&&other| golden.values[other].count == value.count);
        let nearest = same_count.min_by(|&&one, &&other| {
            let apart = |other: usize| distance(value.count, &value.numbers, &golden.values[other].numbers);
            let [one, other] = [one, other].map(|other| apart(other).unwrap_or(f64::INFINITY));
            one.total_cmp(&other)
        });
        if let Some(&nearest) = nearest {
            differing.push([end, nearest]);
        }
    }
    let gradients = gradients_agree(counterparts, weights, limit);
    // Other inputs lead to other results, and pieces of a batch to a part of them each: gradients, which are sums over
    // all, tell more.
    let is_cut_up = target.ends.len() != golden.ends.len() && gradients == Some(true);
    if !differing.is_empty() && (is_cut_up || !same_inputs(counterparts)) {
        return Ends { differing: Vec::new(), agree: gradients == Some(true) };
    }
    // A backward pass of which no gradient could be compared says nothing.
    let is_seen = gradients.is_some() || !target.has_backward && !golden.has_backward;
    // What is computed from a final result, such as a loss or gradients, shows whether elements are in their places.
    let agree = agreeing > 0 && (is_clear || gradients == Some(true)) && is_seen && gradients != Some(false);
    Ends { differing, agree }
}

/// Whether a final result may have its elements in other places, which statistics do not show: it was made by a call that
/// moves elements, and its counterpart by another.
fn may_be_elsewhere(counterparts: &Counterparts<'_>, end: usize) -> bool {
    let [target, golden] = counterparts.programs;
    let operation = &target.operations[target.values[end].call];
    let Some(other) = counterparts.nearest[0][end] else { return true };
    let other = &golden.operations[golden.values[other].call];
    operation.name != other.name
        && (operation.reorders || other.reorders)
        && !counterparts.is_sure(Side::Target, end)
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

/// Whether gradients of parameters agree; nothing, where none is on both sides.
fn gradients_agree(counterparts: &Counterparts<'_>, weights: &[(&str, &str)], limit: f64) -> Option<bool> {
    let [target, golden] = counterparts.programs;
    let squares = [target, golden].into_iter().flat_map(|program| &program.values).map(|value| value.square);
    let most = squares.fold(0.0, f64::max);
    let allowed = (ALLOWED_IN_GRADIENTS * most.sqrt()).max(limit);
    let largest = target.gradients.values().map(size).filter(|size| size.is_finite()).fold(0.0, f64::max);
    let both = weights.iter().filter_map(|(ours, theirs)| {
        let (one, other) = (target.gradients.get(*ours)?, golden.gradients.get(*theirs)?);
        let apart = distance(one.count, &one.numbers, &other.numbers)?;
        let size = size(one).max(size(other));
        let share = if largest > 0.0 { (CANCELS * size / largest).min(1.0) } else { 1.0 };
        Some(apart * share <= allowed)
    });
    both.reduce(|one, other| one && other)
}

/// The root of the mean square.
fn size(weight: &Weight) -> f64 {
    weight.numbers[3].unwrap_or(0.0) / (weight.count.max(1) as f64).sqrt()
}
