//! One side of a comparison as a program of values: what each call returned, from which earlier values.
//!
//! Modules that have calls inside them compute nothing themselves and are left out. What the program ends in is found in
//! `final_values.rs`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;
use ulpscope_dump::operators::Family;
use ulpscope_dump::{CallKind, Entry, Role, TensorEntry};

use super::call_tensors::{
    CallTensors, KeptTensors, Made, ParameterUse, Taken, made_at, sizes, tensors, unit,
};
use super::final_values::FinalValues;
use super::inside_backward::inside_backward;
use super::likeness::distance;
use super::returned::ModelCall;
use crate::native::attribution::updates::is_of_optimizer;
use crate::native::evidence::call_evidence::{hashed, place};
use crate::native::evidence::flow::Calls;
use crate::native::evidence::measure::Numbers;
use crate::native::evidence::operation::Operation;
use crate::native::evidence::tensor_error::SpreadShare;
use crate::native::evidence::written::parameter_of;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::thresholds::evidence::TELLING;

/// The name of records of what models returned, as it stands at the end of a step.
const RETURNED: &str = "Returned";

/// Calls whose entries are read together, on all cores: those of a whole rank may not fit into memory.
const READ_TOGETHER: usize = 4096;

/// Results of a call among which one is looked for; of more it is known.
const FEW_RESULTS: usize = 16;

/// The values of calls with many results, by call and place.
type MadeByMany = HashMap<(usize, u64), usize>;

/// What a call returned.
#[derive(Clone, Debug, Default)]
pub(super) struct Value {
    pub(super) call: usize,
    /// Its place among the entries of the call.
    pub(super) place: u64,
    pub(super) count: u64,
    pub(super) numbers: Numbers,
    /// Half a unit in the last place of its dtype, relative; 0 for exact values.
    pub(super) unit: f64,
    /// The dimensions other than 1, as one number.
    pub(super) shape: u64,
    /// The square of the rounding accumulated up to it, relative.
    pub(super) square: f64,
    /// The last parameter that it was computed from, in an order that both programs share; nothing before the first.
    pub(super) stage: Option<u32>,
    /// Whether a call was given it.
    pub(super) is_used: bool,
    /// Whether it was computed from gradients, as an optimizer does.
    pub(super) is_update: bool,
    /// Whether a call wrote into it: it is no more.
    pub(super) is_overwritten: bool,
    /// Whether it was written into what the program keeps: a parameter, a buffer, an input.
    pub(super) is_state: bool,
    /// Whether its elements were recorded.
    pub(super) has_elements: bool,
    /// Of a decision, such as an index or a truth value: the float that it was made from.
    pub(super) decided_from: Option<usize>,
}

impl Value {
    /// How many times as large a norm makes its relative error.
    fn growth(&self) -> f64 {
        let [_, _, mean, norm] = self.numbers;
        let rms = norm.map(|norm| norm / (self.count.max(1) as f64).sqrt());
        mean.zip(rms).map_or(1.0, |(mean, rms)| SpreadShare::of(mean, rms).growth())
    }

    /// Whether its statistics tell it from others.
    pub(super) fn is_telling(&self) -> bool {
        let [max, min, ..] = self.numbers;
        self.unit > 0.0 && self.count as f64 >= TELLING.get() && max.is_some() && max != min
    }
}

/// A parameter, its gradient, or an input of the run.
#[derive(Clone, Debug)]
pub(in crate::native) struct Weight {
    pub(super) count: u64,
    pub(super) numbers: Numbers,
    pub(in crate::native) unit: f64,
    /// The calls that compute from it, in order; not those that update it.
    pub(super) uses: Vec<usize>,
    /// Of a parameter: whether a call that was given it passes a gradient back.
    pub(super) gets_gradient: bool,
}

impl Weight {
    /// What a tensor holds; nothing, where its size is not known.
    pub(in crate::native) fn of(tensor: &TensorEntry) -> Option<Weight> {
        let count = tensor.count()?;
        Some(Weight {
            count,
            numbers: sizes(tensor),
            unit: unit(tensor),
            uses: Vec::new(),
            gets_gradient: false,
        })
    }

    /// Several as one, whatever the order of their elements.
    pub(in crate::native) fn joined(parts: &[&Weight]) -> Option<Weight> {
        let count: u64 = parts.iter().map(|part| part.count).sum();
        let all = |stat: usize| parts.iter().map(|part| part.numbers[stat]).collect::<Option<Vec<f64>>>();
        let means: Option<Vec<f64>> =
            parts.iter().map(|part| Some(part.numbers[2]? * part.count as f64)).collect();
        Some(Weight {
            count,
            numbers: [
                all(0).and_then(|all| all.into_iter().reduce(f64::max)),
                all(1).and_then(|all| all.into_iter().reduce(f64::min)),
                means.map(|means| means.iter().sum::<f64>() / count.max(1) as f64),
                all(3).map(|all| all.iter().map(|norm| norm * norm).sum::<f64>().sqrt()),
            ],
            unit: parts.iter().map(|part| part.unit).fold(0.0, f64::max),
            uses: parts.first()?.uses.clone(),
            gets_gradient: parts.iter().any(|part| part.gets_gradient),
        })
    }

    /// The largest difference of their statistics, relative to their size; nothing for different numbers of elements.
    pub(in crate::native) fn distance(&self, other: &Weight) -> Option<f64> {
        (self.count == other.count).then(|| distance(self.count, &self.numbers, &other.numbers))?
    }

    pub(in crate::native) fn norm(&self) -> f64 {
        self.numbers[3].unwrap_or(0.0)
    }
}

/// What a call works on.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// The values that it was given.
    pub(super) given: Vec<usize>,
    /// The parameters, by name.
    pub(super) weights: Vec<String>,
    /// The values that it returned.
    pub(super) returned: Vec<usize>,
    /// Whether it computes from a parameter, which may have no name.
    pub(super) uses_parameter: bool,
    /// Whether it is given a float that wants a gradient, and returns one that does not.
    pub(super) is_cut_off: bool,
    /// Whether it returns what wants a gradient.
    pub(super) is_in_graph: bool,
}

/// What a call that works in place writes into.
struct Written {
    /// Nothing, if no call made it.
    value: Option<usize>,
}

/// What was read of a call.
enum ReadCall<'a> {
    /// A forward call. The tensors of one with calls inside are asked for its results alone.
    Forward(Cow<'a, CallTensors>),
    /// A call of another kind that a program has values of.
    Record(Vec<Entry>),
    /// A call that computes none of its values.
    Other,
}

/// The forward pass of one side.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) values: Vec<Value>,
    /// By call; empty for calls that are no part of it.
    pub(super) steps: Vec<Step>,
    /// Parameters by name.
    pub(super) weights: BTreeMap<String, Weight>,
    /// Their gradients.
    pub(super) gradients: BTreeMap<String, Weight>,
    /// Whether a backward pass was recorded.
    pub(super) has_backward: bool,
    /// Tensors that the run is given: neither parameters nor results.
    pub(super) inputs: Vec<Weight>,
    /// Calls that are given exact tensors of two dimensions from outside, and no parameter.
    pub(super) may_get_masks: Vec<usize>,
    /// Tensors from outside that calls get together with a parameter, such as indices of its rows: by count and statistics.
    pub(super) indices: HashSet<u64>,
    /// Where data enters the program: calls that get a tensor from outside together with a parameter, and that tensor.
    pub(super) entrances: Vec<(usize, u64)>,
    /// By value: the tensors from outside whose elements it has, perhaps in other places or shapes.
    moved_inputs: HashMap<usize, Vec<u64>>,
    /// What the program ends in.
    pub(super) ends: FinalValues,
    /// The roundoff of most products of matrices.
    pub(super) unit: f64,
    pub(super) operations: Vec<Operation>,
    /// By call: whether it stands for what a step leaves, and computes nothing.
    pub(super) is_step_end: Vec<bool>,
}

impl Program {
    /// `kept`: the tensors of calls, as far as they were kept when calls were read.
    pub(super) fn of(calls: &Calls<'_>, kept: &KeptTensors) -> Program {
        let rank = calls.rank;
        let count = rank.calls().len();
        let parents: Vec<Option<usize>> = (0..count).map(|call| rank.parent_call(call)).collect();
        let mut is_composite = vec![false; count];
        parents.iter().flatten().for_each(|&parent| is_composite[parent] = true);
        // They make gradients, of which those of parameters are compared.
        let of_backward = inside_backward(calls, &parents);
        let mut program = Program {
            values: Vec::new(),
            steps: vec![Step::default(); count],
            weights: BTreeMap::new(),
            gradients: BTreeMap::new(),
            has_backward: rank.calls().iter().any(|call| call.kind == CallKind::Backward),
            inputs: Vec::new(),
            may_get_masks: Vec::new(),
            indices: HashSet::new(),
            entrances: Vec::new(),
            moved_inputs: HashMap::new(),
            ends: FinalValues::default(),
            unit: ACCUMULATOR,
            operations: (0..count).map(|call| calls.operation(call)).collect(),
            is_step_end: rank.calls().iter().map(|call| call.kind == CallKind::StepEnd).collect(),
        };
        let mut made = MadeByMany::new();
        // Modules in no module, with calls inside, and what they returned.
        let mut outermost: Vec<(usize, Vec<Made>)> = Vec::new();
        let entries = |call: usize| rank.entries(call).unwrap_or_default();
        let read = |call: usize| match rank.calls()[call].kind {
            CallKind::Forward if is_composite[call] && parents[call].is_some() => ReadCall::Other,
            CallKind::Forward if of_backward.contains(&call) && !is_composite[call] => ReadCall::Other,
            CallKind::Forward => ReadCall::Forward(match kept.get(call) {
                Some(kept) => Cow::Borrowed(kept),
                None => Cow::Owned(CallTensors::of(calls, call, &entries(call))),
            }),
            CallKind::ParametersGrad | CallKind::StepEnd => ReadCall::Record(entries(call)),
            CallKind::Backward | CallKind::Saved => ReadCall::Other,
        };
        for start in (0..count).step_by(READ_TOGETHER) {
            let together = (start..count.min(start + READ_TOGETHER)).into_par_iter();
            let together: Vec<ReadCall<'_>> = together.map(read).collect();
            for (call, read) in (start..).zip(together) {
                match (rank.calls()[call].kind, read) {
                    (CallKind::ParametersGrad, ReadCall::Record(entries)) => {
                        program.add_gradients(rank.base(rank.calls()[call].base), &entries);
                    }
                    (_, ReadCall::Record(entries)) => program.add_step_end(call, &entries, calls, &made),
                    (_, ReadCall::Forward(tensors)) if is_composite[call] => {
                        outermost.push((call, tensors.into_owned().made));
                    }
                    (_, ReadCall::Forward(tensors)) => program.add_call(call, &tensors, calls, &mut made),
                    (_, ReadCall::Other) => {}
                }
            }
        }
        program.unit = program.usual_unit();
        program.accumulate_rounding();
        program.ends.models =
            program.model_calls(calls, |source| program.made_by(made_at(calls, Some(source)), &made));
        program.ends.models_end = ModelCall::end_of(&program.ends.models);
        program.ends.complete(FinalValues::find(&program, &outermost, &parents));
        program
    }

    fn add_gradients(&mut self, base: &str, entries: &[Entry]) {
        for (entry, tensor) in tensors(entries, |role| role == Role::ParameterGrad) {
            if let Some(weight) = Weight::of(tensor) {
                self.gradients.insert(parameter_of(base, &entry.path), weight);
            }
        }
    }

    fn add_call(&mut self, call: usize, tensors: &CallTensors, calls: &Calls<'_>, made: &mut MadeByMany) {
        let operation = &self.operations[call];
        let (writes, returns_nothing) = (operation.is_in_place, operation.assigns);
        let mut step =
            Step { is_cut_off: tensors.is_cut_off, is_in_graph: tensors.wants_gradient, ..Step::default() };
        // What an optimizer counts and keeps is no result of the program, though no gradient goes into it.
        let mut is_update = is_of_optimizer(calls.rank, call);
        let mut written: Option<Written> = None;
        let (mut given, mut moved, mut may_get_mask) = (Vec::new(), Vec::new(), false);
        for taken in &tensors.taken {
            let mut value = None;
            match taken {
                Taken::Parameter(of) => {
                    let ParameterUse { name, weight, is_in_graph } = &**of;
                    if let Some(weight) = weight {
                        if !self.weights.contains_key(name) {
                            self.weights.insert(name.clone(), weight.clone());
                        }
                        let known = self.weights.get_mut(name);
                        known.into_iter().for_each(|known| {
                            known.gets_gradient |= tensors.goes_back && *is_in_graph;
                        });
                        step.weights.push(name.clone());
                    }
                }
                Taken::Gradient => is_update = true,
                Taken::Outside { tensor, may_be_mask } => {
                    given.extend(tensor.iter().map(|input| print(input.count, &input.numbers)));
                    may_get_mask |= may_be_mask;
                    self.inputs.extend(tensor.as_deref().cloned());
                }
                Taken::Made(source) => value = self.made_by(*source, made),
            }
            if let Some(value) = value {
                self.values[value].is_used = true;
                is_update |= self.values[value].is_update;
                moved.extend(self.moved_inputs.get(&value).into_iter().flatten());
                step.given.push(value);
            }
            // What is written into comes first among the arguments.
            written.get_or_insert(Written { value });
        }
        match step.weights.is_empty() {
            true if may_get_mask => self.may_get_masks.push(call),
            true => {}
            false => {
                self.entrances.extend(given.iter().chain(&moved).map(|&given| (call, given)));
                self.indices.extend(&given);
            }
        }
        let operation = &self.operations[call];
        let moves = operation.reorders || operation.keeps_places || operation.is_view;
        let mut moved: Vec<u64> = given.into_iter().chain(moved).collect();
        moved.sort_unstable();
        moved.dedup();
        let are_moved = moves && step.weights.is_empty() && !moved.is_empty();
        // An optimizer gets parameters in an order of its own.
        let is_use = !is_update && !self.operations[call].is_in_place;
        step.uses_parameter = is_use && tensors.is_given_parameter;
        for name in step.weights.iter().filter(|_| is_use) {
            if let Some(weight) = self.weights.get_mut(name) {
                weight.uses.push(call);
            }
        }
        let written = written.filter(|_| writes || returns_nothing);
        let is_state = written
            .as_ref()
            .is_some_and(|written| written.value.is_none_or(|value| self.values[value].is_state));
        if let Some(value) = written.as_ref().and_then(|written| written.value) {
            self.values[value].is_overwritten = true;
        }
        let float = step.given.iter().copied().find(|&given| self.values[given].unit > 0.0);
        // Decisions may be made of decisions: `a & b`.
        let decided = || step.given.iter().find_map(|&given| self.values[given].decided_from);
        let decided_from = float.or_else(decided);
        for returned in &tensors.made {
            if tensors.made.len() > FEW_RESULTS {
                made.insert((call, returned.place), self.values.len());
            }
            if are_moved {
                self.moved_inputs.insert(self.values.len(), moved.clone());
            }
            step.returned.push(self.values.len());
            let value = returned.value(call);
            let decided_from = decided_from.filter(|_| value.unit == 0.0);
            self.values.push(Value { is_update, is_state, decided_from, ..value });
        }
        // What a call wrote and did not return was not seen.
        if let Some(first) = tensors.first.as_ref().filter(|_| returns_nothing && step.returned.is_empty()) {
            step.returned.push(self.values.len());
            self.values.push(Value { numbers: [None; 4], is_update, is_state, ..first.value(call) });
        }
        self.steps[call] = step;
    }

    /// The value that a call made at a place.
    fn made_by(&self, source: Option<(u32, u64)>, made: &MadeByMany) -> Option<usize> {
        let (maker, at) = source?;
        let maker = maker as usize;
        let returned = &self.steps[maker].returned;
        let found = match returned.len() > FEW_RESULTS {
            true => made.get(&(maker, at)).copied(),
            false if self.is_step_end[maker] => None,
            false => returned.iter().copied().rfind(|&value| self.values[value].place == at),
        };
        // What a call changed in place is what it returned.
        found.or_else(|| returned.first().copied())
    }

    /// Adds what a step leaves behind: values of their own, made of what the last calls that wrote into them made.
    fn add_step_end(&mut self, call: usize, entries: &[Entry], calls: &Calls<'_>, made: &MadeByMany) {
        let is_returned = calls.rank.base(calls.rank.calls()[call].base) == RETURNED;
        let mut step = Step::default();
        for (entry, tensor) in tensors(entries, |role| role == Role::Output) {
            let number = self.values.len();
            if let Some(given) = self.made_by(made_at(calls, tensor.source.as_deref()), made) {
                self.values[given].is_used = true;
                step.given.push(given);
            }
            step.returned.push(number);
            self.values.push(Made::of(place(entry.role, &entry.path), tensor).value(call));
            // The last record of a place is what is left there.
            match is_returned {
                true => self.ends.returned.insert(entry.path.clone(), number),
                false => self.ends.buffers.insert(entry.path.clone(), number),
            };
        }
        self.steps[call] = step;
    }

    /// The middle one of the roundoffs that products of matrices have.
    fn usual_unit(&self) -> f64 {
        let of_products = self
            .values
            .iter()
            .filter(|value| self.operations[value.call].family == Family::Contraction && value.unit > 0.0);
        let mut units: Vec<f64> = of_products.map(|value| value.unit).collect();
        units.sort_by(f64::total_cmp);
        units.get(units.len() / 2).copied().unwrap_or(ACCUMULATOR)
    }

    /// As in a random walk, squares add up along the longest chain. A few calls in a coarser dtype than the run's are
    /// what one looks for, and allow nothing.
    fn accumulate_rounding(&mut self) {
        for call in 0..self.steps.len() {
            let given = self.steps[call].given.iter().map(|&value| &self.values[value]);
            let before = given.clone().map(|value| value.square).fold(0.0, f64::max);
            let most = given.clone().map(|value| value.count).max().unwrap_or(0);
            let is_norm = self.operations[call].family == Family::Norm;
            let growth =
                given.filter(|value| is_norm && value.count == most).map(Value::growth).fold(1.0, f64::max);
            for at in 0..self.steps[call].returned.len() {
                let value = &mut self.values[self.steps[call].returned[at]];
                let unit = value.unit.min(self.unit.max(ACCUMULATOR));
                let own = unit + ACCUMULATOR.min(unit) * (most.max(value.count) as f64).sqrt().sqrt();
                value.square = (before + own * own) * growth * growth;
            }
        }
    }

    /// Numbers the stages of the program: `labels` are the numbers of parameters.
    pub(super) fn number_stages(&mut self, labels: &HashMap<&str, u32>) {
        for step in &self.steps {
            let given = step.given.iter().filter_map(|&value| self.values[value].stage);
            let weights = step.weights.iter().filter_map(|name| labels.get(name.as_str()).copied());
            let stage = given.chain(weights).max();
            for &value in &step.returned {
                self.values[value].stage = stage;
            }
        }
    }

    /// Whether a call computes from a parameter.
    pub(super) fn depends_on_parameters(&self, call: usize) -> bool {
        self.steps[call].returned.iter().any(|&value| self.values[value].stage.is_some())
    }

    /// The calls of some values, in order.
    pub(super) fn calls_of(&self, values: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut calls: Vec<usize> = values.into_iter().map(|value| self.values[value].call).collect();
        calls.sort_unstable();
        calls.dedup();
        calls
    }
}

pub(super) fn print(count: u64, numbers: &Numbers) -> u64 {
    hashed(&(count, numbers.map(|number| number.map(f64::to_bits))))
}
