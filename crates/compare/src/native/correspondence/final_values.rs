//! What a program ends in: values that it leaves behind, rather than uses.
//!
//! ```text
//! returned   what a model returned, as it stands at the end of the step, where something was written into it
//! last       values outside all modules that no call uses, after the last module: a loss, a prediction; and what the
//!            outermost modules return, if no call uses it
//! passed     what the outermost modules return and other calls use: where the whole model is not recorded, its parts are;
//!            likewise what an unused call returned as it was, `x.float()` of a float32 `x`, behind the last parameter
//! buffers    what the step leaves in buffers
//! ```
//! Gradients of parameters are final results, too. They are sums over the whole backward pass and belong to no value.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::call_tensors::Made;
use super::program::{Program, Value, print};
use super::returned::ModelCall;

/// The values that a program ends in.
#[derive(Clone, Debug, Default)]
pub(super) struct FinalValues {
    /// By number of the call of the model, and place.
    pub(super) returned: BTreeMap<String, usize>,
    pub(super) last: Vec<usize>,
    pub(super) passed: Vec<usize>,
    /// Values of either kind that the last module returns.
    pub(super) of_last_module: Vec<usize>,
    /// By name.
    pub(super) buffers: BTreeMap<String, usize>,
    /// What the calls of models returned.
    pub(super) models: Vec<ModelCall>,
    /// Whether no module was recorded.
    pub(super) is_without_modules: bool,
    /// How many calls had begun when the last of them returned.
    pub(super) models_end: Option<usize>,
}

impl FinalValues {
    /// Finds the last values of a program, and those that modules pass on. `outermost`: modules in no module, and what they
    /// return.
    pub(super) fn find(
        program: &Program,
        outermost: &[(usize, Vec<Made>)],
        parents: &[Option<usize>],
    ) -> FinalValues {
        let last_module = outermost.last().map(|&(module, _)| module);
        let recorded = &program.ends;
        let step_ends: HashSet<usize> =
            recorded.returned.values().chain(recorded.buffers.values()).copied().collect();
        let is_last = |&number: &usize| {
            let value = &program.values[number];
            is_left(value)
                && is_result(value)
                && parents[value.call].is_none()
                && !program.shows_parameter(value.call)
                && last_module.is_none_or(|last| value.call > last)
                && !step_ends.contains(&number)
        };
        // A call that returned what it was given is no end of what others use.
        let takers = program.takers();
        let leads_to_parameters = program.leads_to_parameters();
        let (mut last, mut passed) = (Vec::new(), Vec::new());
        // After the models returned, it is what the program ends in: a result that is put in order, or scaled by one.
        let shown = |value: usize| program.comes_after_models(value).then_some(value);
        let ends = (0..program.values.len()).filter(is_last);
        for value in ends.filter_map(|value| program.without_copies(value).or_else(|| shown(value))) {
            if !program.goes_on(value, &takers) {
                last.push(value);
            } else if !leads_to_parameters[value] {
                passed.push(value);
            }
        }
        last.extend(recorded.returned.values());
        // A module returns what a call inside it made.
        let mut known: HashMap<u64, usize> = HashMap::new();
        for (number, value) in program.values.iter().enumerate() {
            if is_result(value) && !step_ends.contains(&number) {
                known.insert(print(value.count, &value.numbers), number);
            }
        }
        let mut of_last_module = Vec::new();
        for (module, made) in outermost {
            for made in made {
                let found = known.get(&print(made.count.unwrap_or(0), &made.numbers));
                if let Some(&value) = found {
                    // Dropout in evaluation returns its argument: what uses one uses the other.
                    let copied = program.without_copies(value).unwrap_or(value);
                    match is_left(&program.values[value]) {
                        true if program.goes_on(copied, &takers) => passed.push(copied),
                        true => last.push(value),
                        false => passed.push(value),
                    }
                    if Some(*module) == last_module {
                        of_last_module.push(value);
                    }
                }
            }
        }
        for values in [&mut last, &mut passed] {
            values.sort_unstable();
            values.dedup();
        }
        passed.retain(|value| !last.contains(value) && program.values[*value].unit > 0.0);
        let is_without_modules = outermost.is_empty();
        FinalValues { last, passed, of_last_module, is_without_modules, ..FinalValues::default() }
    }

    /// Adds what was found to what was recorded.
    pub(super) fn complete(&mut self, found: FinalValues) {
        let FinalValues { last, passed, of_last_module, is_without_modules, .. } = found;
        (self.last, self.passed, self.of_last_module) = (last, passed, of_last_module);
        self.is_without_modules = is_without_modules;
    }

    /// The calls that made them, in order.
    pub(super) fn calls(&self, program: &Program) -> Vec<usize> {
        program.calls_of(self.last.iter().chain(&self.passed).copied())
    }
}

/// Whether a value is computed rather than counted or chosen: a float, or a decision that was made from one.
fn is_result(value: &Value) -> bool {
    value.unit > 0.0 || value.decided_from.is_some()
}

/// Whether no call uses a value, and it is none that the program keeps for later.
fn is_left(value: &Value) -> bool {
    !value.is_used && !value.is_update && !value.is_state
}

impl Program {
    /// The value that calls copied, or showed in a different shape, as far back as elements keep their order. Nothing, if a
    /// call returned the same numbers in another way: statistics do not show whether elements have changed places.
    fn without_copies(&self, mut value: usize) -> Option<usize> {
        while let Some(given) = self.copied(value) {
            let operation = &self.operations[self.values[value].call];
            if !operation.keeps_places && !operation.reshapes {
                return None;
            }
            value = given;
        }
        Some(value)
    }

    /// Whether a call only returned a parameter that it was given: `scale.to(device)`.
    fn shows_parameter(&self, call: usize) -> bool {
        let (step, operation) = (&self.steps[call], &self.operations[call]);
        step.uses_parameter && step.given.is_empty() && (operation.keeps_places || operation.reshapes)
    }

    /// Whether a call returned what it was given with its elements in different places.
    pub(super) fn is_moved(&self, value: usize) -> bool {
        let operation = &self.operations[self.values[value].call];
        operation.reorders && !operation.reshapes && !operation.keeps_places && self.copied(value).is_some()
    }

    /// By value: the calls that use it.
    pub(super) fn takers(&self) -> Vec<Vec<usize>> {
        let mut takers = vec![Vec::new(); self.values.len()];
        for (call, step) in self.steps.iter().enumerate() {
            step.given.iter().for_each(|&given| takers[given].push(call));
        }
        takers
    }

    /// By value: whether anything that is computed from it is computed from a parameter, too.
    fn leads_to_parameters(&self) -> Vec<bool> {
        let mut leads = vec![false; self.values.len()];
        for step in self.steps.iter().rev() {
            if !step.weights.is_empty() || step.returned.iter().any(|&made| leads[made]) {
                step.given.iter().for_each(|&given| leads[given] = true);
            }
        }
        leads
    }

    /// Floats of the forward pass that the last call which computes from a parameter returned, or a later one.
    pub(super) fn behind_parameters(&self) -> impl Iterator<Item = usize> {
        let first = self.steps.iter().rposition(|step| step.uses_parameter).unwrap_or(usize::MAX);
        (0..self.values.len()).filter(move |&number| {
            let value = &self.values[number];
            value.unit > 0.0 && !value.is_update && !value.is_state && value.call >= first
        })
    }

    /// Whether anything is computed from a value, or from copies of it.
    pub(super) fn goes_on(&self, value: usize, takers: &[Vec<usize>]) -> bool {
        self.goes_on_in(value, takers, |_| true)
    }

    /// Whether some of the calls compute anything from a value, or from copies of it.
    pub(super) fn goes_on_in(
        &self,
        value: usize,
        takers: &[Vec<usize>],
        is_wanted: impl Fn(usize) -> bool,
    ) -> bool {
        let (mut known, mut waiting) = (HashSet::from([value]), vec![value]);
        while let Some(value) = waiting.pop() {
            let calls = takers[value].iter().copied().filter(|&call| is_wanted(call));
            for &made in calls.flat_map(|call| &self.steps[call].returned) {
                if self.copied(made) != Some(value) {
                    return true;
                }
                if known.insert(made) {
                    waiting.push(made);
                }
            }
        }
        false
    }

    /// The value that a call was given and returned with the same numbers.
    pub(super) fn copied(&self, value: usize) -> Option<usize> {
        let Value { call, count, numbers, .. } = self.values[value];
        let given = self.steps[call].given.iter().copied().filter(|&given| given < value);
        let mut same =
            given.filter(|&given| self.values[given].count == count && self.values[given].numbers == numbers);
        same.find(|_| numbers != [None; 4])
    }
}
