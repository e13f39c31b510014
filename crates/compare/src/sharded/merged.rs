//! The ranks of a run as one rank: each entry merged by its rule, when it is asked for.

use std::fmt;
use std::sync::Arc;

use ulpscope_dump::{AssembledTensor, Content, Data, Entry, Error, Problems, Rank, RankView, TensorEntry};
use ulpscope_formats::Tensor;
use ulpscope_formats::json::Json;

use super::completion::{Completions, Elsewhere};
use super::members::{Member, merged_statistics};
use super::ranks::Ranks;
use super::rule::Rule;
use super::survey::{SurveyedCall, SurveyedEntry};
use super::transport::{Exchanged, Transports};
use crate::fact::Statistics;

/// How far statistics may be from those that were computed in one pass: some thousand roundings of float64.
const ROUNDED: f64 = 1e-12;

/// Shows merged entries in the place of those of the first rank.
pub(super) struct Merged {
    pub(super) ranks: Arc<Ranks>,
    pub(super) calls: Arc<Vec<SurveyedCall>>,
    pub(super) transports: Transports,
    pub(super) completions: Completions,
}

impl RankView for Merged {
    fn entries(&self, call: usize) -> Result<Vec<Entry>, Error> {
        let mut entries = self.ranks.first().entries(call)?;
        let surveyed = &self.calls[call].entries;
        let of_ranks = surveyed.iter().any(needs_merging).then(|| self.ranks.entries(call)).flatten();
        for (entry, surveyed) in entries.iter_mut().zip(surveyed) {
            if let Some(complete) = self.completions.instead.get(&(call, entry.name.clone())) {
                entry.content = self.elsewhere(complete).unwrap_or(Content::None);
                continue;
            }
            let merged = of_ranks.as_ref().filter(|_| needs_merging(surveyed)).map(|of_ranks| {
                let members = self.ranks.members(of_ranks, entry);
                members.map(|members| self.merged(&members, surveyed))
            });
            let Content::Tensor(tensor) = &mut entry.content else { continue };
            if let Some(merged) = merged {
                **tensor = merged.unwrap_or_else(|| unmerged(tensor));
            }
            tensor.class = "torch.Tensor".to_owned();
            tensor.source = self.source(tensor.source.take(), surveyed);
        }
        for (entry, from) in self.completions.added.get(&call).into_iter().flatten() {
            let content = self.elsewhere(from).unwrap_or(Content::None);
            let at = entries.iter().rposition(|known| known.role <= entry.role).map_or(0, |at| at + 1);
            entries.insert(at, Entry { content, ..entry.clone() });
        }
        Ok(entries)
    }

    fn problems(&self) -> Problems {
        let mut problems = Problems::default();
        self.ranks.recorded.iter().for_each(|rank| problems.extend(rank.problems()));
        problems
    }
}

/// Whether the first rank does not have all of it.
fn needs_merging(entry: &SurveyedEntry) -> bool {
    let Some(decision) = &entry.decision else { return false };
    match &entry.rule {
        None => true,
        Some(rule) => {
            rule.is_sum() || rule.is_sharded() || rule.only.is_some() || decision.is_equal.contains(&false)
        }
    }
}

impl Merged {
    /// An entry of a call that is left out.
    fn elsewhere(&self, from: &Elsewhere) -> Option<Content> {
        let entries = self.ranks.entries(from.call)?;
        let entry = entries[0].iter().find(|entry| entry.name == from.entry)?;
        let surveyed = self.calls[from.call].entries.iter().find(|surveyed| surveyed.name == from.entry)?;
        let surveyed = SurveyedEntry { rule: Some(from.rule.clone()), ..surveyed.clone() };
        let mut merged = self.merged(&self.ranks.members(&entries, entry)?, &surveyed);
        merged.class = "torch.Tensor".to_owned();
        merged.source = self.source(merged.source.take(), &surveyed);
        Some(Content::Tensor(Box::new(merged)))
    }

    /// Where an entry comes from: a call that is shown, or what the golden calls it. A gathered parameter has no name.
    fn source(&self, source: Option<String>, surveyed: &SurveyedEntry) -> Option<String> {
        let source = self.transports.resolved(source);
        let is_nameless = source.as_ref().is_none_or(|source| source == "outside" || source == "parameter");
        let is_origin = |golden: &&String| golden.contains(':');
        match surveyed.golden_source.as_ref().filter(is_origin).filter(|_| is_nameless && !surveyed.is_output)
        {
            Some(golden) => Some(golden.clone()),
            None => source,
        }
    }

    fn merged(&self, members: &[Member<'_>], surveyed: &SurveyedEntry) -> TensorEntry {
        let first = members[0].tensor;
        let Some(rule) = &surveyed.rule else { return unmerged(first) };
        let grid = &self.ranks.grid;
        let shapes: Option<Vec<Vec<usize>>> = members.iter().map(Member::shape).collect();
        let Some((whole, _)) = shapes.and_then(|shapes| rule.slices(grid, &shapes)) else {
            return unmerged(first);
        };
        let statistics = self.statistics(rule, members, surveyed);
        let has_data = members.iter().all(|member| member.tensor.has_data());
        TensorEntry {
            shape: Some(whole.into_iter().map(|size| size as u64).collect()),
            stats: statistics.map(|number| number.map_or(Json::Null, Json::Float)),
            data: match has_data {
                true => Data::Assembled(Arc::new(Parts {
                    ranks: Arc::clone(&self.ranks),
                    rule: rule.clone(),
                    entries: members.iter().map(|member| member.tensor.clone()).collect(),
                })),
                false => Data::None,
            },
            ..unmerged(first)
        }
    }

    fn statistics(&self, rule: &Rule, members: &[Member<'_>], surveyed: &SurveyedEntry) -> Statistics {
        let merged = merged_statistics(rule, &self.ranks.grid, members);
        if merged != [None; 4] || !rule.is_sum() {
            return match &surveyed.golden_statistics {
                Some(golden) => settled(&merged, golden, surveyed),
                None => merged,
            };
        }
        surveyed.sum.or_else(|| self.exchanged_sum(rule, surveyed)).unwrap_or(merged)
    }

    /// The sum that a collective returned.
    fn exchanged_sum(&self, rule: &Rule, surveyed: &SurveyedEntry) -> Option<Statistics> {
        let named = if surveyed.is_output {
            Some(surveyed.name.clone())
        } else {
            self.transports.resolved(surveyed.source.clone())
        };
        let Exchanged { call, entry, is_mean } = self.transports.sums.get(&named?)?;
        let surveyed = self.calls[*call].entries.iter().find(|surveyed| surveyed.name == *entry)?;
        let entries = self.ranks.entries(*call)?;
        let entry = entries[0].iter().find(|one| one.name == *entry)?;
        let members = self.ranks.members(&entries, entry)?;
        let numbers = merged_statistics(surveyed.rule.as_ref()?, &self.ranks.grid, &members);
        let scale = if *is_mean { 1.0 } else { rule.scale };
        Some(numbers.map(|number| number.map(|number| number * scale)))
    }
}

/// Statistics that follow from those of parts, without the rounding of that: where they are the golden's except for it, they are
/// the golden's.
fn settled(merged: &Statistics, golden: &Statistics, surveyed: &SurveyedEntry) -> Statistics {
    let count = surveyed.shape.iter().product::<u64>().max(1) as f64;
    let norm = golden[3].unwrap_or(0.0).abs();
    let sizes = [0.0, 0.0, norm / count.sqrt(), norm];
    std::array::from_fn(|at| match (merged[at], golden[at]) {
        (Some(ours), Some(theirs)) if (ours - theirs).abs() <= ROUNDED * sizes[at].max(theirs.abs()) => {
            Some(theirs)
        }
        (ours, _) => ours,
    })
}

/// What is left of a tensor whose parts do not belong together.
fn unmerged(tensor: &TensorEntry) -> TensorEntry {
    TensorEntry {
        strides: None,
        stats: [const { Json::Null }; 4],
        digest: None,
        data: Data::None,
        further: Vec::new(),
        mesh: None,
        ..tensor.clone()
    }
}

/// The parts of a tensor on all ranks.
struct Parts {
    ranks: Arc<Ranks>,
    rule: Rule,
    entries: Vec<TensorEntry>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("rule", &self.rule)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

impl AssembledTensor for Parts {
    fn tensor(&self) -> Result<Tensor, Error> {
        let load = |(rank, entry): (&Arc<Rank>, &TensorEntry)| -> Result<Tensor, Error> {
            let missing =
                || Error::whole(ulpscope_formats::Fault::malformed("elements on every rank", "none on one"));
            rank.tensor(entry)?.ok_or_else(missing).map_err(|error| error.in_file(&rank.path))
        };
        let tensors: Vec<Tensor> =
            self.ranks.ranks.iter().zip(&self.entries).map(load).collect::<Result<_, _>>()?;
        self.rule
            .assemble(&self.ranks.grid, &tensors)
            .map_err(|error| error.in_file(&self.ranks.first().path))
    }
}
