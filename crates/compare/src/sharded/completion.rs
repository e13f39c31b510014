//! Results that the ranks complete in a later call: a bias that is added to the sum over ranks, which the golden's call adds.
//! And indices that they make in earlier ones: those into a part of a vocabulary.

use std::collections::HashMap;

use ulpscope_dump::{CallKind, Entry, Rank};

use super::decide::{Content, decide};
use super::members::{Member, error};
use super::ranks::Ranks;
use super::rule::Rule;
use super::survey::{SurveyedCall, SurveyedEntry, tensor};
use super::transport::Transports;

/// How far a completed result may be from the golden's.
const COMPLETE: f64 = 1e-3;

/// Calls that are followed back from indices.
const MAX_STEPS: usize = 16;

/// An entry of a call that is left out.
#[derive(Clone, Debug)]
pub(super) struct Elsewhere {
    pub(super) call: usize,
    pub(super) entry: String,
    /// How it is merged.
    pub(super) rule: Rule,
}

/// What calls show in the place of their own entries, or besides them.
#[derive(Default)]
pub(super) struct Completions {
    /// By call and name of an entry: where an output is complete, and what indices were made from.
    pub(super) instead: HashMap<(usize, String), Elsewhere>,
    /// By call: entries of the golden's that calls left out have, with the golden's role and path.
    pub(super) added: HashMap<usize, Vec<(Entry, Elsewhere)>>,
}

impl Completions {
    pub(super) fn find(
        ranks: &Ranks,
        golden: &Rank,
        calls: &[SurveyedCall],
        transports: &Transports,
    ) -> Completions {
        let mut found = Completions::default();
        let numbers: HashMap<&str, usize> =
            calls.iter().enumerate().map(|(number, call)| (call.name.as_str(), number)).collect();
        let mut consumers: HashMap<String, Vec<usize>> = HashMap::new();
        for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.partner.is_none()) {
            let output = call.entries.iter().find(|entry| entry.is_output && entry.decision.is_some());
            let of = output.and_then(|output| transports.resolved(Some(output.name.clone())));
            if let Some(of) = of.filter(|_| call.kind == CallKind::Forward && !call.is_collective()) {
                consumers.entry(of).or_default().push(number);
            }
        }
        let paired = calls.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Forward);
        for (number, call, partner) in paired.filter_map(|(number, call)| Some((number, call, call.partner?)))
        {
            let Ok(theirs) = golden.entries(partner as usize) else { continue };
            let is_cut_parameter = |entry: &SurveyedEntry| {
                let is_cut = entry.rule.as_ref().is_some_and(Rule::is_sharded);
                is_cut && entry.golden_source.as_ref().is_some_and(|source| source.starts_with("parameter"))
            };
            let is_cut = call.operation == "embedding" && call.entries.iter().any(is_cut_parameter);
            let inputs = call.entries.iter().filter(|entry| is_cut && !entry.is_output && entry.is_paired);
            for entry in inputs {
                let golden_entry = theirs.iter().find(|one| Some(&one.name) == entry.golden.as_ref());
                let made = golden_entry.and_then(|golden_entry| {
                    ranks.indices_before((golden, golden_entry), calls, &numbers, (number, &entry.name))
                });
                if let Some(made) = made {
                    found.instead.insert((number, entry.name.clone()), made);
                }
            }
            for output in call.entries.iter().filter(|entry| entry.is_output && entry.is_paired) {
                let Some(later) = consumers.get(&output.name) else { continue };
                let golden_entry = theirs.iter().find(|entry| Some(&entry.name) == output.golden.as_ref());
                let Some(golden_entry) = golden_entry else { continue };
                let complete = |call: usize, name: &str| {
                    let (rule, error) = ranks.fit(call, &calls[call], name, (golden, golden_entry))?;
                    (error <= COMPLETE).then(|| Elsewhere { call, entry: name.to_owned(), rule })
                };
                if complete(number, &output.name).is_some() {
                    continue;
                }
                let complete = later.iter().find_map(|&later| {
                    let outputs = calls[later].entries.iter().filter(|entry| entry.is_output);
                    outputs.map(|entry| &entry.name).find_map(|name| complete(later, name))
                });
                let Some(complete) = complete else { continue };
                found.add_missing(ranks, (golden, &theirs), calls, (number, complete.call));
                let backward =
                    |call: usize| numbers.get(calls[call].name.replacen(".forward", ".backward", 1).as_str());
                if let (Some(&ours), Some(&later)) = (backward(number), backward(complete.call))
                    && let Some(theirs) =
                        calls[ours].partner.and_then(|partner| golden.entries(partner as usize).ok())
                {
                    found.add_missing(ranks, (golden, &theirs), calls, (ours, later));
                }
                found.instead.insert((number, output.name.clone()), complete);
            }
        }
        found
    }

    /// Adds the golden's entries that a call lacks and a later call has.
    fn add_missing(
        &mut self,
        ranks: &Ranks,
        (golden, theirs): (&Rank, &[Entry]),
        calls: &[SurveyedCall],
        (call, later): (usize, usize),
    ) {
        let Ok(ours) = ranks.first().entries(call) else { return };
        for entry in theirs.iter().filter(|entry| tensor(entry).is_some()) {
            if ours.iter().any(|own| own.role == entry.role && own.path == entry.path) {
                continue;
            }
            let from = calls[later].entries.iter().find_map(|one| {
                let (rule, error) = ranks.fit(later, &calls[later], &one.name, (golden, entry))?;
                (error <= COMPLETE).then(|| Elsewhere { call: later, entry: one.name.clone(), rule })
            });
            let Some(from) = from else { continue };
            let name = entry.name.replacen(&golden_call(entry), &calls[call].name, 1);
            self.added.entry(call).or_default().push((Entry { name, ..entry.clone() }, from));
        }
    }
}

/// The call in the name of an entry.
fn golden_call(entry: &Entry) -> String {
    let words = [".input.", ".output.", ".parameters."];
    let front = words.iter().find_map(|word| entry.name.split_once(word)).map(|(front, _)| front);
    front.unwrap_or(&entry.name).to_owned()
}

impl Ranks {
    /// What the indices of a call were made from, if that is the golden's and they are not: the words, of which each rank knows
    /// those of its part of the vocabulary.
    fn indices_before(
        &self,
        golden: (&Rank, &Entry),
        calls: &[SurveyedCall],
        numbers: &HashMap<&str, usize>,
        (call, name): (usize, &str),
    ) -> Option<Elsewhere> {
        let is_index = tensor(golden.1)?.dtype().is_some_and(|dtype| dtype.is_integer());
        let is_same = |call: usize, name: &str| {
            let (rule, error) = self.fit(call, &calls[call], name, golden)?;
            (error == 0.0).then(|| Elsewhere { call, entry: name.to_owned(), rule })
        };
        if !is_index || is_same(call, name).is_some() {
            return None;
        }
        let entry = calls[call].entries.iter().find(|entry| entry.name == name)?;
        let mut open: Vec<&str> = entry.source.as_deref().into_iter().collect();
        for _ in 0..MAX_STEPS {
            let producer = open.pop()?.split_once(".output.")?.0;
            let before = *numbers.get(producer)?;
            if calls[before].partner.is_some() || calls[before].is_collective() {
                continue;
            }
            let inputs = || calls[before].entries.iter().filter(|entry| !entry.is_output);
            if let Some(found) = inputs().find_map(|entry| is_same(before, &entry.name)) {
                return Some(found);
            }
            // What is computed comes before what it is computed with.
            open.extend(
                inputs().filter_map(|entry| entry.source.as_deref()).collect::<Vec<_>>().iter().rev(),
            );
        }
        None
    }

    /// How an entry is merged to be the golden's, and how far it is from that.
    fn fit(
        &self,
        call: usize,
        surveyed: &SurveyedCall,
        name: &str,
        golden: (&Rank, &Entry),
    ) -> Option<(Rule, f64)> {
        let golden = Member { rank: golden.0, tensor: tensor(golden.1)? };
        let known = surveyed.entries.iter().find(|entry| entry.name == name)?.rule.clone();
        let entries = self.entries(call)?;
        let entry = entries[0].iter().find(|entry| entry.name == name)?;
        let members = self.members(&entries, entry)?;
        let content = if surveyed.kind == CallKind::Backward { Content::Gradient } else { Content::Value };
        let rule = known.or_else(|| decide(&self.grid, &members, Some(golden), content).rule)?;
        let error = error(&rule, &self.grid, &members, golden)?;
        Some((rule, error))
    }
}
