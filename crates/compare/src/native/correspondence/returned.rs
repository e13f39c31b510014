//! What models return, and whether that is the same on both sides.
//!
//! ```text
//! target   model returns  ("0.logits", "0.hidden")      the same places: each is compared with its like
//! golden   model returns  ("0")                         other places: one side's results must all be among the other's
//! ```
//! Whether the program goes on with a result decides whether it is final: what is computed from it says more then. A
//! program may return any variable that it computes, so that the other program computes one, too, does not make two
//! results the same.

use std::collections::{HashMap, HashSet};

use ulpscope_dump::ModelResults;

use super::counterparts::{Counterparts, MOST_COMPARED};
use super::ends::{EndApart, EndKind};
use super::likeness::distance;
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
    pub(super) same: Vec<ReturnedPair>,
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
        let of_call = |results: &ModelResults| {
            let begun = usize::try_from(results.calls).unwrap_or(usize::MAX);
            let result = |(path, source): &(String, Option<String>)| {
                // What was written into afterwards was recorded as it stood at last.
                let value = self.ends.returned.get(path).copied();
                let value = value.or_else(|| made_by(source.as_deref()?));
                // The first part is the number of the model's call.
                let path = path.split_once('.').map_or("", |(_, place)| place).to_owned();
                let goes_on = |value: usize| {
                    self.goes_on_in(value, &takers, |call| call >= begun && !self.is_step_end[call])
                };
                let is_final = value.is_some_and(|value| !goes_on(value));
                ModelResult { path, value, is_final }
            };
            ModelCall { begun, results: results.results.iter().map(result).collect() }
        };
        results_of_models(calls).iter().map(of_call).collect()
    }

    /// Whether a call made a value after the last model returned.
    pub(super) fn comes_after_models(&self, value: usize) -> bool {
        self.ends.models_end.is_some_and(|end| self.values[value].call >= end)
    }

    /// Values that models returned, and those that calls made after the last model returned, by number of elements. What is
    /// left in buffers, and what an optimizer makes, is no result.
    fn shown(&self) -> HashMap<u64, Vec<usize>> {
        let returned: HashSet<usize> = self.returned().collect();
        let is_made_afterwards = |number: usize| {
            let value = &self.values[number];
            self.comes_after_models(number)
                && !value.is_update
                && !value.is_state
                && !self.is_step_end[value.call]
        };
        let mut shown: HashMap<u64, Vec<usize>> = HashMap::new();
        for number in
            (0..self.values.len()).filter(|&value| returned.contains(&value) || is_made_afterwards(value))
        {
            shown.entry(self.values[number].count).or_default().push(number);
        }
        shown
    }

    /// What models returned.
    pub(super) fn returned(&self) -> impl Iterator<Item = usize> {
        self.ends.models.iter().flat_map(|call| &call.results).filter_map(|result| result.value)
    }
}

impl ModelCall {
    /// The number of calls that had begun when the last model returned.
    pub(super) fn end_of(models: &[ModelCall]) -> Option<usize> {
        models.iter().map(|call| call.begun).max()
    }

    /// What it returned and nothing is computed from, by place.
    fn finals(&self) -> Finals<'_> {
        let finals = self.results.iter().filter(|result| result.is_final);
        let mut finals: Finals<'_> =
            finals.filter_map(|result| Some((result.path.as_str(), result.value?))).collect();
        finals.sort_unstable();
        finals
    }
}

/// Final results of the call of a model: place and value, in the order of places.
type Finals<'a> = Vec<(&'a str, usize)>;

/// Whether two calls return results at the same places.
fn has_same_places(one: &Finals<'_>, other: &Finals<'_>) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|((one, _), (other, _))| one == other)
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
        finals.filter(|finals| !finals.is_empty()).collect::<Vec<Finals<'_>>>()
    });
    let [ours, theirs] = &finals;
    if ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| has_same_places(one, other)) {
        by_place(counterparts, [ours, theirs], &is_same, &mut found);
    } else {
        by_content(counterparts, &finals, &is_same, &mut found);
    }
    found
}

/// How far apart two values are by their statistics, which are at hand.
fn in_statistics(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> f64 {
    let [one, other] = counterparts.pair(pair);
    if one.count != other.count {
        return f64::INFINITY;
    }
    distance(one.count, &one.numbers, &other.numbers).unwrap_or(f64::INFINITY)
}

/// Those nearest to something, at most as many as are compared by their elements. Elements are read anew each time.
fn nearest_of(others: impl Iterator<Item = usize>, apart: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut others: Vec<(f64, usize)> = others.map(|other| (apart(other), other)).collect();
    let in_order =
        |one: &(f64, usize), other: &(f64, usize)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
    if others.len() > MOST_COMPARED {
        others.select_nth_unstable_by(MOST_COMPARED, in_order);
        others.truncate(MOST_COMPARED);
    }
    others.sort_by(in_order);
    others.into_iter().map(|(_, other)| other).collect()
}

/// Calls that return the same at every place belong together, whatever their order; others in their order.
fn by_place(
    counterparts: &Counterparts<'_>,
    [ours, theirs]: [&[Finals<'_>]; 2],
    is_same: &impl Fn([usize; 2]) -> bool,
    found: &mut Returned,
) {
    let pairs = |one: &Finals<'_>, other: &Finals<'_>| {
        let both = one.iter().zip(other);
        both.map(|(&(path, one), &(_, other))| ReturnedPair { path: path.to_owned(), values: [one, other] })
            .collect::<Vec<ReturnedPair>>()
    };
    let values = |one: &Finals<'_>, other: usize| {
        let both = one.iter().zip(&theirs[other]);
        both.map(|(&(_, one), &(_, other))| [one, other]).collect::<Vec<[usize; 2]>>()
    };
    let agrees = |one: &Finals<'_>, other: usize| {
        has_same_places(one, &theirs[other]) && values(one, other).into_iter().all(is_same)
    };
    let apart = |one: &Finals<'_>, other: usize| {
        let apart = values(one, other).into_iter().map(|pair| in_statistics(counterparts, pair));
        apart.fold(0.0, f64::max)
    };
    // The call of the same number first.
    let (in_order, left): (Vec<usize>, Vec<usize>) =
        (0..ours.len()).partition(|&number| agrees(&ours[number], number));
    for number in in_order {
        found.same.extend(pairs(&ours[number], &theirs[number]));
    }
    let mut waiting = left.clone();
    let mut differing = Vec::new();
    for number in left {
        let one = &ours[number];
        let same_places = waiting.iter().copied().filter(|&other| has_same_places(one, &theirs[other]));
        let nearest = nearest_of(same_places, |other| apart(one, other));
        match nearest.into_iter().find(|&other| other != number && agrees(one, other)) {
            Some(other) => {
                waiting.retain(|&left| left != other);
                found.same.extend(pairs(one, &theirs[other]));
            }
            None => differing.push(number),
        }
    }
    // What is left has the same places as often on both sides.
    for number in differing {
        let one = &ours[number];
        let Some(at) = waiting.iter().position(|&other| has_same_places(one, &theirs[other])) else {
            continue;
        };
        let other = waiting.remove(at);
        for pair in pairs(one, &theirs[other]) {
            match is_same(pair.values) {
                true => found.same.push(pair),
                false => found.differing.push(pair),
            }
        }
    }
}

/// Of models that return different things, one must return all that the other does: it may return more. What one of them
/// returns, the other program may also compute after its model has returned.
fn by_content(
    counterparts: &Counterparts<'_>,
    finals: &[Vec<Finals<'_>>; 2],
    is_same: &impl Fn([usize; 2]) -> bool,
    found: &mut Returned,
) {
    let programs = counterparts.programs;
    let shown = programs.map(Program::shown);
    let mut left: [Finals<'_>; 2] = Default::default();
    let mut known: HashSet<[usize; 2]> = HashSet::new();
    for (side, calls) in finals.iter().enumerate() {
        for &(path, value) in calls.iter().flatten() {
            let in_order = |other: usize| if side == 0 { [value, other] } else { [other, value] };
            let others = shown[1 - side].get(&programs[side].values[value].count);
            let others = others.into_iter().flatten().copied();
            let nearest = nearest_of(others, |other| in_statistics(counterparts, in_order(other)));
            let like = nearest.into_iter().map(in_order).find(|&pair| is_same(pair));
            match like {
                Some(values) if known.insert(values) => {
                    found.same.push(ReturnedPair { path: path.to_owned(), values });
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
    let [ours, theirs] = calls.map(made_results);
    if ours.is_empty() || theirs.is_empty() {
        return false;
    }
    let mut pairs = ours.iter().zip(&theirs);
    let is_same = pairs.all(|((path, one), (other_path, other))| {
        path == other_path
            && match [one, other] {
                [&Made::ByCall(one, place), &Made::ByCall(other, other_place)] => {
                    is_partner([(one, place), (other, other_place)])
                }
                [Made::Elsewhere(_), Made::Elsewhere(_)] => true,
                _ => false,
            }
    });
    ours.len() != theirs.len() || !is_same
}

/// The first parameter or buffer that a model of one run returns where that of the other returns another.
pub(in crate::native) fn other_origin(calls: [&Calls<'_>; 2]) -> Option<EndApart> {
    let [ours, theirs] = calls.map(made_results);
    let mut pairs = ours.into_iter().zip(theirs).filter(|((path, _), (other_path, _))| path == other_path);
    pairs.find_map(|((path, one), (_, other))| match [one, other] {
        [Made::Elsewhere(Some(one)), Made::Elsewhere(Some(other))] if !is_same_name(&one, &other) => {
            let place = path.split_once('.').map_or("", |(_, place)| place).to_owned();
            let what = EndKind::ReturnedOrigin(place, [one, other]);
            Some(EndApart { what, error: f64::INFINITY, allowed: 0.0 })
        }
        _ => None,
    })
}

/// What made the results of models, by place. Two runs may put the keys of a dictionary in different orders.
fn made_results(calls: &Calls<'_>) -> Vec<(String, Made)> {
    let sorted = results_of_models(calls).into_iter().flat_map(|mut call| {
        call.results.sort_unstable();
        call.results
    });
    let made = sorted.map(|(path, source)| match calls.source(source.as_deref()) {
        Source::Call(call, place) => (path, Made::ByCall(call, place)),
        _ => (path, Made::Elsewhere(source)),
    });
    made.collect()
}

/// What made a result of a model.
enum Made {
    /// A call, at a place.
    ByCall(usize, u64),
    /// No recorded call: it was given to the model, or is a parameter or buffer, which has a name.
    Elsewhere(Option<String>),
}

/// Whether two parameters or buffers have the same name. One of them may be that of a module inside another.
fn is_same_name(one: &str, other: &str) -> bool {
    let ends_with = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    match (one.split_once(':'), other.split_once(':')) {
        (Some((kind, one)), Some((other_kind, other))) => {
            kind == other_kind && (ends_with(one, other) || ends_with(other, one))
        }
        _ => one == other,
    }
}
