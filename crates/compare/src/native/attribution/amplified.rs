//! Origins whose rounding a function makes much larger.
//!
//! Sine and cosine of a position times a frequency have the absolute error of their argument: rounded to bfloat16, a
//! frequency is off by 0.2 %, and the angle at position 500 by a radian. Nothing is wrong with the functions. The parameter,
//! buffer or input that one side has in a coarser dtype is.

use std::collections::HashSet;

use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::flow::Flow;
use crate::native::evidence::tensor_error::TensorError;
use crate::native::expectation::sensitivity::Sensitivity;
use crate::native::thresholds::amplified::GROWTH;

/// Calls whose arguments are followed back to origins: a bound on time in long runs.
const MOST_CALLS: usize = 256;

/// An origin that one side has in a coarser dtype, and the call that makes its rounding large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::native) struct Amplified {
    /// The unit that takes the origin.
    pub(in crate::native) unit: usize,
    /// The number of the origin among the unit's entries.
    pub(in crate::native) entry: usize,
    /// The relative error of the origin.
    pub(in crate::native) error: f64,
    /// The unit that amplifies it.
    pub(in crate::native) by: usize,
    /// The relative error of its result.
    pub(in crate::native) result: f64,
}

/// Every such origin, at the first unit that takes it, with the call that amplifies it most.
pub(in crate::native) fn amplified(units: &[CallEvidence], flow: &Flow) -> Vec<Amplified> {
    let mut found: Vec<Amplified> = Vec::new();
    let mut followed = 0;
    for (by, unit) in units.iter().enumerate() {
        if unit.is_lone() || !flow.operations[by].family.amplifies() {
            continue;
        }
        let largest = |wanted: &dyn Fn(&EntryEvidence) -> bool| {
            let apart = unit.entries.iter().filter(|entry| wanted(entry) && entry.state == Relation::Apart);
            let errors = apart.filter_map(|entry| entry.numbers.as_ref()).map(TensorError::relative);
            errors.filter(|error| error.is_finite()).fold(0.0, f64::max)
        };
        let (given, result) = (largest(&EntryEvidence::is_taken), largest(&|entry| !entry.is_taken()));
        if given == 0.0 || result < GROWTH.get() * given || followed == MOST_CALLS {
            continue;
        }
        followed += 1;
        for (unit, entry, error) in coarse_origins(by, units, flow) {
            match found.iter_mut().find(|known| (known.unit, known.entry) == (unit, entry)) {
                Some(known) if known.result >= result => {}
                Some(known) => (known.by, known.result) = (by, result),
                None => found.push(Amplified { unit, entry, error, by, result }),
            }
        }
    }
    found
}

/// Origins that a unit's arguments are made of, if they differ by the rounding of one side's dtype: unit, entry, relative
/// error.
fn coarse_origins(start: usize, units: &[CallEvidence], flow: &Flow) -> Vec<(usize, usize, f64)> {
    let mut found = Vec::new();
    let (mut waiting, mut visited) = (vec![start], HashSet::from([start]));
    while let Some(at) = waiting.pop() {
        let apart = units[at].entries.iter().enumerate();
        let apart = apart.filter(|(_, entry)| entry.is_taken() && entry.state == Relation::Apart);
        for (number, entry) in apart {
            let is_origin = entry.sources().iter().all(Source::is_given);
            match entry.numbers.as_ref().map(TensorError::relative) {
                Some(error) if is_origin && entry.is_recast => found.push((at, number, error)),
                _ => {
                    let makers = flow.makers(entry).into_iter().flatten().filter(|&maker| maker < at);
                    waiting.extend(makers.filter(|&maker| visited.insert(maker)));
                }
            }
        }
    }
    found
}
