//! Every call of either side once, in the target's order, with a reason if it is unpaired.

use std::collections::{HashMap, HashSet};

use ulpscope_dump::CallKind;

use super::links::Links;
use super::names::{Names, SideNames};
use super::recompute;
use super::{CallPair, Matching, Reason, Unit};
use crate::style::Side;

/// Lays out the units. `compiled` says for the calls of both sides whether the other ran them in a compiled module.
pub(super) fn lay_out(
    names: &Names,
    links: &Links,
    matching: Matching,
    compiled: [Vec<bool>; 2],
) -> Vec<Unit> {
    let [in_target, in_golden] = compiled;
    let mut ours = Alone::of(&names.target, &names.golden, Side::Golden, matching, in_target);
    let mut theirs = Alone::of(&names.golden, &names.target, Side::Target, matching, in_golden);
    // A running module is listed where it began, but its counterpart after all calls inside it.
    let has_ended = |target, golden| !names.target.is_running(target) && !names.golden.is_running(golden);
    ours.last_paired = (0..names.target.len())
        .rfind(|&call| links.golden(call).is_some_and(|(golden, _)| has_ended(call, golden)));
    theirs.last_paired = (0..names.golden.len())
        .rfind(|&call| links.target(call).is_some_and(|target| has_ended(target, call)));
    // Calls that only the golden has follow the nearest paired call before them.
    let mut golden_only: Vec<(Option<usize>, usize)> = Vec::new();
    let mut before = None;
    for golden in 0..names.golden.len() {
        match links.target(golden) {
            Some(target) => before = Some(target),
            None => golden_only.push((before, golden)),
        }
    }
    golden_only.sort_by_key(|(before, _)| *before);
    let mut golden_only = golden_only.into_iter().peekable();
    let mut units = Vec::with_capacity(names.target.len() + golden_only.len());
    let mut insert = |units: &mut Vec<Unit>, place: Option<usize>| {
        while let Some((_, call)) = golden_only.next_if(|(before, _)| *before <= place) {
            let forward_paired =
                names.golden.forward(call).is_some_and(|forward| links.target(forward).is_some());
            units.push(Unit::GoldenOnly { call, reason: theirs.reason(call, forward_paired) });
        }
    };
    insert(&mut units, None);
    for call in 0..names.target.len() {
        units.push(match links.golden(call) {
            Some((golden, how)) => Unit::Pair(CallPair { target: call, golden, how }),
            None => {
                let forward_paired =
                    names.target.forward(call).is_some_and(|forward| links.golden(forward).is_some());
                Unit::TargetOnly { call, reason: ours.reason(call, forward_paired) }
            }
        });
        insert(&mut units, Some(call));
    }
    units
}

/// The data for reasons: the calls of one side, and how often the other makes them.
struct Alone<'a> {
    names: &'a SideNames,
    other: Side,
    matching: Matching,
    here: HashMap<(u32, CallKind), u32>,
    there: HashMap<(u32, CallKind), u32>,
    names_there: HashSet<(u32, CallKind, u32)>,
    recomputed: Vec<bool>,
    /// Whether the other side ran each call in a compiled module.
    is_compiled: Vec<bool>,
    /// Whether the other side's capture ended early.
    is_other_cut: bool,
    /// The last paired call of this side.
    last_paired: Option<usize>,
}

impl<'a> Alone<'a> {
    fn of(
        names: &'a SideNames,
        others: &SideNames,
        other: Side,
        matching: Matching,
        is_compiled: Vec<bool>,
    ) -> Alone<'a> {
        let names_there = match matching {
            Matching::Shape => (0..others.len()).map(|call| others.name(call)).collect(),
            _ => HashSet::new(),
        };
        let (here, there) = (recompute::counts(names), recompute::counts(others));
        let recomputed = recompute::recomputed(names, &here, &there);
        let is_other_cut = others.is_cut;
        Alone {
            names,
            other,
            matching,
            here,
            there,
            names_there,
            recomputed,
            is_compiled,
            is_other_cut,
            last_paired: None,
        }
    }

    fn reason(&self, call: usize, forward_paired: bool) -> Reason {
        let other = self.other;
        let (key, kind) = (self.names.key[call], self.names.kind[call]);
        let count = |counts: &HashMap<_, u32>, kind| counts.get(&(key, kind)).copied().unwrap_or(0);
        let (here, there) = (count(&self.here, kind), count(&self.there, kind));
        let by_order = !matches!(self.matching, Matching::Exact | Matching::Shape);
        if self.names.is_running(call) {
            Reason::Running
        } else if self.is_other_cut && self.last_paired < Some(call) {
            Reason::Ended { other }
        } else if self.is_compiled[call] {
            Reason::Compiled { other }
        } else if by_order && kind == CallKind::Backward && forward_paired {
            Reason::NoBackward { other }
        } else if self.recomputed[call] {
            Reason::Recomputed { other }
        } else if there == 0 && self.names.mapped[call] {
            Reason::MappedNowhere { other }
        } else if there == 0 && self.names.left_out[call] {
            Reason::LeftOut { other }
        } else if there == 0 {
            Reason::Absent { other }
        } else if self.names_there.contains(&self.names.name(call)) {
            Reason::OtherShapes { other }
        } else if !by_order {
            Reason::OtherNumber { other, there }
        } else if here > there {
            Reason::Surplus { other, here, there }
        } else {
            Reason::Elsewhere { other }
        }
    }
}
