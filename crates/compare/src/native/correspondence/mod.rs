//! Correspondence: which part of one program computes the same as which part of another.
//!
//! A port has other calls, other names and other shapes, so its calls have few partners. What it computes has
//! counterparts all the same, and they are found by content:
//!
//! ```text
//! parameters ──► stages ──► counterparts of values ──► final results agree? ──► the cut, where they do not
//! ```
//! Final results decide whether two programs compute the same. Counterparts decide where they part.

mod call_tensors;
mod counterparts;
mod cut;
pub(in crate::native) mod cut_inputs;
mod ends;
mod final_values;
mod gradient_cut;
mod gradients;
mod inside_backward;
mod last_values;
mod likeness;
pub(in crate::native) mod named_region;
mod padding;
pub(in crate::native) mod parameter_pairs;
mod piece_ends;
mod pieces;
mod program;
mod program_pair;
mod returned;
mod slices;
mod update_cut;
mod weights;

use std::collections::{BTreeSet, HashSet};

use crate::native::evidence::flow::Calls;
use crate::native::evidence::tensor_error::ratio;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::thresholds::correspondence::{DOUBTED, IN_COMMON, ON_THE_WAY};
pub(super) use call_tensors::KeptTensors;
use counterparts::Counterparts;
pub(super) use cut::Cut;
pub(super) use ends::{EndApart, EndKind};
pub(super) use pieces::Pieces;
use program::Program;
pub(super) use program::Weight;
pub(super) use program_pair::ProgramPair;
pub(super) use returned::{other_origin, returns_otherwise};
pub(super) use update_cut::update_cut;

/// Two programs whose final results agree.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    /// The calls of the target that returned them.
    pub(super) ends: Vec<usize>,
    /// Parameters of the target and of the golden that the other side does not have with the same content.
    pub(super) other_weights: [Vec<String>; 2],
    /// Whether final results differ at positions that a mask leaves out as padding.
    pub(super) differ_in_padding: bool,
    /// Where final results differ by rounding and only their statistics are known: the relative norm of errors that may not
    /// show.
    pub(super) hidden: Option<f64>,
}

/// Two programs that have next to nothing in common.
#[derive(Clone, Debug)]
pub(super) struct Unrelated {
    /// Parameters of the target and of the golden.
    pub(super) parameters: [u64; 2],
    /// Those that have the same content.
    pub(super) same: u64,
}

/// What two programs have in common.
#[derive(Debug)]
pub(super) enum Correspondence {
    /// Their final results agree.
    Agree(Agreed),
    /// Their final results differ, by what lies between values that agree and the first that do not.
    Differ(Box<Cut>),
    /// They have next to nothing in common.
    Unrelated(Unrelated),
    /// Too little was recorded to tell, or what differs is not in the forward pass: a gradient, a buffer.
    Open(Option<EndApart>),
}

impl Correspondence {
    pub(super) fn of(pair: &ProgramPair<'_>) -> Correspondence {
        let ProgramPair { programs, parameters: [our_weights, their_weights], trained, .. } = pair;
        let (weights, limit, [target, golden]) = (pair.same(), pair.limit(), pair.calls);
        let counterparts = |limit: f64| {
            Counterparts::of([&programs[0], &programs[1]], [target.rank, golden.rank], (limit, pair.noise))
        };
        let found = counterparts(limit);
        // Gradients of weights that one side keeps merged or folded are those of something else.
        let same: Vec<(&str, &str)> = weights
            .iter()
            .copied()
            .filter(|(one, other)| weights::is_same(&our_weights[*one], &their_weights[*other], *trained))
            .collect();
        let is_cut = || pieces::is_cut_differently([&programs[0], &programs[1]], [target, golden], &weights);
        let ends = ends::compare(&found, &same, limit, is_cut);
        if !ends.agree && is_unrelated([our_weights.len(), their_weights.len()], same.len(), &found) {
            let parameters = [our_weights.len() as u64, their_weights.len() as u64];
            return Correspondence::Unrelated(Unrelated { parameters, same: same.len() as u64 });
        }
        if !ends.differing.is_empty() {
            // What is apart by a good part of what the ends are is on the way to them.
            let errors = ends.differing.iter().map(|&pair| found.apart(pair));
            let tight = counterparts(limit.min(errors.fold(f64::INFINITY, f64::min) / ON_THE_WAY.get()));
            let cut = cut::find(&tight, &weights, &ends.differing);
            // Other inputs lead to other results: no call is named where they enter the programs.
            let cut = cut.filter(|cut| !ends.has_other_inputs || !has_entrance(&tight, cut));
            let first = || ends.differing.first().map(|&pair| EndApart::of_values(&found, pair));
            let apart = ends.apart.or_else(first);
            return cut.map_or(Correspondence::Open(apart), |cut| Correspondence::Differ(Box::new(cut)));
        }
        if !ends.agree {
            return Correspondence::Open(ends.apart);
        }
        if let Some(apart) = doubted(&found, &same) {
            return Correspondence::Open(Some(apart));
        }
        let calls = programs[0].ends.calls(&programs[0]);
        let other_weights = weights::other_weights([our_weights, their_weights], &weights, *trained);
        Correspondence::Agree(Agreed {
            ends: calls,
            other_weights,
            differ_in_padding: ends.differ_in_padding,
            hidden: ends.hidden,
        })
    }
}

/// Whether data that only one side has enters its program at a call of a cut, or whether nothing before it agrees.
fn has_entrance(found: &Counterparts<'_>, cut: &Cut) -> bool {
    let given = found.programs.map(|program| {
        let inputs = program.inputs.iter().map(|input| program::print(input.count, &input.numbers));
        inputs.collect::<HashSet<u64>>()
    });
    let enters = |side: usize, calls: &[usize]| {
        let mut entrances = found.programs[side].entrances.iter();
        entrances.any(|(call, input)| calls.contains(call) && !given[1 - side].contains(input))
    };
    cut.after.is_empty() || enters(0, &cut.target) || enters(1, &cut.golden)
}

/// Of programs that compute in a coarse dtype: a result of a parameter that both have, which differs by more than rounding, where
/// final results use up a good part of what rounding accumulates to. That is so much there that it hides other errors.
fn doubted(found: &Counterparts<'_>, weights: &[(&str, &str)]) -> Option<EndApart> {
    let [target, golden] = found.programs;
    if target.unit.max(golden.unit) <= ACCUMULATOR {
        return None;
    }
    let share = |pair: [usize; 2]| {
        let [one, other] = found.pair(pair);
        ratio(found.apart(pair), found.allowed(one, other))
    };
    let ends = target.ends.last.iter().chain(&target.ends.passed);
    let mut ends = ends.filter_map(|&one| Some([one, found.nearest[0][one]?]));
    if !ends.any(|pair| share(pair) > 1.0 / DOUBTED.get()) {
        return None;
    }
    // Calls that add a bias at once, and those that do not, return different results.
    let has_same_weights = |&[one, other]: &[usize; 2]| {
        let [one, other] = found.pair([one, other]);
        target.steps[one.call].weights.len() == golden.steps[other.call].weights.len()
    };
    let anchors = cut::anchors(target, golden, weights).into_iter().filter(has_same_weights);
    anchors.filter(|&pair| share(pair) > 1.0).min().map(|pair| EndApart::of_values(found, pair))
}

/// Whether two programs have next to nothing in common: neither parameters nor results of the forward pass.
fn is_unrelated(parameters: [usize; 2], same: usize, found: &Counterparts<'_>) -> bool {
    let values = || found.programs[0].values.iter().enumerate().filter(|(_, value)| value.is_telling());
    let known = values().filter(|&(value, _)| found.nearest[0][value].is_some()).count();
    let all = values().count();
    parameters.iter().all(|&count| count > 0)
        && (same as f64) * IN_COMMON.get() < parameters[0].min(parameters[1]) as f64
        && (known as f64) * IN_COMMON.get() < all as f64
}

/// Inputs that the two programs cut differently, and what was compared of what follows from them.
pub(super) fn cut_pieces(pair: &ProgramPair<'_>) -> Option<Pieces> {
    pieces::find(pair.programs.each_ref(), pair.calls, &pair.same(), (pair.limit(), pair.noise))
}

/// Which parameters of two programs are the same, by name.
#[derive(Debug, Default)]
pub(super) struct ParameterNames {
    /// Names of the target and of the golden; several of one side, where the other keeps them as one.
    pub(super) pairs: Vec<[Vec<String>; 2]>,
    /// All names.
    pub(super) known: [BTreeSet<String>; 2],
}

/// Finds them by content, in the order in which the golden uses them. `trained`: how far apart they may be.
pub(super) fn parameter_names(calls: [&Calls<'_>; 2], trained: f64) -> ParameterNames {
    let [target, golden] = calls.map(|calls| Program::of(calls, &KeptTensors::default()).weights);
    let singles = weights::same_weights(&target, &golden, trained);
    let joined = weights::joined_weights([&target, &golden], &singles, trained);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
    // One that differs keeps its name, unless it is a part of another.
    let is_joined = |(one, other): &&(&str, &str)| {
        joined.iter().any(|[ours, theirs]| ours.contains(one) || theirs.contains(other))
    };
    let singles = singles.iter().filter(|pair| !is_joined(pair));
    let mut pairs: Vec<[Vec<String>; 2]> =
        singles.map(|&(one, other)| [names(&[one]), names(&[other])]).collect();
    pairs.extend(joined.iter().map(|[ours, theirs]| [names(ours), names(theirs)]));
    ParameterNames { pairs, known: [target, golden].map(|weights| weights.into_keys().collect()) }
}
