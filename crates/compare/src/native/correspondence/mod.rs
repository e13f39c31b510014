//! Correspondence: which part of one program computes the same as which part of another.
//!
//! A port has other calls, other names and other shapes, so its calls have few partners. What it computes has
//! counterparts all the same, and they are found by content:
//!
//! ```text
//! parameters ──► stages ──► counterparts of values ──► final results agree? ──► the cut, where they do not
//! ```
//! Final results decide whether two programs compute the same. Counterparts decide where they part.

mod counterparts;
mod cut;
mod ends;
mod likeness;
mod program;
mod weights;

use std::collections::HashMap;

use super::flow::Calls;
use counterparts::Counterparts;
pub(super) use cut::Cut;
use program::Program;

/// A value that is apart by less than such a part of the final results is none that leads there.
const ON_THE_WAY: f64 = 16.0;

/// Two programs whose final results agree.
#[derive(Clone, Debug)]
pub(super) struct Agreed {
    /// The calls of the target that returned them.
    pub(super) ends: Vec<usize>,
    /// Parameters of the target and of the golden that the other side does not have with the same content.
    pub(super) other_weights: [Vec<String>; 2],
}

/// What two programs have in common.
#[derive(Debug)]
pub(super) enum Correspondence {
    /// Their final results agree.
    Agree(Agreed),
    /// Their final results differ, by what lies between values that agree and the first that do not.
    Differ(Box<Cut>),
    /// Too little was recorded to tell, or what differs is not in the forward pass.
    Open,
}

impl Correspondence {
    /// `noise`: how far apart two runs of one program are.
    pub(super) fn of(target: &Calls<'_>, golden: &Calls<'_>, noise: f64) -> Correspondence {
        let mut programs = [target, golden].map(Program::of);
        let [ours, theirs] = &programs;
        let (our_weights, their_weights) = (ours.weights.clone(), theirs.weights.clone());
        let weights = weights::same_weights(&our_weights, &their_weights);
        let numbered = || weights.iter().zip(0..);
        let labels: [HashMap<&str, u32>; 2] = [
            numbered().map(|(&(name, _), number)| (name, number)).collect(),
            numbered().map(|(&(_, name), number)| (name, number)).collect(),
        ];
        for (program, labels) in programs.iter_mut().zip(&labels) {
            program.number_stages(labels);
        }
        // Of all digits, two thirds are kept: see `limit.rs`.
        let unit = programs[0].unit.max(programs[1].unit);
        let limit = libm::exp2(libm::log2(2.0 * unit) * 2.0 / 3.0).max(noise);
        let counterparts =
            |limit: f64| Counterparts::of([&programs[0], &programs[1]], [target.rank, golden.rank], limit);
        let found = counterparts(limit);
        let ends = ends::compare(&found, &weights, limit);
        if !ends.differing.is_empty() {
            // What is apart by a good part of what the ends are is on the way to them.
            let errors = ends.differing.iter().map(|&pair| found.apart(pair));
            let tight = counterparts(limit.min(errors.fold(f64::INFINITY, f64::min) / ON_THE_WAY));
            let cut = cut::find(&tight, &weights, &ends.differing);
            return cut.map_or(Correspondence::Open, |cut| Correspondence::Differ(Box::new(cut)));
        }
        if !ends.agree {
            return Correspondence::Open;
        }
        let mut calls: Vec<usize> =
            programs[0].ends.iter().map(|&end| programs[0].values[end].call).collect();
        calls.dedup();
        let other_weights = weights::other_weights([&our_weights, &their_weights], &weights);
        Correspondence::Agree(Agreed { ends: calls, other_weights })
    }
}
