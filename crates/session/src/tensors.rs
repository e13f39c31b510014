//! Tensors that belong to no call, as those of two checkpoints: how many differ, and which most.

use ulpscope_compare::{Divergence, RankOutcome};

use crate::other_divergences::reason;
use crate::statement::Statement;

/// Tensors that are listed besides the first.
const SHOWN: usize = 5;

/// Those that differ, the largest difference first; among equals in the order of the file.
pub(super) fn by_size(outcome: &RankOutcome) -> Vec<&Divergence> {
    let mut found: Vec<&Divergence> = outcome.divergences.iter().collect();
    found.sort_by(|one, other| distance(other).total_cmp(&distance(one)));
    found
}

/// How far apart the two sides are. Different shapes, and NaN on one side, are farther apart than any numbers.
fn distance(one: &Divergence) -> f64 {
    let measured = one.finding.measure.map(|measure| measure.distance.unwrap_or(measure.error));
    measured.filter(|distance| !distance.is_nan()).unwrap_or(f64::INFINITY)
}

/// How many differ, and which most.
pub(super) fn differ(outcome: &RankOutcome, most: &Divergence) -> Statement {
    let (differ, listed) = (outcome.divergence_count, outcome.divergences.len() as u64);
    Statement::TensorsDiffer {
        differ,
        of: outcome.counts.rows - outcome.counts.not_compared,
        most: most.finding.entry.clone(),
        among: (listed < differ).then_some(listed),
    }
}

/// How far apart it is.
pub(super) fn size(most: &Divergence) -> Vec<Statement> {
    let mut said: Vec<Statement> = most.finding.seen.clone().map(Statement::Measured).into_iter().collect();
    said.extend(most.finding.looks_like.map(Statement::LooksLike));
    said
}

/// The next ones.
pub(super) fn others(outcome: &RankOutcome, by_size: &[&Divergence]) -> Vec<Statement> {
    let listed = by_size.iter().skip(1).take(SHOWN);
    let mut said: Vec<Statement> = listed
        .map(|one| Statement::OtherTensor { name: one.finding.entry.clone(), reason: reason(one) })
        .collect();
    let more = outcome.divergence_count.saturating_sub(1 + SHOWN as u64);
    if more > 0 {
        said.push(Statement::MoreDivergences(more));
    }
    said
}
