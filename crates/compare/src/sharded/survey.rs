//! Looks at every call of all ranks once, and decides how its entries are merged.
//!
//! ```text
//! call by call, on all cores: which ranks have the same, what makes the golden's shape ──► Decision
//! in order of execution: sums by contracted shards; what calls of one side pass on     ──► rules
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Content as EntryContent, Entry, Rank, Role, TensorEntry};

use super::decide::{Content, Decision, decide};
use super::members::{Member, measured_statistics};
use super::pairs::partners;
use super::parallel::Grid;
use super::parameters::{ParameterFault, check_parameter};
use super::rule::{Placed, Rule};
use crate::fact::Statistics;
use crate::mapping::Mapping;
use crate::native::recorded;
use crate::pairing::{EntryUnit, PairOptions, pair_entries};

/// The ranks of a run that are merged, and the golden.
pub(super) struct Ranks {
    pub(super) grid: Grid,
    /// By place.
    pub(super) ranks: Vec<Arc<Rank>>,
    /// By place and number of the first rank's call: the number of the same call.
    calls: Vec<Vec<Option<u32>>>,
}

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
}

impl Ranks {
    pub(super) fn of(grid: Grid, ranks: Vec<Arc<Rank>>) -> Ranks {
        let first = Arc::clone(&ranks[0]);
        let calls = ranks.iter().map(|rank| {
            let by_name: HashMap<String, u32> =
                (0..rank.calls().len()).map(|call| (rank.name(call), call as u32)).collect();
            (0..first.calls().len()).map(|call| by_name.get(&first.name(call)).copied()).collect()
        });
        let calls = calls.collect();
        Ranks { grid, ranks, calls }
    }

    pub(super) fn first(&self) -> &Rank {
        &self.ranks[0]
    }

    /// Whether every rank makes a call of the first.
    pub(super) fn has_call(&self, call: usize) -> bool {
        self.calls.iter().all(|calls| calls[call].is_some())
    }

    /// The entries of a call on each rank; nothing where a rank lacks it or it cannot be read.
    pub(super) fn entries(&self, call: usize) -> Option<Vec<Vec<Entry>>> {
        let entries =
            self.ranks.iter().zip(&self.calls).map(|(rank, calls)| rank.entries(calls[call]? as usize).ok());
        entries.collect()
    }

    /// One tensor on every rank, by the entries of a call on each.
    pub(super) fn members<'a>(&'a self, entries: &'a [Vec<Entry>], of: &Entry) -> Option<Vec<Member<'a>>> {
        let member = |(rank, entries): (&'a Arc<Rank>, &'a Vec<Entry>)| {
            let same = entries.iter().find(|entry| entry.role == of.role && entry.path == of.path)?;
            Some(Member { rank, tensor: tensor(same)? })
        };
        self.ranks.iter().zip(entries).map(member).collect()
    }

    /// Surveys all calls. Rules of entries are open where neither shapes nor content tell.
    pub(super) fn survey(&self, golden: &Rank, options: &PairOptions) -> Vec<SurveyedCall> {
        let mut calls: Vec<SurveyedCall> = partners(self.first(), golden, options)
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
        for entry in &entries[0] {
            let Some(members) = tensor(entry).and_then(|_| self.members(&entries, entry)) else {
                surveyed.entries.push(SurveyedEntry::other(entry));
                continue;
            };
            let partner = partners.get(entry.name.as_str()).copied();
            let golden_name = partner.map(|(name, _)| name.to_owned());
            let golden = partner.map(|(_, tensor)| Member { rank: golden, tensor });
            let tensor = members[0].tensor;
            let content = match (kind, parameter(entry, tensor, golden)) {
                (CallKind::Backward | CallKind::ParametersGrad, _) => Content::Gradient,
                (_, Some(_)) => Content::Parameter,
                (_, None) => Content::Value,
            };
            let decision = decide(&self.grid, &members, golden, content);
            if let (Some(name), Some(golden), Some(rule)) =
                (parameter(entry, tensor, golden), golden, &decision.rule)
            {
                surveyed.faults.extend(check_parameter(
                    &self.grid,
                    &members,
                    golden,
                    rule,
                    &name,
                    &entry.name,
                ));
            }
            let is_sharded = decision.rule.as_ref().is_some_and(|rule| rule.is_sharded() && !rule.is_sum());
            let sum = decision.rule.as_ref().filter(|rule| rule.is_sum());
            surveyed.entries.push(SurveyedEntry {
                name: entry.name.clone(),
                source: tensor.source.clone(),
                is_output: entry.role == Role::Output,
                shape: tensor.shape.clone().unwrap_or_default(),
                sum: sum.and_then(|rule| measured_statistics(rule, &self.grid, &members)),
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
