//! One tensor on every rank, and how far it is from the golden's when it is merged by a rule.

use ulpscope_dump::{Rank, TensorEntry};
use ulpscope_formats::Tensor;
use ulpscope_kernels::{Distances, Threads, Tolerance, errors, stats};
use ulpscope_tensor::View;

use super::parallel::Grid;
use super::rule::Rule;
use crate::fact::Statistics;
use crate::native::expectation::rounding::unit_roundoff;
use crate::native::{numbers_of, recorded};

/// How many roundings replicas may be apart: kernels that add in no fixed order.
const REPLICA_ROUNDINGS: f64 = 64.0;

/// How far apart statistics may be, relative to the norm, that are the same except for rounding.
const SAME_STATISTICS: f64 = 1e-5;

/// A tensor as one rank recorded it.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) rank: &'a Rank,
    pub(super) tensor: &'a TensorEntry,
}

impl Member<'_> {
    pub(super) fn shape(&self) -> Option<Vec<usize>> {
        self.tensor.shape.as_ref()?.iter().map(|&size| usize::try_from(size).ok()).collect()
    }

    /// The elements, if they were recorded. What cannot be read is reported when the entry is measured.
    pub(super) fn elements(&self) -> Option<Tensor> {
        self.rank.tensor(self.tensor).ok().flatten()
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(recorded(self.tensor)).filter(|numbers| *numbers != [None; 4])
    }
}

/// Whether two ranks have the same tensor, except for a few roundings.
pub(super) fn is_replica(one: Member<'_>, other: Member<'_>) -> bool {
    if std::ptr::eq(one.tensor, other.tensor) {
        return true;
    }
    if one.tensor.shape != other.tensor.shape || one.tensor.dtype != other.tensor.dtype {
        return false;
    }
    if let (Some(one), Some(other)) = (&one.tensor.digest, &other.tensor.digest)
        && one == other
    {
        return true;
    }
    match (one.statistics(), other.statistics()) {
        (Some(ours), Some(theirs)) => {
            let count = one.tensor.count().unwrap_or(0);
            if !statistics_distance(&ours, &theirs, count).is_some_and(|distance| distance <= SAME_STATISTICS)
            {
                return false;
            }
        }
        (None, None) => {}
        _ => return false,
    }
    let (Some(ours), Some(theirs)) = (one.elements(), other.elements()) else {
        // Nothing says that they differ.
        return one.statistics().is_some() || one.tensor.is_blank || one.tensor.count() == Some(0);
    };
    let unit = unit_roundoff(ours.dtype());
    match distances(&ours.view(), &theirs.view()) {
        Some(found) => {
            found.equal
                || found.max_abs == 0.0 && found.non_finite.mismatched == 0
                || unit > 0.0 && found.rel_l2 <= REPLICA_ROUNDINGS * unit
        }
        None => false,
    }
}

/// How far apart two views are; nothing if their shapes differ.
pub(super) fn distances(one: &View<'_>, other: &View<'_>) -> Option<Distances> {
    let tolerance = Tolerance { atol: 0.0, rtol: 0.0 };
    errors(one, other, tolerance, Threads::One).ok().map(|found| found.distances)
}

/// How far apart two tensors are by max, min, mean and norm, relative to the larger norm or extreme.
pub(super) fn statistics_distance(one: &Statistics, other: &Statistics, count: u64) -> Option<f64> {
    if one == other {
        return Some(0.0);
    }
    let root = (count.max(1) as f64).sqrt();
    let size = |at: usize| one[at].unwrap_or(0.0).abs().max(other[at].unwrap_or(0.0).abs());
    let extreme = size(0).max(size(1));
    let norm = size(3);
    let part = |at: usize, scale: f64| {
        let difference = (one[at]? - other[at]?).abs();
        Some(if difference == 0.0 { 0.0 } else { difference / scale })
    };
    let mean = part(2, (norm / root).max(size(2)));
    let parts = [part(0, extreme), part(1, extreme), mean, part(3, norm)];
    parts
        .into_iter()
        .flatten()
        .reduce(f64::max)
        .map(|found| if found.is_nan() { f64::INFINITY } else { found })
}

/// The statistics of a merged tensor from those of its parts; nothing of a sum of more than one element.
pub(super) fn merged_statistics(rule: &Rule, grid: &Grid, members: &[Member<'_>]) -> Statistics {
    let parts: Vec<Member<'_>> = rule.places(grid).into_iter().map(|place| members[place]).collect();
    let numbers: Vec<Statistics> = parts.iter().map(|part| recorded(part.tensor)).collect();
    let counts: Vec<f64> = parts.iter().map(|part| part.tensor.count().unwrap_or(0) as f64).collect();
    let all = |at: usize| numbers.iter().map(|one| one[at]).collect::<Option<Vec<f64>>>();
    let scaled = |value: f64| value * rule.scale;
    if rule.is_sum() && parts.len() > 1 {
        if counts.iter().any(|&count| count != 1.0) {
            return [None; 4];
        }
        let value = all(0).map(|values| scaled(values.into_iter().sum()));
        return [value, value, value, value];
    }
    if rule.is_norm() {
        let norm = all(0).map(|values| values.iter().map(|value| value * value).sum::<f64>().sqrt());
        return if counts.iter().all(|&count| count == 1.0) { [norm; 4] } else { [None; 4] };
    }
    let folded = |at: usize, fold: fn(f64, f64) -> f64| all(at)?.into_iter().reduce(nan_or(fold)).map(scaled);
    let total: f64 = counts.iter().sum();
    let mean =
        all(2).map(|means| means.iter().zip(&counts).map(|(mean, count)| mean * count).sum::<f64>() / total);
    let norm = all(3).map(|norms| norms.iter().map(|norm| norm * norm).sum::<f64>().sqrt());
    [folded(0, f64::max), folded(1, f64::min), mean.map(scaled), norm.map(scaled)]
}

/// NaN in a part is NaN in the whole.
fn nan_or(fold: fn(f64, f64) -> f64) -> impl Fn(f64, f64) -> f64 {
    move |one, other| if one.is_nan() || other.is_nan() { f64::NAN } else { fold(one, other) }
}

/// The elements of a merged tensor, if all ranks recorded them.
pub(super) fn merged_elements(rule: &Rule, grid: &Grid, members: &[Member<'_>]) -> Option<Tensor> {
    let tensors: Vec<Tensor> = members.iter().map(Member::elements).collect::<Option<_>>()?;
    rule.assemble(grid, &tensors).ok()
}

/// How far a merged tensor is from the golden's, relative to its size; nothing if that cannot be told.
pub(super) fn error(rule: &Rule, grid: &Grid, members: &[Member<'_>], golden: Member<'_>) -> Option<f64> {
    let merged = merged_elements(rule, grid, members).zip(golden.elements());
    if let Some((merged, golden)) = merged {
        let found = distances(&merged.view(), &golden.view())?;
        let is_broken = found.non_finite.mismatched > 0 || found.rel_l2.is_nan();
        return Some(if is_broken { f64::INFINITY } else { found.rel_l2 });
    }
    let merged = Some(merged_statistics(rule, grid, members)).filter(|numbers| *numbers != [None; 4])?;
    statistics_distance(&merged, &golden.statistics()?, golden.tensor.count().unwrap_or(0))
}

/// The statistics of a merged tensor by its elements.
pub(super) fn measured_statistics(rule: &Rule, grid: &Grid, members: &[Member<'_>]) -> Option<Statistics> {
    merged_elements(rule, grid, members).map(|merged| numbers_of(&stats(&merged.view(), Threads::One)))
}
