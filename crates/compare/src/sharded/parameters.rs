//! Which slice of the golden's parameter each rank holds.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use ulpscope_formats::Tensor;
use ulpscope_tensor::DType;

use super::members::{Member, distances, error, is_replica, merged_statistics, statistics_distance};
use super::parallel::Grid;
use super::rule::{Placed, Rule, Slice};
use crate::native::{limit, recorded};

/// How far statistics of one parameter may be apart on two sides, besides the limit of its dtype.
const SAME: f64 = 1e-5;

/// A parameter that a rank holds, and should not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterFault {
    /// Its name.
    pub parameter: String,
    /// The entry that shows it.
    pub entry: String,
    /// The ranks, in order: one, or those of which one is wrong where statistics cannot tell which.
    pub ranks: Vec<u64>,
    /// What is wrong with it.
    pub kind: ParameterFaultKind,
    /// The stage of a pipeline that has it, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StagePlace>,
}

/// A parameter in a stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagePlace {
    /// The stage, from 0.
    pub stage: u64,
    /// Its name there, if it is not the golden's.
    pub name: Option<String>,
}

/// What is wrong with a parameter of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterFaultKind {
    /// A different slice of the golden's parameter.
    OtherSlice {
        /// Where it is.
        found: ParameterSlice,
        /// Where it should be.
        expected: ParameterSlice,
    },
    /// A different parameter of the golden's.
    OtherParameter {
        /// Which.
        found: String,
        /// How many parameters of these ranks are different ones.
        parameters: u64,
    },
    /// The same slice as these ranks, by its statistics.
    SameAs(Vec<u64>),
    /// Elements that the golden's parameter does not have.
    Differs {
        /// The slice that it should be; nothing if it is all of the parameter.
        expected: Option<ParameterSlice>,
        /// How far it is from that, relative to its size.
        #[serde(with = "crate::number")]
        error: f64,
    },
}

/// Some rows or columns of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterSlice {
    /// The dimension.
    pub dim: u64,
    /// The first.
    pub start: u64,
    /// One after the last.
    pub end: u64,
}

impl ParameterSlice {
    /// In words: `rows 0:32`.
    pub fn words(&self) -> String {
        let what = match self.dim {
            0 => "rows".to_owned(),
            1 => "columns".to_owned(),
            dim => format!("indices of dimension {dim}"),
        };
        format!("{what} {}:{}", self.start, self.end)
    }

    fn of(slice: &Slice, whole: &[usize]) -> Option<ParameterSlice> {
        let cut = |(dim, (range, size)): (usize, (&Range<usize>, &usize))| {
            (range.len() != *size).then_some(ParameterSlice {
                dim: dim as u64,
                start: range.start as u64,
                end: range.end as u64,
            })
        };
        slice.iter().zip(whole).enumerate().find_map(cut)
    }
}

/// The ranks whose part of a parameter is not the golden's.
pub(super) fn check_parameter(
    grid: &Grid,
    members: &[Member<'_>],
    golden: Member<'_>,
    rule: &Rule,
    parameter: &str,
    entry: &str,
) -> Vec<ParameterFault> {
    let fault = |places: Vec<usize>, kind| ParameterFault {
        parameter: parameter.to_owned(),
        entry: entry.to_owned(),
        ranks: numbers(grid, places),
        kind,
        stage: None,
    };
    let Some(shapes) = members.iter().map(Member::shape).collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let rule = Rule { only: None, ..rule.clone() };
    let Some((whole, slices)) = rule.slices(grid, &shapes) else { return Vec::new() };
    if golden.shape().as_ref() != Some(&whole) || rule.is_sum() {
        return Vec::new();
    }
    let allowed = |one: Option<DType>, other: Option<DType>| {
        one.zip(other).map_or(SAME, |(one, other)| limit(one, other))
    };
    let limit = allowed(members[0].tensor.dtype(), golden.tensor.dtype());
    let parts: Option<Vec<Tensor>> = members.iter().map(Member::elements).collect();
    let (Some(parts), Some(full)) = (parts, golden.elements()) else {
        let found = by_statistics(grid, members, golden, &rule, limit);
        let mut found: Vec<ParameterFault> =
            found.into_iter().map(|(places, kind)| fault(places, kind)).collect();
        found.dedup();
        return found;
    };
    let error = |part: &Tensor, slice: &Slice| -> Option<f64> {
        Some(distances(&part.view(), &sliced(&full, slice)?.view())?.rel_l2)
    };
    let mut found = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        let Some(error_here) = error(part, &slices[place]).filter(|error| *error > limit || error.is_nan())
        else {
            continue;
        };
        let expected = ParameterSlice::of(&slices[place], &whole);
        let other = slices.iter().find(|slice| error(part, slice).is_some_and(|error| error <= limit));
        let other = other.and_then(|slice| ParameterSlice::of(slice, &whole));
        let kind = match (other, expected) {
            (Some(found), Some(expected)) => ParameterFaultKind::OtherSlice { found, expected },
            (_, expected) => ParameterFaultKind::Differs { expected, error: error_here },
        };
        let fault = fault(vec![place], kind);
        // A rank computes several pieces of the batch with one parameter.
        if !found.contains(&fault) {
            found.push(fault);
        }
    }
    found
}

/// The numbers of the ranks at these places, each once.
fn numbers(grid: &Grid, places: Vec<usize>) -> Vec<u64> {
    let mut numbers: Vec<u64> = places.into_iter().map(|place| grid.numbers[place]).collect();
    numbers.dedup();
    numbers
}

/// The golden's parameter that ranks have in the place of the one that they should have, if all of them have it.
pub(super) fn other_parameter<'a>(
    grid: &Grid,
    members: &[Member<'_>],
    rule: &Rule,
    others: impl Iterator<Item = (&'a str, Member<'a>)>,
) -> Option<&'a str> {
    let shapes = members.iter().map(Member::shape).collect::<Option<Vec<_>>>()?;
    let rule = Rule { only: None, ..rule.clone() };
    let (whole, _) = rule.slices(grid, &shapes)?;
    let is_one = |(_, other): &(&str, Member<'_>)| {
        let known = members[0].tensor.dtype().zip(other.tensor.dtype());
        let limit = known.map_or(SAME, |(one, other)| limit(one, other)).max(SAME);
        other.shape().as_ref() == Some(&whole)
            && error(&rule, grid, members, *other).is_some_and(|error| error <= limit)
    };
    let mut others = others;
    others.find(is_one).map(|(name, _)| name)
}

/// The same by statistics: those of all parts together are the golden's, or one part is wrong.
fn by_statistics(
    grid: &Grid,
    members: &[Member<'_>],
    golden: Member<'_>,
    rule: &Rule,
    limit: f64,
) -> Vec<(Vec<usize>, ParameterFaultKind)> {
    let theirs = recorded(golden.tensor);
    let count = golden.tensor.count().unwrap_or(0);
    let limit = limit.max(SAME);
    let distance = |ours| statistics_distance(&ours, &theirs, count);
    if !rule.is_sharded() {
        let wrong = (0..grid.len()).filter_map(|place| {
            let error = distance(recorded(members[place].tensor)).filter(|&error| error > limit)?;
            Some((vec![place], ParameterFaultKind::Differs { expected: None, error }))
        });
        return wrong.collect();
    }
    let Some(error) = distance(merged_statistics(rule, grid, members)).filter(|&error| error > limit) else {
        // The first replica of each shard is right, so another that differs from it is wrong.
        let is_other = |&place: &usize| {
            let mut axes = rule.placed.iter().enumerate().filter(|(_, placed)| **placed == Placed::Same);
            axes.any(|(axis, _)| !is_replica(members[grid.first_along(place, axis)], members[place]))
        };
        let wrong = (0..grid.len()).filter(is_other).map(|place| {
            let first = (0..grid.sizes.len())
                .filter(|&axis| rule.placed[axis] == Placed::Same)
                .fold(place, |place, axis| grid.first_along(place, axis));
            let [ours, right] = [place, first].map(|place| recorded(members[place].tensor));
            let count = members[place].tensor.count().unwrap_or(0);
            let error = statistics_distance(&ours, &right, count).unwrap_or(f64::INFINITY);
            (vec![place], ParameterFaultKind::Differs { expected: None, error })
        });
        return wrong.collect();
    };
    let places = rule.places(grid);
    let twin = places.iter().enumerate().find_map(|(at, &place)| {
        let before = places[..at].iter().find(|&&before| is_replica(members[before], members[place]))?;
        Some((vec![place], ParameterFaultKind::SameAs(vec![grid.numbers[*before]])))
    });
    if let Some(twin) = twin {
        return vec![twin];
    }
    // A part cannot reach further than the whole.
    let reaches = |&place: &usize| {
        let ours = recorded(members[place].tensor);
        let size = theirs[0].unwrap_or(0.0).abs().max(theirs[1].unwrap_or(0.0).abs());
        let above = |one: Option<f64>, other: Option<f64>| {
            one.zip(other).is_some_and(|(one, other)| one > other + limit * size)
        };
        above(ours[0], theirs[0]) || above(theirs[1], ours[1]) || above(ours[3], theirs[3])
    };
    let outside: Vec<usize> = places.iter().copied().filter(reaches).collect();
    let suspects = if outside.len() == 1 { outside } else { places };
    vec![(suspects, ParameterFaultKind::Differs { expected: None, error })]
}

/// A part of a tensor, in place.
fn sliced(tensor: &Tensor, slice: &Slice) -> Option<Tensor> {
    let strides = tensor.strides().to_vec();
    let offset: isize = slice.iter().zip(&strides).map(|(range, stride)| range.start as isize * stride).sum();
    let origin = tensor.origin().checked_add_signed(offset)?;
    let shape = slice.iter().map(Range::len).collect();
    Tensor::strided(tensor.dtype(), shape, strides, tensor.storage().clone(), origin).ok()
}
