//! One side of a comparison as a program of values: what each call returned, from which earlier values.
//!
//! Modules that have calls inside them compute nothing themselves and are left out; what the outermost of them return is
//! where the program ends.

use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;
use ulpscope_dump::{CallKind, Content, Entry, Rank, Role, TensorEntry};

use super::super::flow::Calls;
use super::super::measure::{Numbers, recorded};
use super::super::observed::{Source, hashed, place};
use super::super::operation::Operation;
use super::super::rounding::{ACCUMULATOR, unit_roundoff};
use super::super::sensitivity::Family;

/// How dumps name a parameter that a call was given.
const PARAMETER: &str = "parameter:";

/// Likewise what lies in the `.grad` of a parameter.
const GRADIENT: &str = "gradient:";

/// Likewise what nothing recorded made.
const OUTSIDE: &str = "outside";

/// Calls whose entries are read together, on all cores: those of a whole rank may not fit into memory.
const READ_TOGETHER: usize = 4096;

/// What a call returned.
#[derive(Clone, Debug)]
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
}

impl Value {
    /// Whether its statistics tell it from others.
    pub(super) fn is_telling(&self) -> bool {
        let [max, min, ..] = self.numbers;
        self.unit > 0.0 && self.count >= 4 && max.is_some() && max != min
    }
}

/// A parameter, its gradient, or an input of the run.
#[derive(Clone, Debug)]
pub(super) struct Weight {
    pub(super) count: u64,
    pub(super) numbers: Numbers,
    pub(super) unit: f64,
    /// The calls that were given it, in order.
    pub(super) uses: Vec<usize>,
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
    /// The values that the outermost modules return, and values outside all modules that no call uses.
    pub(super) ends: Vec<usize>,
    /// The roundoff of most products of matrices.
    pub(super) unit: f64,
    pub(super) operations: Vec<Operation>,
}

impl Program {
    pub(super) fn of(calls: &Calls<'_>) -> Program {
        let rank = calls.rank;
        let count = rank.calls().len();
        let parents: Vec<Option<usize>> =
            (0..count).map(|call| rank.parent(call).and_then(|name| calls.named(&name))).collect();
        let composite: HashSet<usize> = parents.iter().flatten().copied().collect();
        let mut program = Program {
            values: Vec::new(),
            steps: vec![Step::default(); count],
            weights: BTreeMap::new(),
            gradients: BTreeMap::new(),
            has_backward: rank.calls().iter().any(|call| call.kind == CallKind::Backward),
            inputs: Vec::new(),
            ends: Vec::new(),
            unit: ACCUMULATOR,
            operations: (0..count).map(|call| calls.operation(call)).collect(),
        };
        let mut made: HashMap<(usize, u64), usize> = HashMap::new();
        let mut outermost: Vec<usize> = Vec::new();
        for start in (0..count).step_by(READ_TOGETHER) {
            let read = (start..count.min(start + READ_TOGETHER)).into_par_iter();
            let read: Vec<Vec<Entry>> = read.map(|call| rank.entries(call).unwrap_or_default()).collect();
            for (call, entries) in (start..).zip(&read) {
                match rank.calls()[call].kind {
                    CallKind::ParametersGrad => {
                        program.add_gradients(rank.base(rank.calls()[call].base), entries);
                    }
                    CallKind::Forward if composite.contains(&call) => {
                        if parents[call].is_none() {
                            outermost.push(call);
                        }
                    }
                    CallKind::Forward => program.add_call(call, entries, calls, &mut made),
                    CallKind::Backward | CallKind::Saved => {}
                }
            }
        }
        program.unit = program.usual_unit();
        program.accumulate_rounding();
        program.find_ends(rank, &outermost, &parents);
        program
    }

    fn add_gradients(&mut self, base: &str, entries: &[Entry]) {
        // `Module.layers.0.fc.Linear` has `layers.0.fc.weight`.
        let module = base.split_once('.').map_or(base, |(_, path)| path);
        let module = module.rsplit_once('.').map_or("", |(path, _)| path);
        for (entry, tensor) in tensors(entries, |role| role == Role::ParameterGrad) {
            let name = entry.path.strip_suffix(".0").unwrap_or(&entry.path);
            let name = if module.is_empty() { name.to_owned() } else { format!("{module}.{name}") };
            if let Some(weight) = weight(tensor) {
                self.gradients.insert(name, weight);
            }
        }
    }

    fn add_call(
        &mut self,
        call: usize,
        entries: &[Entry],
        calls: &Calls<'_>,
        made: &mut HashMap<(usize, u64), usize>,
    ) {
        let mut step = Step::default();
        let mut is_update = false;
        for (_, tensor) in tensors(entries, |role| matches!(role, Role::Input | Role::Parameter)) {
            if let Some(name) = tensor.source.as_deref().and_then(|source| source.strip_prefix(PARAMETER)) {
                let Some(weight) = weight(tensor) else { continue };
                self.weights.entry(name.to_owned()).or_insert(weight).uses.push(call);
                step.weights.push(name.to_owned());
            } else if tensor.source.as_deref().is_some_and(|source| source.starts_with(GRADIENT)) {
                is_update = true;
            } else if tensor.source.as_deref() == Some(OUTSIDE) {
                self.inputs.extend(weight(tensor));
            } else if let Source::Call(maker, at) = calls.source(tensor.source.as_deref()) {
                // What a call changed in place is what it returned.
                let first = || self.steps[maker].returned.first();
                if let Some(&value) = made.get(&(maker, at)).or_else(first) {
                    self.values[value].is_used = true;
                    is_update |= self.values[value].is_update;
                    step.given.push(value);
                }
            }
        }
        for (entry, tensor) in tensors(entries, |role| role == Role::Output) {
            let place = place(entry.role, &entry.path);
            made.insert((call, place), self.values.len());
            step.returned.push(self.values.len());
            self.values.push(Value {
                call,
                place,
                count: tensor.count().unwrap_or(0),
                numbers: sizes(tensor),
                unit: unit(tensor),
                shape: shape(tensor),
                square: 0.0,
                stage: None,
                is_used: false,
                is_update,
            });
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
            let most = given.map(|value| value.count).max().unwrap_or(0);
            for at in 0..self.steps[call].returned.len() {
                let value = &mut self.values[self.steps[call].returned[at]];
                let unit = value.unit.min(self.unit.max(ACCUMULATOR));
                let own = unit + ACCUMULATOR.min(unit) * (most.max(value.count) as f64).sqrt().sqrt();
                value.square = before + own * own;
            }
        }
    }

    fn find_ends(&mut self, rank: &Rank, outermost: &[usize], parents: &[Option<usize>]) {
        let last = outermost.last().copied();
        let is_end = |value: &Value| {
            !value.is_used
                && !value.is_update
                && !self.operations[value.call].is_in_place
                && value.unit > 0.0
                && parents[value.call].is_none()
                && last.is_none_or(|last| value.call > last)
                && !self.returns_argument(value)
        };
        let mut ends: Vec<usize> =
            (0..self.values.len()).filter(|&value| is_end(&self.values[value])).collect();
        // A module returns what a call inside it made.
        let mut known: HashMap<u64, usize> = HashMap::new();
        for (number, value) in self.values.iter().enumerate().filter(|(_, value)| value.unit > 0.0) {
            known.insert(print(value.count, &value.numbers), number);
        }
        for &module in outermost {
            let entries = rank.entries(module).unwrap_or_default();
            for (_, tensor) in tensors(&entries, |role| role == Role::Output) {
                ends.extend(known.get(&print(tensor.count().unwrap_or(0), &sizes(tensor))));
            }
        }
        ends.sort_unstable();
        ends.dedup();
        self.ends = ends;
    }

    /// Whether a call returned what it was given.
    fn returns_argument(&self, value: &Value) -> bool {
        self.steps[value.call].given.iter().any(|&given| {
            let given = &self.values[given];
            given.count == value.count && given.numbers == value.numbers
        })
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

fn tensors(entries: &[Entry], wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = (&Entry, &TensorEntry)> {
    entries.iter().filter(move |entry| wanted(entry.role)).filter_map(|entry| match &entry.content {
        Content::Tensor(tensor) => Some((entry, &**tensor)),
        _ => None,
    })
}

fn weight(tensor: &TensorEntry) -> Option<Weight> {
    let count = tensor.count()?;
    Some(Weight { count, numbers: sizes(tensor), unit: unit(tensor), uses: Vec::new() })
}

/// The statistics of a tensor. The norm of a single number is recorded with its sign.
fn sizes(tensor: &TensorEntry) -> Numbers {
    let [max, min, mean, norm] = recorded(tensor);
    [max, min, mean, norm.map(f64::abs)]
}

fn unit(tensor: &TensorEntry) -> f64 {
    tensor.dtype().map_or(0.0, unit_roundoff)
}

fn shape(tensor: &TensorEntry) -> u64 {
    let dimensions = tensor.shape.iter().flatten().filter(|&&size| size != 1);
    hashed(&dimensions.collect::<Vec<&u64>>())
}

fn print(count: u64, numbers: &Numbers) -> u64 {
    hashed(&(count, numbers.map(|number| number.map(f64::to_bits))))
}
