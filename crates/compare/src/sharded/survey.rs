//! Looks at every call of all ranks once, and decides how its entries are merged.
//!
//! ```text
//! call by call, on all cores: which ranks have the same, what makes the golden's shape ──► Decision
//! in order of execution: sums by contracted shards; what calls of one side pass on     ──► rules
//! ```

use std::collections::HashMap;

use rayon::prelude::*;
use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Content as EntryContent, Entry, Rank, Role, TensorEntry};

use super::decide::{Content, Decision, decide};
use super::members::{Member, measured_statistics, merged_statistics};
use super::pairs::partners;
use super::parameters::{ParameterFault, ParameterFaultKind, StagePlace, check_parameter, other_parameter};
use super::passes::MESSAGES;
use super::ranks::Ranks;
use super::rule::{Placed, Rule};
use crate::fact::Statistics;
use crate::mapping::Mapping;
use crate::native::recorded;
use crate::pairing::{EntryUnit, PairOptions, pair_entries};

/// What is known of an entry of the first rank.
#[derive(Clone, Debug)]
pub(super) struct SurveyedEntry {
    pub(super) name: String,
    pub(super) source: Option<String>,
    pub(super) is_output: bool,
    /// Its shape on the first rank.
    pub(super) shape: Vec<u64>,
    /// Nothing, if it is no tensor.
    pub(super) decision: Option<Decision>,
    pub(super) rule: Option<Rule>,
    /// Whether the golden has it.
    pub(super) is_paired: bool,
    /// Its name in the golden, and its source there.
    pub(super) golden: Option<String>,
    pub(super) golden_source: Option<String>,
    /// The golden's statistics, where those of parts are merged.
    pub(super) golden_statistics: Option<Statistics>,
    /// The statistics of a sum.
    pub(super) sum: Option<Statistics>,
    /// The shape of the golden's, where no rule leads to it.
    pub(super) unfit: Option<Vec<u64>>,
    /// Of the gradient of a parameter: its norm over the golden's.
    pub(super) ratio: Option<f64>,
    /// Whether the first rank has zeros alone.
    pub(super) is_zero: bool,
}

/// What is known of a call of the first rank.
pub(super) struct SurveyedCall {
    pub(super) name: String,
    /// The operation: `linear`.
    pub(super) operation: String,
    pub(super) kind: CallKind,
    /// The golden's call.
    pub(super) partner: Option<u32>,
    pub(super) entries: Vec<SurveyedEntry>,
    pub(super) faults: Vec<ParameterFault>,
}

impl SurveyedCall {
    pub(super) fn is_collective(&self) -> bool {
        self.name.starts_with("Distributed.")
    }

    pub(super) fn is_message(&self) -> bool {
        self.is_collective() && MESSAGES.contains(&self.operation.as_str())
    }
}

impl Ranks {
    /// Surveys all calls. Rules of entries are open where neither shapes nor content tell.
    pub(super) fn survey(&self, golden: &Rank, options: &PairOptions) -> Vec<SurveyedCall> {
        let mut calls: Vec<SurveyedCall> = partners(self, golden, options)
            .into_par_iter()
            .enumerate()
            .map(|(call, partner)| self.survey_call(call, golden, partner))
            .collect();
        self.follow(&mut calls);
        calls
    }

    fn survey_call(&self, call: usize, golden: &Rank, partner: Option<u32>) -> SurveyedCall {
        let first = self.first();
        let kind = first.calls()[call].kind;
        let mut surveyed = SurveyedCall {
            name: first.name(call),
            operation: ApiName::of(first.base(first.calls()[call].base)).operation().to_owned(),
            kind,
            partner,
            entries: Vec::new(),
            faults: Vec::new(),
        };
        let Some(entries) = self.entries(call) else { return surveyed };
        let theirs = partner.and_then(|partner| golden.entries(partner as usize).ok()).unwrap_or_default();
        let partners = entry_partners(&entries[0], &theirs);
        for entry in entries[0].iter() {
            let Some(members) = tensor(entry).and_then(|_| self.members(&entries, entry)) else {
                surveyed.entries.push(SurveyedEntry::other(entry));
                continue;
            };
            let partner = partners.get(entry.name.as_str()).copied();
            let golden_name = partner.map(|(name, _)| name.to_owned());
            let golden = partner.map(|(_, tensor)| Member { rank: golden, tensor });
            let tensor = members[0].tensor;
            let content = match (kind, parameter(entry, tensor, golden)) {
                (CallKind::Backward, _) => Content::Gradient,
                (CallKind::ParametersGrad, _) => Content::ParameterGradient,
                (_, Some(_)) => Content::Parameter,
                (_, None) => Content::Value,
            };
            let grid = self.grid_of(call);
            let decision = decide(grid, &members, golden, content);
            if let (Some(name), Some(golden), Some(rule)) =
                (parameter(entry, tensor, golden), golden, &decision.rule)
            {
                let mut faults = check_parameter(grid, &members, golden, rule, &name, &entry.name);
                if !faults.is_empty() {
                    self.explain_stage(call, &mut faults, (&members, rule), golden.rank);
                }
                surveyed.faults.extend(faults);
            }
            let is_sharded = decision.rule.as_ref().is_some_and(|rule| rule.is_sharded() && !rule.is_sum());
            let sum = decision.rule.as_ref().filter(|rule| rule.is_sum());
            let own = recorded(tensor);
            let unfit =
                golden.filter(|golden| decision.rule.is_none() && golden.tensor.shape != tensor.shape);
            let ratio = golden.zip(decision.rule.as_ref()).filter(|_| kind == CallKind::ParametersGrad);
            let ratio = ratio.and_then(|(golden, rule)| {
                Some(merged_statistics(rule, grid, &members)[3]? / recorded(golden.tensor)[3]?)
            });
            surveyed.entries.push(SurveyedEntry {
                name: entry.name.clone(),
                source: tensor.source.clone(),
                is_output: entry.role == Role::Output,
                shape: tensor.shape.clone().unwrap_or_default(),
                sum: sum.and_then(|rule| measured_statistics(rule, grid, &members)),
                unfit: unfit.and_then(|golden| golden.tensor.shape.clone()),
                ratio: ratio.filter(|ratio| ratio.is_finite()),
                is_zero: own[0] == Some(0.0) && own[1] == Some(0.0),
                rule: decision.rule.clone(),
                decision: Some(decision),
                is_paired: golden.is_some(),
                golden: golden_name,
                golden_source: golden.and_then(|golden| golden.tensor.source.clone()),
                golden_statistics: golden.filter(|_| is_sharded).map(|golden| recorded(golden.tensor)),
            });
        }
        surveyed
    }

    /// Adds the stage to faults of a parameter, and which parameter it is instead.
    fn explain_stage(
        &self,
        call: usize,
        faults: &mut Vec<ParameterFault>,
        (members, rule): (&[Member<'_>], &Rule),
        golden: &Rank,
    ) {
        let Some(joined) = self.joined.as_ref().filter(|_| self.stages() > 1) else { return };
        let stage = self.stage(call);
        for fault in faults.iter_mut() {
            let own = joined.names[stage].own(&fault.parameter);
            let name = own.filter(|own| *own != fault.parameter).map(str::to_owned);
            fault.stage = Some(StagePlace { stage: stage as u64, name });
        }
        let Some(first) = faults.first().cloned() else { return };
        let entries: Vec<(&str, Vec<Entry>, usize)> = joined
            .parameters
            .iter()
            .filter(|used| used.parameter != first.parameter)
            .filter_map(|used| Some((used.parameter.as_str(), golden.entries(used.call).ok()?, used.entry)))
            .collect();
        let others = entries.iter().filter_map(|(name, entries, at)| {
            Some((*name, Member { rank: golden, tensor: tensor(entries.get(*at)?)? }))
        });
        if let Some(found) = other_parameter(self.grid_of(call), members, rule, others) {
            let kind = ParameterFaultKind::OtherParameter { found: found.to_owned(), parameters: 1 };
            *faults = vec![ParameterFault { ranks: self.numbers(call), kind, ..first }];
        }
    }

    /// Settles rules along the flow of data: what is open after looking at each call alone.
    fn follow(&self, calls: &mut [SurveyedCall]) {
        let mut made: HashMap<String, Option<Rule>> = HashMap::new();
        for (number, call) in calls.iter_mut().enumerate() {
            for entry in call.entries.iter_mut().filter(|entry| !entry.is_output && entry.decision.is_some())
            {
                let source = entry.source.as_ref().and_then(|source| made.get(source));
                let is_open = entry.rule.as_ref().is_none_or(|rule| rule.only.is_some());
                if let (true, Some(Some(rule))) = (is_open, source) {
                    entry.rule = Some(rule.clone());
                }
            }
            let contracted = contracted(call, self.grid.sizes.len());
            for at in 0..call.entries.len() {
                let entry = &call.entries[at];
                let is_open = entry.rule.as_ref().is_none_or(|rule| rule.only.is_some());
                if !entry.is_output || entry.decision.is_none() || !is_open {
                    continue;
                }
                let inputs =
                    || call.entries.iter().filter(|input| !input.is_output && input.shape == entry.shape);
                let is_equal =
                    entry.decision.as_ref().map(|decision| decision.is_equal.clone()).unwrap_or_default();
                let passed = || {
                    let mut rule =
                        inputs().find_map(|input| input.rule.clone()).filter(|_| call.partner.is_none())?;
                    // Parts that have become equal were summed.
                    let summed = rule
                        .placed
                        .iter_mut()
                        .zip(is_equal)
                        .filter(|(placed, is_equal)| **placed == Placed::Sum && *is_equal);
                    summed.for_each(|(placed, _)| *placed = Placed::Same);
                    Some(rule)
                };
                if let Some(rule) = contracted.clone().or_else(passed) {
                    call.entries[at].sum =
                        rule.is_sum().then(|| self.sum(number, &call.entries[at].name, &rule)).flatten();
                    call.entries[at].rule = Some(rule);
                }
            }
            for entry in call.entries.iter().filter(|entry| entry.is_output) {
                made.insert(entry.name.clone(), entry.rule.clone());
            }
        }
    }

    fn sum(&self, call: usize, name: &str, rule: &Rule) -> Option<Statistics> {
        let entries = self.entries(call)?;
        let entry = entries[0].iter().find(|entry| entry.name == name)?;
        measured_statistics(rule, &self.grid, &self.members(&entries, entry)?)
    }
}

impl SurveyedEntry {
    fn other(entry: &Entry) -> SurveyedEntry {
        SurveyedEntry {
            name: entry.name.clone(),
            source: None,
            is_output: entry.role == Role::Output,
            shape: Vec::new(),
            decision: None,
            rule: None,
            is_paired: false,
            golden: None,
            golden_source: None,
            golden_statistics: None,
            sum: None,
            unfit: None,
            ratio: None,
            is_zero: false,
        }
    }
}

/// By name of the first rank's entry: the golden's name and tensor.
fn entry_partners<'a>(
    ours: &'a [Entry],
    theirs: &'a [Entry],
) -> HashMap<&'a str, (&'a str, &'a TensorEntry)> {
    let pairs = pair_entries(ours, theirs, &Mapping::default());
    let pairs = pairs.into_iter().filter_map(|unit| match unit {
        EntryUnit::Pair(pair) => {
            Some((pair.target.name.as_str(), (pair.golden.name.as_str(), tensor(pair.golden)?)))
        }
        EntryUnit::TargetOnly { .. } | EntryUnit::GoldenOnly { .. } => None,
    });
    pairs.collect()
}

pub(super) fn tensor(entry: &Entry) -> Option<&TensorEntry> {
    match &entry.content {
        EntryContent::Tensor(tensor) => Some(tensor),
        _ => None,
    }
}

/// The name of a parameter that a call uses as it was before the step.
fn parameter(entry: &Entry, ours: &TensorEntry, golden: Option<Member<'_>>) -> Option<String> {
    let named = |tensor: &TensorEntry| Some(tensor.source.as_ref()?.strip_prefix("parameter:")?.to_owned());
    let is_taken = matches!(entry.role, Role::Input | Role::Parameter);
    named(golden?.tensor)
        .or_else(|| named(ours))
        .filter(|_| is_taken && ours.source.as_ref().is_some_and(|source| source.starts_with("parameter")))
}

/// The rule of a product of matrices whose contracted dimension is cut: each rank has a part of the sum.
fn contracted(call: &SurveyedCall, axes: usize) -> Option<Rule> {
    let factors: Vec<&SurveyedEntry> =
        call.entries.iter().filter(|entry| !entry.is_output && entry.shape.len() >= 2).collect();
    let [one, other, ..] = factors[..] else { return None };
    if call.kind != CallKind::Forward {
        return None;
    }
    let last =
        |entry: &SurveyedEntry, back: usize| Placed::Shard(entry.shape.len().saturating_sub(back) as u8);
    let dims = match call.operation.as_str() {
        "linear" => [last(one, 1), last(other, 1)],
        "matmul" | "__matmul__" | "mm" | "bmm" | "addmm" | "baddbmm" => [last(one, 1), last(other, 2)],
        _ => return None,
    };
    let (one, other) = (one.rule.as_ref()?, other.rule.as_ref()?);
    let mut rule = Rule { placed: vec![Placed::Same; axes], scale: 1.0, only: None };
    for axis in 0..axes {
        rule.placed[axis] = match (one.placed[axis], other.placed[axis]) {
            (one, other) if one == dims[0] && other == dims[1] => Placed::Sum,
            (Placed::Shard(dim), Placed::Same) => Placed::Shard(dim),
            _ => Placed::Same,
        };
    }
    rule.is_sum().then_some(rule)
}
