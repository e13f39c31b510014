//! What models return, and whether that is the same on both sides.
//!
//! ```text
//! target   model returns  ("0.logits", "0.hidden")      the same places: each is compared with its like
//! golden   model returns  ("0")                         other places: one side's results must all be among the other's
//! ```
//! Whether the program goes on with a result decides whether it is final: what is computed from it says more then. A
//! program may return any variable that it computes, so that the other program computes one, too, does not make two
//! results the same.

use std::collections::HashMap;

use ulpscope_dump::ModelResults;

use super::counterparts::Counterparts;
use super::program::Program;
use crate::native::evidence::call_evidence::Source;
use crate::native::evidence::flow::Calls;

/// What one call of a model returned.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelCall {
    /// How many calls of the run had begun when it returned.
    begun: usize,
    results: Vec<ModelResult>,
}

#[derive(Clone, Debug)]
struct ModelResult {
    /// Its place in what the call returned: empty for a single tensor.
    path: String,
    /// Nothing, if no recorded call made it.
    value: Option<usize>,
    /// Whether nothing is computed from it afterwards.
    is_final: bool,
}

/// What two models return at one place.
#[derive(Clone, Debug)]
pub(super) struct ReturnedPair {
    pub(super) path: String,
    pub(super) values: [usize; 2],
}

/// What is said of the results of models.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// Final results of both sides that are the same.
    pub(super) same: Vec<[usize; 2]>,
    pub(super) differing: Vec<ReturnedPair>,
}

/// What a dump says that models returned. Where only modules were recorded, what is computed from their results was not.
fn results_of_models(calls: &Calls<'_>) -> Vec<ModelResults> {
    let ledger = calls.rank.ledger().filter(|_| calls.rank.level.as_deref() != Some("L0"));
    ledger.map(|ledger| ledger.returned).unwrap_or_default()
}

impl Program {
    /// The calls of models, where the dump says what they returned. `made_by`: the value that a source names.
    pub(super) fn model_calls(
        &self,
        calls: &Calls<'_>,
        made_by: impl Fn(&str) -> Option<usize>,
    ) -> Vec<ModelCall> {
        let takers = self.takers();
        let of_call = |number: usize, results: &ModelResults| {
            let begun = usize::try_from(results.calls).unwrap_or(usize::MAX);
            let result = |(path, source): &(String, Option<String>)| {
                // What was written into afterwards was recorded as it stood at last.
                let value = self.ends.returned.get(path).copied();
                let value = value.or_else(|| made_by(source.as_deref()?));
                let prefix = number.to_string();
                let path = path.strip_prefix(&prefix).unwrap_or(path).trim_start_matches('.').to_owned();
                let is_final = value.is_some_and(|value| !self.goes_on_after(value, begun, &takers));
                ModelResult { path, value, is_final }
            };
            ModelCall { begun, results: results.results.iter().map(result).collect() }
        };
        results_of_models(calls)
            .iter()
            .enumerate()
            .map(|(number, results)| of_call(number, results))
            .collect()
    }

    /// Whether calls from a number on compute anything from a value, or from copies of it.
    fn goes_on_after(&self, value: usize, begun: usize, takers: &[Vec<usize>]) -> bool {
        let (mut known, mut waiting) = (vec![value], vec![value]);
        while let Some(value) = waiting.pop() {
            for &call in takers[value].iter().filter(|&&call| call >= begun && !self.is_step_end[call]) {
                for &made in &self.steps[call].returned {
                    if self.copied(made) != Some(value) {
                        return true;
                    }
                    if !known.contains(&made) {
                        known.push(made);
                        waiting.push(made);
                    }
                }
            }
        }
        false
    }

    /// Whether a call made a value after the last model returned.
    pub(super) fn comes_after_models(&self, value: usize) -> bool {
        let last = self.ends.models.iter().map(|call| call.begun).max();
        last.is_some_and(|last| self.values[value].call >= last)
    }

    /// Values that models returned, and those that calls made after the last model returned.
    fn is_shown(&self, value: usize) -> bool {
        self.comes_after_models(value) || self.returned().any(|returned| returned == value)
    }

    /// What models returned.
    pub(super) fn returned(&self) -> impl Iterator<Item = usize> {
        self.ends.models.iter().flat_map(|call| &call.results).filter_map(|result| result.value)
    }
}

impl ModelCall {
    fn finals(&self) -> Vec<(&str, usize)> {
        let finals = self.results.iter().filter(|result| result.is_final);
        finals.filter_map(|result| Some((result.path.as_str(), result.value?))).collect()
    }
}

/// Compares what models returned at last. `is_same`: whether two values are.
pub(super) fn compare(counterparts: &Counterparts<'_>, is_same: impl Fn([usize; 2]) -> bool) -> Returned {
    let mut found = Returned::default();
    let models = counterparts.programs.map(|program| &program.ends.models);
    if models.iter().any(|calls| calls.is_empty()) {
        return found;
    }
    let finals = models.map(|calls| {
        let finals = calls.iter().map(ModelCall::finals);
        finals.filter(|finals| !finals.is_empty()).collect::<Vec<Vec<(&str, usize)>>>()
    });
    let paths = |finals: &[(&str, usize)]| {
        let mut paths: Vec<String> = finals.iter().map(|(path, _)| (*path).to_owned()).collect();
        paths.sort_unstable();
        paths
    };
    let [ours, theirs] = &finals;
    let has_same_places =
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| paths(one) == paths(other));
    if has_same_places {
        by_place(ours, theirs, &is_same, &mut found);
    } else {
        by_content(counterparts, &finals, &is_same, &mut found);
    }
    found
}

/// Calls that return the same at every place belong together, whatever their order; others in their order.
fn by_place(
    ours: &[Vec<(&str, usize)>],
    theirs: &[Vec<(&str, usize)>],
    is_same: &impl Fn([usize; 2]) -> bool,
    found: &mut Returned,
) {
    let pairs = |one: &Vec<(&str, usize)>, other: &Vec<(&str, usize)>| {
        let others: HashMap<&str, usize> = other.iter().copied().collect();
        let pair = |&(path, value): &(&str, usize)| {
            others.get(path).map(|&other| ReturnedPair { path: path.to_owned(), values: [value, other] })
        };
        one.iter().filter_map(pair).collect::<Vec<ReturnedPair>>()
    };
    let mut waiting: Vec<usize> = (0..theirs.len()).collect();
    let mut left = Vec::new();
    for (number, one) in ours.iter().enumerate() {
        let agrees = |other: usize| pairs(one, &theirs[other]).iter().all(|pair| is_same(pair.values));
        // The call of the same number first.
        let own = waiting.iter().position(|&other| other == number && agrees(other));
        match own.or_else(|| waiting.iter().position(|&other| agrees(other))) {
            Some(at) => {
                let other = waiting.remove(at);
                found.same.extend(pairs(one, &theirs[other]).into_iter().map(|pair| pair.values));
            }
            None => left.push(one),
        }
    }
    for (one, other) in left.into_iter().zip(waiting) {
        for pair in pairs(one, &theirs[other]) {
            match is_same(pair.values) {
                true => found.same.push(pair.values),
                false => found.differing.push(pair),
            }
        }
    }
}

/// Of models that return different things, one must return all that the other does: it may return more. What one of them
/// returns, the other program may also compute after its model has returned.
fn by_content(
    counterparts: &Counterparts<'_>,
    finals: &[Vec<Vec<(&str, usize)>>; 2],
    is_same: &impl Fn([usize; 2]) -> bool,
    found: &mut Returned,
) {
    let programs = counterparts.programs;
    let shown = programs.map(|program| {
        (0..program.values.len()).filter(|&value| program.is_shown(value)).collect::<Vec<usize>>()
    });
    let mut left: [Vec<(&str, usize)>; 2] = Default::default();
    for (side, calls) in finals.iter().enumerate() {
        for &(path, value) in calls.iter().flatten() {
            let in_order = |other: usize| if side == 0 { [value, other] } else { [other, value] };
            let like = shown[1 - side].iter().copied().find(|&other| is_same(in_order(other)));
            match like {
                Some(other) if side == 0 || !found.same.contains(&in_order(other)) => {
                    found.same.push(in_order(other));
                }
                Some(_) => {}
                None => left[side].push((path, value)),
            }
        }
    }
    let [ours, theirs] = &left;
    let count = |side: usize, value: usize| programs[side].values[value].count;
    let has_like_size = |value: usize| theirs.iter().find(|(_, other)| count(1, *other) == count(0, value));
    let pair = ours.iter().find_map(|&(path, value)| Some((path, value, has_like_size(value)?.1)));
    let first = || Some((ours.first()?.0, ours.first()?.1, theirs.first()?.1));
    // Results of other sizes may be more than the other side returns, unless nothing is the same.
    let nothing = || if found.same.is_empty() { first() } else { None };
    if let Some((path, one, other)) = pair.or_else(nothing) {
        found.differing.push(ReturnedPair { path: path.to_owned(), values: [one, other] });
    }
}

/// Whether two runs return results of different calls, or more on one side. Nothing is said where a dump does not tell.
/// `is_partner`: whether two results, by call and place, are those of two calls that belong together.
pub(in crate::native) fn returns_otherwise(
    calls: [&Calls<'_>; 2],
    is_partner: impl Fn([(usize, u64); 2]) -> bool,
) -> bool {
    let [ours, theirs] = calls.map(results_of_models);
    if ours.is_empty() || theirs.is_empty() {
        return false;
    }
    let results = |of: Vec<ModelResults>, calls: &Calls<'_>| -> Vec<(String, Option<(usize, u64)>)> {
        let results = of.into_iter().flat_map(|call| call.results);
        let made = results.map(|(path, source)| match calls.source(source.as_deref()) {
            Source::Call(call, place) => (path, Some((call, place))),
            // What was given to the model, or not seen.
            _ => (path, None),
        });
        made.collect()
    };
    let (ours, theirs) = (results(ours, calls[0]), results(theirs, calls[1]));
    let mut pairs = ours.iter().zip(&theirs);
    let is_same = pairs.all(|((path, one), (other_path, other))| {
        path == other_path
            && match [one, other] {
                [Some(one), Some(other)] => is_partner([*one, *other]),
                [None, None] => true,
                _ => false,
            }
    });
    ours.len() != theirs.len() || !is_same
}
