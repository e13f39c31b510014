//! Ranks whose result is unlike that of most ranks of the same step.
//!
//! Ranks of one run make the same calls, so that a fault of the program shows on all of them at the same call. One rank
//! that differs from the others points to its own data, weights or device.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use ulpscope_compare::RankResult;

use crate::{Compared, rank_label};

/// Fewer ranks have no majority that means anything.
const FEWEST_RANKS: usize = 3;

/// A rank that is unlike the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviating {
    /// The number of the step.
    pub step: Option<u64>,
    /// The name of the rank's folder.
    pub rank: String,
    /// Step and rank, for people.
    pub label: String,
    /// Its first divergence.
    pub first: Option<String>,
    /// That of most ranks of the step.
    pub others: Option<String>,
}

/// The ranks that are unlike most ranks of their step, in order.
pub fn deviating<S>(compared: &Compared<S>) -> Vec<Deviating> {
    let mut steps: BTreeMap<(bool, Option<u64>), Vec<Found<'_, S>>> = BTreeMap::new();
    for rank in &compared.ranks {
        let Ok((outcome, _)) = &rank.result else { continue };
        let first = outcome.first_divergence().map(|first| first.call.as_str());
        steps.entry((rank.step.is_none(), rank.step)).or_default().push((rank, first));
    }
    steps.into_values().flat_map(|ranks| unlike_most(&ranks)).collect()
}

/// A rank, and its first divergence.
type Found<'a, S> = (&'a RankResult<S>, Option<&'a str>);

fn unlike_most<S>(ranks: &[Found<'_, S>]) -> Vec<Deviating> {
    let mut counts: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    ranks.iter().for_each(|(_, first)| *counts.entry(*first).or_default() += 1);
    let most = counts.into_iter().find(|(_, count)| 2 * count > ranks.len());
    let Some((most, _)) = most.filter(|_| ranks.len() >= FEWEST_RANKS) else { return Vec::new() };
    let unlike = ranks.iter().filter(|(_, first)| *first != most);
    unlike
        .map(|(rank, first)| Deviating {
            step: rank.step,
            rank: rank.target.clone(),
            label: rank_label(rank, true),
            first: first.map(str::to_owned),
            others: most.map(str::to_owned),
        })
        .collect()
}

/// For `result.json`.
pub(crate) fn ranks_unlike_others(all: &[Deviating]) -> Value {
    let one = |one: &Deviating| {
        json!({
            "step": one.step,
            "rank": one.rank,
            "first_divergence": one.first,
            "others": one.others,
        })
    };
    all.iter().map(one).collect()
}
