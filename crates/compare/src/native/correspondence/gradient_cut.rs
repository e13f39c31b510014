//! The call at which the gradients of one program end, of two programs whose forward passes agree.
//!
//! ```text
//! q.weight   k.weight   v.weight ──► linear ──► detach ──► matmul ──► o.weight ──► loss
//! └──── gradients agree ────┘        └ differs  └ the cut             └ agrees
//! ```
//! Every parameter before the call gets another gradient, and none behind it does. What a program detaches on purpose, such as
//! the largest score that a softmax subtracts, changes no gradient.

use std::collections::{BTreeSet, HashSet};

use super::program::Program;
use crate::native::thresholds::correspondence::UNCHANGED_BEFORE_CUT;

/// A call that passes no gradient back.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct CutOff {
    pub(in crate::native) call: usize,
    /// How many calls may be it.
    pub(in crate::native) among: usize,
}

/// Finds the call before which all parameters are that get another gradient, and few that get the same.
pub(super) fn gradient_cut(program: &Program, differing: &[String], agreeing: &[String]) -> Option<CutOff> {
    let takers = program.takers();
    let cuts: Vec<usize> = (0..program.steps.len()).filter(|&call| is_cut(program, call, &takers)).collect();
    let explains = |before: &BTreeSet<&str>| {
        let unchanged = agreeing.iter().filter(|name| before.contains(name.as_str())).count();
        differing.iter().all(|name| before.contains(name.as_str()))
            && unchanged as f64 * UNCHANGED_BEFORE_CUT.get() <= differing.len() as f64
    };
    let found: Vec<usize> =
        cuts.into_iter().filter(|&call| explains(&parameters_before(program, call))).collect();
    // Those nearest to the loss come first in the backward pass; a later cut hides what earlier ones do.
    found.last().map(|&call| CutOff { call, among: found.len() })
}

/// Whether a call returns a float without a gradient from one with a gradient, and what has one is computed from it.
fn is_cut(program: &Program, call: usize, takers: &[Vec<usize>]) -> bool {
    let step = &program.steps[call];
    if !step.is_cut_off || step.is_in_graph {
        return false;
    }
    let mut known: HashSet<usize> = step.returned.iter().copied().collect();
    let mut waiting: Vec<usize> = step.returned.clone();
    while let Some(value) = waiting.pop() {
        for &taker in &takers[value] {
            let taker = &program.steps[taker];
            if taker.is_in_graph {
                return true;
            }
            waiting.extend(taker.returned.iter().copied().filter(|&made| known.insert(made)));
        }
    }
    false
}

/// The parameters from which what a call is given is computed.
fn parameters_before(program: &Program, call: usize) -> BTreeSet<&str> {
    let (mut found, mut known, mut waiting) = (BTreeSet::new(), HashSet::from([call]), vec![call]);
    while let Some(call) = waiting.pop() {
        let step = &program.steps[call];
        found.extend(step.weights.iter().map(String::as_str));
        let makers = step.given.iter().map(|&value| program.values[value].call);
        waiting.extend(makers.filter(|&maker| known.insert(maker)));
    }
    found
}
