//! The part of an optimizer step that leaves a parameter different: the calls of both sides between values that agree and the
//! last write.
//!
//! ```text
//! target   gradient ──► mul_ ──► add_ ──► sqrt ──► truediv ──► sub_ ─────────────► weight   (differs)
//! golden   gradient ──► lerp_ ─► addcmul_ ──► sqrt ──► div ──► add_ ──► addcdiv_ ─► weight
//!                           agree └─────────────── the cut ────────────┘
//! ```
//! Two optimizers make different calls, in another order, for one parameter after the other or for all at once. What they compute
//! for one parameter has its size, so a value of one side is looked for among those that the other computes for it.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ulpscope_dump::{CallKind, Content, Entry, Role};

use super::cut::Cut;
use super::program::Weight;
use crate::native::evidence::call_evidence::place;
use crate::native::evidence::flow::Calls;
use crate::native::evidence::written::Written;
use crate::native::thresholds::rounding::ROUNDINGS;
use crate::native::thresholds::siblings::LEAST_ALLOWED;

/// Values that are looked at on a side, the nearest to the last write first. An update computes some ten for a parameter; what a
/// common norm clips depends on all gradients.
const MOST_VALUES: usize = 256;

/// A value: the call that returned it, and its number among the results of that call.
type ValueId = (usize, String);

/// What a side computes for a parameter.
struct UpdateSteps {
    values: BTreeMap<ValueId, UpdateValue>,
    last: ValueId,
}

struct UpdateValue {
    /// Its statistics; nothing, where they were not recorded.
    statistics: Option<Weight>,
    /// Whether its call wrote it into one of its inputs, as into a running mean.
    is_written: bool,
    /// The values that its call was given, as far as calls returned them.
    inputs: Vec<ValueId>,
}

/// Finds the cut before the last writes into a parameter. Values may be as far apart as `noise` and rounding allow.
pub(in crate::native) fn update_cut(
    calls: [&Calls<'_>; 2],
    written: [&Written; 2],
    noise: f64,
    (error, expected): (f64, f64),
) -> Option<Cut> {
    let target = UpdateSteps::of(calls[0], written[0])?;
    let golden = UpdateSteps::of(calls[1], written[1])?;
    let (ours, after) = target.apart(&golden, noise);
    let (theirs, _) = golden.apart(&target, noise);
    let (ours, named) = ranked(calls[0], &target, &ours);
    let (theirs, golden_named) = ranked(calls[1], &golden, &theirs);
    Some(Cut {
        partner: theirs.first().copied(),
        target: ours,
        named,
        golden: theirs,
        golden_named,
        is_of_both: false,
        is_missing: false,
        may_begin_earlier: false,
        growth: None,
        after,
        before: [target.last.0, golden.last.0],
        non_finite: None,
        error,
        allowed: expected,
    })
}

impl UpdateSteps {
    /// Goes back from the last write.
    fn of(calls: &Calls<'_>, written: &Written) -> Option<UpdateSteps> {
        let &(call, at) = written.by.last()?;
        let mut read: HashMap<usize, Vec<Entry>> = HashMap::from([(call, calls.rank.entries(call).ok()?)]);
        let entry = read[&call].iter().find(|entry| place(entry.role, &entry.path) == at)?;
        // What is written into comes first among the arguments, one tensor for each result.
        let in_list = entry.path.rsplit_once('.').map(|(_, number)| number);
        let last = (call, in_list.unwrap_or("0").to_owned());
        let mut steps = UpdateSteps { values: BTreeMap::new(), last: last.clone() };
        let mut waiting = VecDeque::from([last]);
        while let Some(id) = waiting.pop_front().filter(|_| steps.values.len() < MOST_VALUES) {
            if steps.values.contains_key(&id) {
                continue;
            }
            let entries = read.entry(id.0).or_insert_with(|| calls.rank.entries(id.0).unwrap_or_default());
            let is_tensor = |entry: &&Entry| matches!(entry.content, Content::Tensor(_));
            let of_role =
                |role: Role| entries.iter().filter(move |entry| entry.role == role).filter(is_tensor);
            // Of a call that works on lists, the tensors of one number belong together.
            let has_lists = of_role(Role::Output).nth(1).is_some();
            let belongs =
                |entry: &&Entry| !has_lists || !entry.path.contains('.') || number(&entry.path) == id.1;
            let statistics = of_role(Role::Output).find(|entry| number(&entry.path) == id.1).and_then(weight);
            let inputs = of_role(Role::Input).filter(belongs).filter_map(|entry| producer(calls, entry));
            let inputs: Vec<ValueId> = inputs.filter(|input| *input != id).collect();
            waiting.extend(inputs.iter().cloned());
            let is_written = calls.operation(id.0).is_in_place;
            steps.values.insert(id, UpdateValue { statistics, is_written, inputs });
        }
        Some(steps)
    }

    /// The value of the other side that is the same. What one side writes into a tensor that it keeps is compared with what the
    /// other writes: in a first step, other values may be the same by coincidence.
    fn counterpart<'a>(&'a self, value: &UpdateValue, noise: f64) -> Option<&'a ValueId> {
        let statistics = value.statistics.as_ref()?;
        let is_same = |other: &UpdateValue| {
            let Some(there) = &other.statistics else { return false };
            let allowed = LEAST_ALLOWED.get() * (noise + ROUNDINGS.get() * statistics.unit.max(there.unit));
            other.is_written == value.is_written
                && statistics.distance(there).is_some_and(|distance| distance <= allowed)
        };
        self.values.iter().find(|(id, other)| **id != self.last && is_same(other)).map(|(id, _)| id)
    }

    /// The values before the last write, as far as none has a counterpart, and the calls of those that have, with these.
    fn apart(&self, there: &UpdateSteps, noise: f64) -> (Vec<ValueId>, Vec<[usize; 2]>) {
        let (mut apart, mut after) = (vec![self.last.clone()], Vec::new());
        let mut waiting = vec![self.last.clone()];
        while let Some(id) = waiting.pop() {
            for input in self.values.get(&id).map_or(&[][..], |value| &value.inputs) {
                let value = self.values.get(input);
                match value.and_then(|value| there.counterpart(value, noise)) {
                    Some(other) if !after.contains(&[input.0, other.0]) => after.push([input.0, other.0]),
                    Some(_) => {}
                    None if !apart.contains(input) => {
                        apart.push(input.clone());
                        waiting.push(input.clone());
                    }
                    None => {}
                }
            }
        }
        after.sort_unstable_by(|one, other| other.cmp(one));
        (apart, after)
    }
}

/// Calls, and how many of them compute. First the last write, which shows the difference; then those whose inputs all agree; last
/// those that move elements.
fn ranked(calls: &Calls<'_>, steps: &UpdateSteps, apart: &[ValueId]) -> (Vec<usize>, usize) {
    let moves = |call: usize| {
        let operation = calls.operation(call);
        operation.keeps_places || operation.is_view || operation.reorders
    };
    let inputs = |id: &ValueId| steps.values.get(id).map_or(&[][..], |value| &value.inputs);
    let is_inside = |id: &ValueId| inputs(id).iter().any(|input| apart.contains(input));
    let mut all: Vec<(bool, bool, bool, usize)> =
        apart.iter().map(|id| (moves(id.0), *id != steps.last, is_inside(id), id.0)).collect();
    all.sort_unstable();
    let mut ranked: Vec<usize> = Vec::new();
    for &(_, _, _, call) in &all {
        if !ranked.contains(&call) {
            ranked.push(call);
        }
    }
    let named = ranked.iter().filter(|&&call| !moves(call)).count();
    (ranked, named)
}

/// The number of an entry in a list: `3` of `0.3`.
fn number(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, number)| number)
}

fn weight(entry: &Entry) -> Option<Weight> {
    match &entry.content {
        Content::Tensor(tensor) => Weight::of(tensor),
        _ => None,
    }
}

/// The value that an argument is, if a call of the forward pass or of an optimizer returned it.
fn producer(calls: &Calls<'_>, entry: &Entry) -> Option<ValueId> {
    let Content::Tensor(tensor) = &entry.content else { return None };
    let (call, path) = tensor.source.as_deref()?.rsplit_once(".output.")?;
    let call = calls.rank.find(call)?;
    (calls.rank.calls()[call].kind == CallKind::Forward).then(|| (call, number(path).to_owned()))
}
