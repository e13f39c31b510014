//! Calls that the golden does not make: they are left out of the merged rank, and their consumers name what went into them.
//!
//! Most of them only move values between ranks, and of merged values a collective is the identity: the sum of parts is what an
//! all-reduce returns. Each call of the golden still needs its counterpart, so nothing that the golden computes is left out.

use std::collections::HashMap;

use ulpscope_dump::CallKind;

use super::survey::{SurveyedCall, SurveyedEntry};

/// What stands for the results of calls that are left out.
#[derive(Default)]
pub(super) struct Transports {
    /// By number of a call of the first rank.
    pub(super) is_left_out: Vec<bool>,
    /// By name of an entry: the source that it stands for.
    sources: HashMap<String, Option<String>>,
    /// By name of an entry that is a sum: where ranks recorded the sum.
    pub(super) sums: HashMap<String, Exchanged>,
}

/// An entry that has what ranks exchanged.
pub(super) struct Exchanged {
    pub(super) call: usize,
    pub(super) entry: String,
    /// Whether it is their mean, and not their sum.
    pub(super) is_mean: bool,
}

impl Transports {
    pub(super) fn find(calls: &[SurveyedCall]) -> Transports {
        let is_left_out = calls.iter().map(|call| call.partner.is_none()).collect();
        let mut found = Transports { is_left_out, ..Transports::default() };
        for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.partner.is_none()) {
            let inputs = || call.entries.iter().filter(|entry| !entry.is_output && entry.decision.is_some());
            let is_origin = |entry: &&SurveyedEntry| {
                entry
                    .source
                    .as_ref()
                    .is_none_or(|source| source.starts_with("parameter") || source.starts_with("buffer"))
            };
            // What arrives is not what the same call sends.
            if call.is_message() {
                let outputs = call.entries.iter().filter(|entry| entry.is_output);
                found.sources.extend(outputs.map(|entry| (entry.name.clone(), None)));
                continue;
            }
            // What is computed matters more than what it is computed with.
            let Some(main) = inputs().find(|entry| !is_origin(entry)).or_else(|| inputs().next()) else {
                continue;
            };
            let source = found.resolved(main.source.clone());
            for entry in call.entries.iter().filter(|entry| entry.is_output || entry.name == main.name) {
                found.sources.insert(entry.name.clone(), source.clone());
            }
            for output in call.entries.iter().filter(|entry| entry.is_output) {
                let is_summed =
                    call.is_collective() && is_equal(output) && !is_equal(main) && output.shape == main.shape;
                if let (true, Some(source)) = (is_summed, &source) {
                    let sum = Exchanged { call: number, entry: output.name.clone(), is_mean: false };
                    found.sums.entry(source.clone()).or_insert(sum);
                }
            }
        }
        found.exchange_gradients(calls);
        found
    }

    /// The gradient of a parameter that one call uses is, after ranks exchanged it, the mean of what its backward passes
    /// returned.
    fn exchange_gradients(&mut self, calls: &[SurveyedCall]) {
        let numbers: HashMap<&str, usize> =
            calls.iter().enumerate().map(|(number, call)| (call.name.as_str(), number)).collect();
        let mut gradients: HashMap<String, (usize, &str)> = HashMap::new();
        let mut uses: HashMap<&str, Vec<Option<&String>>> = HashMap::new();
        for (number, call) in calls.iter().enumerate() {
            if call.kind == CallKind::ParametersGrad && call.partner.is_some() {
                let module = call.name.split(".parameters_grad").next().unwrap_or_default();
                let path = module
                    .strip_prefix("Module.")
                    .and_then(|path| path.rsplit_once('.'))
                    .map_or("", |(path, _)| path);
                for entry in
                    call.entries.iter().filter(|entry| entry.rule.as_ref().is_some_and(|rule| !rule.is_sum()))
                {
                    let name = entry
                        .name
                        .strip_suffix(".0")
                        .unwrap_or(&entry.name)
                        .rsplit('.')
                        .next()
                        .unwrap_or_default();
                    gradients.insert(format!("{path}.{name}"), (number, &entry.name));
                }
            }
            if call.kind != CallKind::Forward || call.name.starts_with("Module.") || call.partner.is_none() {
                continue;
            }
            // The gradients of a backward call are those of the tensors, in their order.
            let backward = numbers.get(call.name.replacen(".forward", ".backward", 1).as_str());
            let Some(&backward) = backward else { continue };
            let (inputs, outputs) = (tensors(call, false), tensors(&calls[backward], true));
            let outputs = Some(outputs).filter(|outputs| outputs.len() == inputs.len());
            for (at, entry) in inputs.into_iter().enumerate() {
                if let Some(parameter) = named(&entry.source).or_else(|| named(&entry.golden_source)) {
                    let gradient = outputs.as_ref().map(|outputs| &outputs[at].name);
                    uses.entry(parameter).or_default().push(gradient);
                }
            }
        }
        for (parameter, uses) in uses {
            if let ([Some(entry)], Some(&(call, gradient))) = (&uses[..], gradients.get(parameter)) {
                let mean = Exchanged { call, entry: gradient.to_owned(), is_mean: true };
                self.sums.entry((*entry).clone()).or_insert(mean);
            }
        }
    }

    /// The source of an entry, without the calls that are left out.
    pub(super) fn resolved(&self, source: Option<String>) -> Option<String> {
        let source = source?;
        self.sources.get(&source).cloned().unwrap_or(Some(source))
    }
}

/// The tensors among the inputs or the outputs of a call.
fn tensors(call: &SurveyedCall, outputs: bool) -> Vec<&SurveyedEntry> {
    call.entries.iter().filter(|entry| entry.is_output == outputs && entry.decision.is_some()).collect()
}

/// The parameter that a source names.
fn named(source: &Option<String>) -> Option<&str> {
    source.as_deref()?.strip_prefix("parameter:")
}

fn is_equal(entry: &SurveyedEntry) -> bool {
    entry.decision.as_ref().is_some_and(|decision| !decision.is_equal.contains(&false))
}
