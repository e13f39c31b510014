//! The smallest part of two programs between values that agree and the first that do not.
//!
//! ```text
//! target   ... ──► q ──► matmul ──────────► softmax ──► matmul ──► o_proj ──► ... ──► logits   (differ)
//! golden   ... ──► q ──► scaled_dot_product_attention ───────────► o_proj ──► ... ──► logits
//!                  agree └────────────────── the cut ────────────────┘ the first use of a parameter that differs
//! ```
//! From final results that differ, one goes back over values without a counterpart. The first use of a parameter on this
//! way, whose results both programs have and which differ, ends the cut. Back from there, over values without counterpart,
//! lie the calls that may have made the difference.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use super::counterparts::Counterparts;
use super::program::Program;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::style::Side;

/// Calls of both sides among which the difference was made.
#[derive(Clone, Debug)]
pub(in crate::native) struct Cut {
    /// Calls of the target, the most suspect first. The first `named` of them compute; the others move elements, or are
    /// computed from no parameter.
    pub(in crate::native) target: Vec<usize>,
    pub(in crate::native) named: usize,
    /// Likewise of the golden.
    pub(in crate::native) golden: Vec<usize>,
    pub(in crate::native) golden_named: usize,
    /// The golden's counterpart of the first.
    pub(in crate::native) partner: Option<usize>,
    /// Whether both sides make the first call, of inputs that agree.
    pub(in crate::native) is_of_both: bool,
    /// Whether the first only moves or selects elements, and of its inputs the statistics alone agree: elements may have differed
    /// before it.
    pub(in crate::native) may_begin_earlier: bool,
    /// Whether both sides make the first call and the target no other, where the golden makes more: a call is missing.
    pub(in crate::native) is_missing: bool,
    /// How much further apart its results are than its inputs; nothing, where only one side makes it.
    pub(in crate::native) growth: Option<f64>,
    /// The calls of the target whose results go into it and agree, and their counterparts.
    pub(in crate::native) after: Vec<[usize; 2]>,
    /// The calls at its end.
    pub(in crate::native) before: [usize; 2],
    /// The side whose results there are NaN or infinite, if the other's are not.
    pub(in crate::native) non_finite: Option<Side>,
    /// How far apart their results are, and may be.
    pub(in crate::native) error: f64,
    pub(in crate::native) allowed: f64,
}

/// Finds the cut before final results, given as pairs of values, that differ.
pub(super) fn find(
    counterparts: &Counterparts<'_>,
    weights: &[(&str, &str)],
    differing: &[[usize; 2]],
) -> Option<Cut> {
    let [target, golden] = counterparts.programs;
    let on_the_way = [Side::Target, Side::Golden]
        .map(|side| back(counterparts, side, differing.iter().map(|ends| ends[side as usize])));
    let mut anchors = anchors(target, golden, weights);
    anchors.retain(|anchor| on_the_way[0].contains(&anchor[0]) && on_the_way[1].contains(&anchor[1]));
    let first = anchors.into_iter().min_by_key(|anchor| *anchor);
    let end = first.or_else(|| differing.iter().copied().min())?;
    let parts = [Side::Target, Side::Golden].map(|side| back(counterparts, side, [end[side as usize]]));
    let [ours, theirs] = [Part::of(target, &parts[0]), Part::of(golden, &parts[1])];
    let partners = ours.partners(&theirs);
    let rank = |part: &Part<'_>, side: Side, partners: &HashMap<usize, usize>, there: &Part<'_>| {
        let mut calls = part.calls.clone();
        calls.sort_by_key(|&call| part.suspicion(call, partners.get(&call).copied(), there));
        let first = calls.first().copied();
        let is_crossed = first.is_some_and(|first| part.is_crossed(first, partners, counterparts, side));
        let moves =
            first.map_or_else(Vec::new, |first| part.moves_before(first, counterparts, side, is_crossed));
        let is_named = |call: usize| {
            let computes = !part.moves(call) && (!part.is_aside(call) || partners.contains_key(&call));
            computes || Some(call) == first || moves.contains(&call)
        };
        let (mut named, others): (Vec<usize>, Vec<usize>) =
            calls.into_iter().partition(|&call| is_named(call));
        named.extend(moves.iter().copied().filter(|call| !part.calls.contains(call)));
        let count = named.len().max(1);
        (named.into_iter().chain(others).collect::<Vec<usize>>(), count)
    };
    let back: HashMap<usize, usize> = partners.iter().map(|(&one, &other)| (other, one)).collect();
    let (ranked, named) = rank(&ours, Side::Target, &partners, &theirs);
    let (golden_ranked, golden_named) = rank(&theirs, Side::Golden, &back, &ours);
    let first = *ranked.first()?;
    let partner = partners.get(&first).copied().filter(|&partner| theirs.is_source(partner));
    let is_of_both = partner.is_some() && ours.is_source(first);
    let apart = counterparts.apart(end);
    let (one, other) = (&target.values[end[0]], &golden.values[end[1]]);
    Some(Cut {
        partner: partner.or_else(|| golden_ranked.first().copied()),
        target: ranked,
        named,
        golden: golden_ranked,
        golden_named,
        is_of_both,
        is_missing: !is_of_both && partners.contains_key(&first) && named == 1 && golden_named > 1,
        may_begin_earlier: ours.moves(first)
            && target.steps[first].given.iter().any(|&given| !counterparts.is_sure(Side::Target, given)),
        growth: partner.filter(|_| is_of_both).map(|partner| growth(counterparts, [first, partner])),
        after: ours.after(counterparts),
        before: [one.call, other.call],
        non_finite: match [one, other]
            .map(|value| value.numbers.iter().flatten().all(|number| number.is_finite()))
        {
            [false, true] => Some(Side::Target),
            [true, false] => Some(Side::Golden),
            _ => None,
        },
        error: apart,
        allowed: counterparts.allowed(one, other),
    })
}

/// How much further apart the results of two calls are than their inputs.
fn growth(counterparts: &Counterparts<'_>, calls: [usize; 2]) -> f64 {
    let steps = [0, 1].map(|side| &counterparts.programs[side].steps[calls[side]]);
    let largest = |of: [&Vec<usize>; 2]| {
        let pairs = of[0].iter().zip(of[1]).map(|(&one, &other)| counterparts.apart([one, other]));
        pairs.filter(|apart| apart.is_finite()).fold(0.0, f64::max)
    };
    largest(steps.map(|step| &step.returned)) / largest(steps.map(|step| &step.given)).max(ACCUMULATOR)
}

/// The values that lead to some, as far as none has a counterpart.
fn back(
    counterparts: &Counterparts<'_>,
    side: Side,
    ends: impl IntoIterator<Item = usize>,
) -> BTreeSet<usize> {
    let program = counterparts.programs[side as usize];
    let mut found: BTreeSet<usize> = ends.into_iter().collect();
    let mut waiting: Vec<usize> = found.iter().copied().collect();
    while let Some(value) = waiting.pop() {
        for &given in &program.steps[program.values[value].call].given {
            // Tensors without elements, such as an empty cache, make no difference.
            let may_differ = program.values[given].count > 0 && !counterparts.has(side, given);
            if may_differ && !found.contains(&given) {
                found.insert(given);
                waiting.push(given);
            }
        }
    }
    found
}

/// What the two sides compute from the same parameter, at the same of its uses.
pub(super) fn anchors(target: &Program, golden: &Program, weights: &[(&str, &str)]) -> Vec<[usize; 2]> {
    let mut anchors = Vec::new();
    for (ours, theirs) in weights {
        let uses = [&target.weights[*ours].uses, &golden.weights[*theirs].uses];
        // Used more often on one side, it is not known which use is which.
        if uses[0].len() != uses[1].len() {
            continue;
        }
        for (&one, &other) in uses[0].iter().zip(uses[1]) {
            let made = [target.steps[one].returned.first(), golden.steps[other].returned.first()];
            if let [Some(&one), Some(&other)] = made
                && target.values[one].count == golden.values[other].count
            {
                anchors.push([one, other]);
            }
        }
    }
    anchors
}

/// One side of a cut.
struct Part<'a> {
    program: &'a Program,
    values: &'a BTreeSet<usize>,
    /// In order.
    calls: Vec<usize>,
    depends_on_parameters: bool,
}

impl<'a> Part<'a> {
    fn of(program: &'a Program, values: &'a BTreeSet<usize>) -> Part<'a> {
        let mut calls = program.calls_of(values.iter().copied());
        calls.retain(|&call| !program.is_step_end[call]);
        let depends_on_parameters = calls.iter().any(|&call| program.depends_on_parameters(call));
        Part { program, values, calls, depends_on_parameters }
    }

    /// Whether all that a call works on agrees.
    fn is_source(&self, call: usize) -> bool {
        !self.program.steps[call].given.iter().any(|given| self.values.contains(given))
    }

    /// Whether a call gets the same inputs as its partner, in a different order.
    fn is_crossed(
        &self,
        call: usize,
        partners: &HashMap<usize, usize>,
        counterparts: &Counterparts<'_>,
        side: Side,
    ) -> bool {
        let there = counterparts.programs[1 - side as usize];
        let Some(partner) = partners.get(&call) else { return false };
        let theirs = &there.steps[*partner].given;
        let ours = &self.program.steps[call].given;
        let is_elsewhere = |(place, given): (usize, &usize)| {
            let found = counterparts.nearest[side as usize][*given];
            let numbers = |value: usize| &there.values[value].numbers;
            let at = |place: usize| {
                theirs
                    .get(place)
                    .is_some_and(|&other| found.is_some_and(|found| numbers(found) == numbers(other)))
            };
            !at(place) && (0..theirs.len()).any(at)
        };
        ours.len() == theirs.len() && ours.iter().enumerate().any(is_elsewhere)
    }

    /// The calls that only move elements and lead to a call, where elements do not tell that these are in their places, or
    /// where `all` of them may be meant.
    fn moves_before(
        &self,
        call: usize,
        counterparts: &Counterparts<'_>,
        side: Side,
        all: bool,
    ) -> Vec<usize> {
        let (mut found, mut waiting) = (Vec::new(), vec![call]);
        while let Some(call) = waiting.pop() {
            for &given in &self.program.steps[call].given {
                let maker = self.program.values[given].call;
                let is_open = all || self.values.contains(&given) || !counterparts.is_sure(side, given);
                if is_open && self.moves(maker) && !found.contains(&maker) {
                    found.push(maker);
                    waiting.push(maker);
                }
            }
        }
        found
    }

    /// Whether a call computes from no parameter, beside others that do: a mask, a position.
    fn is_aside(&self, call: usize) -> bool {
        self.depends_on_parameters && !self.program.depends_on_parameters(call)
    }

    /// Whether a call rounds to a coarser dtype than that of the run.
    fn rounds(&self, call: usize) -> bool {
        let step = &self.program.steps[call];
        let is_coarse = |&value: &usize| self.program.values[value].unit > self.program.unit;
        step.returned.iter().any(is_coarse) && !step.given.iter().any(is_coarse)
    }

    fn moves(&self, call: usize) -> bool {
        let operation = &self.program.operations[call];
        (operation.reorders || operation.keeps_places || operation.is_view) && !self.rounds(call)
    }

    /// Operation and sizes of a call.
    fn kind(&self, call: usize) -> (u64, Vec<u64>) {
        let mut counts: Vec<u64> =
            self.program.steps[call].returned.iter().map(|&value| self.program.values[value].count).collect();
        counts.sort_unstable();
        (self.program.operations[call].name, counts)
    }

    /// Calls of the same operation and size, the first with the first.
    fn partners(&self, there: &Part<'_>) -> HashMap<usize, usize> {
        let mut waiting: HashMap<(u64, Vec<u64>), Vec<usize>> = HashMap::new();
        for &call in there.calls.iter().rev() {
            waiting.entry(there.kind(call)).or_default().push(call);
        }
        let partner = |&call: &usize| Some((call, waiting.get_mut(&self.kind(call))?.pop()?));
        self.calls.iter().filter_map(partner).collect()
    }

    /// The less, the more suspect: a call that both sides make of inputs that agree; then what computes rather than moves; then
    /// what works on inputs that agree; in order.
    fn suspicion(&self, call: usize, partner: Option<usize>, there: &Part<'_>) -> impl Ord + use<> {
        let is_source = self.is_source(call);
        let is_of_both = is_source && partner.is_some_and(|partner| there.is_source(partner));
        (
            Reverse(is_of_both),
            Reverse(self.rounds(call)),
            self.is_aside(call) && partner.is_none(),
            self.moves(call) && !is_of_both,
            Reverse(is_source),
            call,
        )
    }

    /// The calls whose results go into the part and agree, with their counterparts.
    fn after(&self, counterparts: &Counterparts<'_>) -> Vec<[usize; 2]> {
        let given = self.calls.iter().flat_map(|&call| &self.program.steps[call].given);
        let is_telling = |value: usize| self.program.values[value].is_telling();
        let agreeing: BTreeSet<usize> =
            given.copied().filter(|&given| !self.values.contains(&given) && is_telling(given)).collect();
        let golden = counterparts.programs[1];
        // The last first: it is the nearest.
        let pairs = agreeing.into_iter().rev().filter_map(|value| {
            let other = counterparts.nearest[0][value]?;
            Some([self.program.values[value].call, golden.values[other].call])
        });
        pairs.collect()
    }
}
