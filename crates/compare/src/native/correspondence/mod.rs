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

/// What two programs have in common.
#[derive(Debug)]
pub(super) enum Correspondence {
    /// Their final results agree.
    Agree,
    /// Their final results differ, by what lies between values that agree and the first that do not.
    Differ(Box<Cut>),
    /// Too little was recorded to tell, or what differs is not in the forward pass.
    Open,
}

impl Correspondence {
    pub(super) fn of(target: &Calls<'_>, golden: &Calls<'_>) -> Correspondence {
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
        let counterparts = Counterparts::of([&programs[0], &programs[1]], [target.rank, golden.rank]);
        let ends = ends::compare(&counterparts, &weights);
        if !ends.differing.is_empty() {
            let cut = cut::find(&counterparts, &weights, &ends.differing);
            return cut.map_or(Correspondence::Open, |cut| Correspondence::Differ(Box::new(cut)));
        }
        if ends.agree { Correspondence::Agree } else { Correspondence::Open }
    }
}
