//! The calls of optimizer steps, and whether the two runs make them in different ways.
//!
//! Optimizers work outside of modules, and nobody asks for gradients of what they do. Where the two runs have different
//! optimizers, or give them their parameters in a different order, calls of the same name do not work on the same
//! parameters. Such steps are judged by what they leave in parameters, as one region.

use std::collections::HashSet;

use ulpscope_dump::{CallKind, Rank};

use crate::native::correspondence::parameter_pairs::ParameterPair;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence};
use crate::native::evidence::flow::{Calls, Flow};
use crate::native::evidence::written::PARAMETER;
use crate::native::thresholds::ports::UPDATES_PER_LONE;
use crate::style::Side;

/// Where calls stand that belong to the step of an optimizer.
const OPTIMIZER: &str = "optimizer";

/// The calls of optimizer steps.
#[derive(Debug, Default)]
pub(in crate::native) struct Updates {
    members: HashSet<usize>,
    /// Whether the two runs make these steps in different ways.
    pub(in crate::native) is_rewritten: bool,
    /// Whether calls that are paired work on different parameters, so that their partners say nothing.
    is_crossed: bool,
    /// Calls of the target and of the golden.
    pub(in crate::native) calls: [u64; 2],
}

impl Updates {
    pub(in crate::native) fn of(
        units: &[CallEvidence],
        flow: &Flow,
        calls: [&Calls<'_>; 2],
        pairs: &[ParameterPair<'_>],
    ) -> Updates {
        let written = pairs.iter().flat_map(|pair| writers(pair, flow).into_iter().flatten());
        let mut members: HashSet<usize> = computed_from_gradients(units, flow)
            .into_iter()
            .enumerate()
            .filter_map(|(at, is_update)| is_update.then_some(at))
            .chain(written)
            .chain((0..units.len()).filter(|&at| is_unit_of_optimizer(&units[at], calls)))
            .filter(|&at| is_plain(at, units, flow))
            .collect();
        let mut waiting: Vec<usize> = members.iter().copied().collect();
        while let Some(at) = waiting.pop() {
            for maker in units[at].entries.iter().flat_map(|entry| flow.makers(entry)).flatten() {
                if is_plain(maker, units, flow) && members.insert(maker) {
                    waiting.push(maker);
                }
            }
        }
        let lone = members.iter().filter(|&&at| units[at].is_lone()).count();
        let is_crossed = pairs.iter().any(|pair| is_crossed(pair, units, flow));
        // What changes gradients alone, such as an exchange between ranks, is no other optimizer.
        let is_written_alone = |pair: &ParameterPair<'_>| {
            pair.name.starts_with(PARAMETER)
                && writers(pair, flow).iter().flatten().any(|&at| units[at].is_lone())
        };
        let lone = if pairs.iter().any(is_written_alone) { lone } else { 0 };
        let count = |is_there: fn(&CallEvidence) -> bool| {
            members.iter().filter(|&&at| is_there(&units[at])).count() as u64
        };
        Updates {
            is_crossed,
            is_rewritten: is_crossed || lone as f64 * UPDATES_PER_LONE.get() > members.len() as f64,
            calls: [count(|unit| unit.target().is_some()), count(|unit| unit.golden().is_some())],
            members,
        }
    }

    /// Whether a call belongs to a step of an optimizer.
    pub(in crate::native) fn contains(&self, at: usize) -> bool {
        self.members.contains(&at)
    }

    /// Whether a call belongs to steps that the two runs make in different ways.
    pub(in crate::native) fn is_in_rewritten(&self, at: usize) -> bool {
        self.is_rewritten && self.contains(at)
    }

    /// Whether its partner may work on something else.
    pub(in crate::native) fn is_crossed(&self, at: usize) -> bool {
        self.is_crossed && self.contains(at)
    }

    pub(in crate::native) fn members(&self) -> impl Iterator<Item = usize> {
        self.members.iter().copied()
    }
}

/// The calls that compute from gradients, as an optimizer does.
pub(in crate::native) fn computed_from_gradients(units: &[CallEvidence], flow: &Flow) -> Vec<bool> {
    let mut updates = vec![false; units.len()];
    for (at, unit) in units.iter().enumerate().filter(|(_, unit)| unit.kind == CallKind::Forward) {
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        updates[at] = taken.clone().any(EntryEvidence::is_of_gradient)
            || taken.flat_map(|entry| flow.makers(entry)).flatten().any(|maker| updates[maker]);
    }
    updates
}

/// Whether a call is made outside of modules, and has no backward call.
pub(in crate::native) fn is_plain(at: usize, units: &[CallEvidence], flow: &Flow) -> bool {
    units[at].kind == CallKind::Forward && flow.parent.of(at).is_none() && flow.backward.of(at).is_none()
}

/// Whether a dump says that a call belongs to the step of an optimizer.
pub(in crate::native) fn is_of_optimizer(rank: &Rank, call: usize) -> bool {
    rank.parent(call).is_some_and(|parent| parent == OPTIMIZER)
}

/// Likewise of a unit, on either side.
pub(in crate::native) fn is_unit_of_optimizer(
    unit: &CallEvidence,
    [target, golden]: [&Calls<'_>; 2],
) -> bool {
    unit.target().is_some_and(|call| is_of_optimizer(target.rank, call))
        || unit.golden().is_some_and(|call| is_of_optimizer(golden.rank, call))
}

/// The units that write into a parameter, of the target and of the golden.
pub(in crate::native) fn writers(pair: &ParameterPair<'_>, flow: &Flow) -> [Vec<usize>; 2] {
    [Side::Target, Side::Golden].map(|side| {
        let calls = pair.sides[side as usize].iter().flat_map(|written| &written.by);
        calls.filter_map(|&(call, _)| flow.unit_of[side as usize].of(call)).collect()
    })
}

/// Whether calls that are paired write into it at different places, or at different calls.
fn is_crossed(pair: &ParameterPair<'_>, units: &[CallEvidence], flow: &Flow) -> bool {
    let [[target], [golden]] = pair.sides.each_ref().map(|side| &side[..]) else { return false };
    if target.by.is_empty() || golden.by.is_empty() {
        return false;
    }
    let places = [(Side::Target, target), (Side::Golden, golden)].map(|(side, written)| {
        let found = written.by.iter().filter_map(|&(call, place)| {
            let unit = flow.unit_of[side as usize].of(call)?;
            // Named by the target's place, where both have it.
            let of_golden = |entry: &&EntryEvidence| entry.golden_place() == place && entry.is_taken();
            let place = match side {
                Side::Target => place,
                Side::Golden => units[unit].entries.iter().find(of_golden)?.place(),
            };
            Some((unit, place))
        });
        found.collect::<Vec<(usize, u64)>>()
    });
    let is_lone = |(unit, _): &(usize, u64)| units[*unit].is_lone();
    places[0] != places[1] && !places.iter().flatten().any(is_lone)
}
