//! Whether two programs end in the same: values, decisions, buffers, and gradients of parameters.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ulpscope_dump::operators::Family;

use super::counterparts::Counterparts;
use super::gradients::Gradients;
use super::likeness::{distance, extremes_apart, sums_apart};
use super::padding::Padding;
use super::program::{Program, Value, Weight};
use super::returned::{self, ReturnedPair};
use crate::native::final_results::guard::StatisticBounds;
use crate::native::thresholds::conclude::NEAR_A_TIE;
use crate::native::thresholds::correspondence::ON_THE_WAY;
use crate::native::thresholds::final_results::ALLOWED;
use crate::style::Side;

/// A final result that is no value of the forward pass, and that differs.
#[derive(Clone, Debug)]
pub(in crate::native) struct EndApart {
    pub(in crate::native) what: EndKind,
    /// Relative to its size.
    pub(in crate::native) error: f64,
    pub(in crate::native) allowed: f64,
}

impl EndApart {
    /// Two values that differ.
    pub(super) fn of_values(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> EndApart {
        let [one, other] = counterparts.pair(pair);
        let what = EndKind::Value(Side::Target, one.call);
        EndApart { what, error: counterparts.apart(pair), allowed: counterparts.allowed(one, other) }
    }
}

/// Which final result.
#[derive(Clone, Debug)]
pub(in crate::native) enum EndKind {
    /// The gradient of a parameter, by its name in the target.
    Gradient(String),
    /// What a step leaves in a parameter, by its name in the target.
    Parameter(String),
    /// What is left in a buffer, by its name in the target.
    Buffer(String),
    /// What a call of one side returned or wrote, which differs or has nothing on the other side to be compared with.
    Value(Side, usize),
    /// What the models return at a place: the calls that made it.
    Returned(String, [usize; 2]),
    /// The same, which may have its elements in different places: statistics do not show where they are.
    Moved(String, [usize; 2]),
}

/// What the final results say.
pub(super) struct Ends {
    /// Pairs of values that differ.
    pub(super) differing: Vec<[usize; 2]>,
    /// Whether there are final results, and all that could be compared agree, gradients among them.
    pub(super) agree: bool,
    /// What differs and is no pair of values.
    pub(super) apart: Option<EndApart>,
    /// Whether values differ at positions that a mask leaves out as padding, and nowhere else.
    pub(super) differ_in_padding: bool,
    /// Where some differ by statistics alone: the relative norm of errors that may not show.
    pub(super) hidden: Option<f64>,
    /// Whether each side was given tensors that the other was not. Pairs that differ may follow from these.
    pub(super) has_other_inputs: bool,
}

/// `is_cut`: whether inputs are cut differently.
pub(super) fn compare(
    counterparts: &Counterparts<'_>,
    weights: &[(&str, &str)],
    limit: f64,
    is_cut: impl Fn() -> bool,
) -> Ends {
    let [target, golden] = counterparts.programs;
    let mut last = last_values(counterparts);
    last.compare_passed(counterparts);
    last.compare_reduced(counterparts);
    last.compare_returned(counterparts);
    let differ_in_padding = last.leave_out_padding(counterparts);
    let Last { differing, agreeing, is_clear, apart, hidden, moved, .. } = last;
    let gradients = Gradients::of(counterparts.programs, weights, limit);
    if !differing.is_empty() && gradients.agree() && is_cut() {
        // Pieces of a batch lead to a part of the results each: gradients, which are sums over all, tell more.
        let (differing, apart, has_other_inputs) = (Vec::new(), None, true);
        return Ends { differing, agree: true, apart, differ_in_padding, hidden, has_other_inputs };
    }
    if let Some(&pair) = differing.first()
        && !same_inputs(counterparts)
    {
        // Other inputs lead to other results: where the programs part, these do not tell.
        let apart = gradients.apart.or_else(|| Some(EndApart::of_values(counterparts, pair)));
        return Ends { differing, agree: false, apart, differ_in_padding, hidden, has_other_inputs: true };
    }
    // A backward pass of which no gradient could be compared says nothing.
    let is_seen = gradients.are_compared || !(target.has_backward && golden.has_backward);
    let apart = gradients.apart.clone().or(buffers(counterparts, limit)).or(apart);
    let apart = apart.or(moved.filter(|_| !gradients.agree()));
    // What is computed from a final result, such as a loss or gradients, shows whether elements are in their places.
    let agree = agreeing > 0 && (is_clear || gradients.agree()) && is_seen && apart.is_none();
    Ends { differing, agree, apart, differ_in_padding, hidden, has_other_inputs: false }
}

/// What the last values of both sides say.
#[derive(Default)]
struct Last {
    differing: Vec<[usize; 2]>,
    agreeing: usize,
    is_clear: bool,
    apart: Option<EndApart>,
    hidden: Option<f64>,
    /// What models return whose elements may be in different places.
    moved: Option<EndApart>,
    /// Pairs that agree and are too few elements to tell what they were made from.
    reduced: Vec<[usize; 2]>,
}

/// Pairs the last values of two programs by content. Two that are left over and of one size are two results that differ,
/// unless the other program computes both of them, too, and uses them.
fn last_values(counterparts: &Counterparts<'_>) -> Last {
    let [target, golden] = counterparts.programs;
    let mut found = Last::default();
    let mut theirs: BTreeSet<usize> = golden.ends.last.iter().copied().collect();
    let [our_floats, floats] = [target, golden].map(final_floats);
    let mut ours = Vec::new();
    for &one in &target.ends.last {
        match theirs.iter().copied().find(|&other| is_same(counterparts, [one, other])) {
            Some(other) => {
                theirs.remove(&other);
                found.agreeing += 1;
                if !is_decision(&target.values[one]) && !target.values[one].is_telling() {
                    found.reduced.push([one, other]);
                }
                found.compare_statistics(counterparts, [one, other]);
                found.is_clear |= is_decision(&target.values[one]) || !may_be_elsewhere(counterparts, one);
            }
            None => ours.push(one),
        }
    }
    for one in ours {
        let value = &target.values[one];
        let is_there = counterparts.stands(Side::Target, one);
        let open: Vec<usize> = theirs
            .iter()
            .copied()
            .filter(|&other| !is_there || !counterparts.stands(Side::Golden, other))
            .filter(|&other| is_decision(&golden.values[other]) == is_decision(value))
            .collect();
        if let Some(other) = nearest(value, golden, &open) {
            theirs.remove(&other);
            found.differing.push([one, other]);
        } else if is_there {
            found.agreeing += 1;
            found.is_clear |= !may_be_elsewhere(counterparts, one);
        } else if is_unexpected(target, one) {
            found.miss(Side::Target, value.call);
        } else if let Some(other) = nearest(value, golden, &floats).filter(|_| !is_decision(value)) {
            // A result of a size that the other side ends in, too, may be what it should have computed.
            found.differing.push([one, other]);
        } else if let Some(other) = open.iter().copied().find(|&other| is_open_end(counterparts, other)) {
            // Each side ends in something that the other does not compute, such as means over different dimensions.
            if target.comes_after_models(one) {
                theirs.remove(&other);
                found.differing.push([one, other]);
            }
        }
    }
    for other in theirs {
        let value = &golden.values[other];
        if counterparts.stands(Side::Golden, other) {
            continue;
        }
        if is_unexpected(golden, other) {
            found.miss(Side::Golden, value.call);
        } else if golden.comes_after_models(other)
            && let Some(one) = nearest(value, target, &our_floats).filter(|_| !is_decision(value))
        {
            found.differ(Side::Target, one, other);
        }
    }
    found
}

/// Floats in which a program ends, or which its models return.
fn final_floats(program: &Program) -> Vec<usize> {
    let ends = program.ends.last.iter().chain(&program.ends.passed).copied().chain(program.returned());
    ends.filter(|&end| !is_decision(&program.values[end])).collect()
}

/// Whether a last value of the golden, made after its models returned, is none that the target computes.
fn is_open_end(counterparts: &Counterparts<'_>, value: usize) -> bool {
    counterparts.programs[1].comes_after_models(value) && !counterparts.stands(Side::Golden, value)
}

impl Last {
    /// Compares what modules pass on to other calls. Where the whole model is not recorded, it may be what the model
    /// returns. It is not, if what follows from it is computed by both sides.
    fn compare_passed(&mut self, counterparts: &Counterparts<'_>) {
        for side in [Side::Target, Side::Golden] {
            let [here, there] = [side as usize, 1 - side as usize].map(|side| counterparts.programs[side]);
            let ends: Vec<usize> = there.ends.last.iter().chain(&there.ends.passed).copied().collect();
            let takers = here.takers();
            for &end in &here.ends.passed {
                if counterparts.has(side, end) {
                    self.agreeing += usize::from(side == Side::Target);
                    self.is_clear |= side == Side::Target && !may_be_elsewhere(counterparts, end);
                    continue;
                }
                if let Some(nearest) = nearest(&here.values[end], there, &ends)
                    && !meets_again(counterparts, side, [end, nearest], &takers)
                {
                    self.differ(side, end, nearest);
                }
            }
        }
    }

    /// Adds a value of a side and one of the other that differ.
    fn differ(&mut self, side: Side, own: usize, other: usize) {
        let pair = side.in_order(own, other);
        if !self.differing.contains(&pair) {
            self.differing.push(pair);
        }
    }

    /// Compares what final results were reduced from by the same operation. A loss may agree although predictions do not:
    /// it does not see what all classes share, nor what its labels leave out.
    fn compare_reduced(&mut self, counterparts: &Counterparts<'_>) {
        let [target, golden] = counterparts.programs;
        for pair in std::mem::take(&mut self.reduced) {
            let [one, other] = counterparts.pair(pair);
            if target.operations[one.call].name != golden.operations[other.call].name {
                continue;
            }
            let given = [&target.steps[one.call].given, &golden.steps[other.call].given];
            for side in [Side::Target, Side::Golden] {
                let there = 1 - side as usize;
                for &own in given[side as usize] {
                    let value = &counterparts.programs[side as usize].values[own];
                    if value.is_telling()
                        && !counterparts.has(side, own)
                        && let Some(nearest) = nearest(value, counterparts.programs[there], given[there])
                    {
                        self.differ(side, own, nearest);
                    }
                }
            }
        }
    }

    /// Compares what the models return. Two results that differ although each program computes both are taken from different
    /// variables: nothing between them is wrong.
    fn compare_returned(&mut self, counterparts: &Counterparts<'_>) {
        let programs = counterparts.programs;
        let found = returned::compare(counterparts, |pair| is_same(counterparts, pair));
        let calls = |[one, other]: [usize; 2]| [programs[0].values[one].call, programs[1].values[other].call];
        for pair in found.same {
            self.agreeing += 1;
            match may_be_moved(counterparts, pair) {
                true => {
                    let what = EndKind::Moved(String::new(), calls(pair));
                    self.moved.get_or_insert(EndApart { what, error: f64::INFINITY, allowed: 0.0 });
                }
                false => self.is_clear = true,
            }
        }
        let has_same_inputs = same_inputs(counterparts);
        for ReturnedPair { path, values } in found.differing {
            let [one, other] = counterparts.pair(values);
            // Parts of a batch are judged as such.
            if one.count != other.count && !has_same_inputs {
                continue;
            }
            let is_there =
                counterparts.stands(Side::Target, values[0]) && counterparts.stands(Side::Golden, values[1]);
            if is_there || is_decision(one) != is_decision(other) {
                let what = EndKind::Returned(path, calls(values));
                let allowed = counterparts.allowed(one, other);
                let error = if one.count == other.count { counterparts.apart(values) } else { f64::INFINITY };
                self.apart.get_or_insert(EndApart { what, error, allowed });
            } else {
                self.differ(Side::Target, values[0], values[1]);
            }
        }
    }

    /// Whether all values that differ do so at positions that a mask leaves out. They agree then.
    fn leave_out_padding(&mut self, counterparts: &Counterparts<'_>) -> bool {
        if self.differing.is_empty() {
            return false;
        }
        let Some(padding) = Padding::find(counterparts) else { return false };
        let is_alone = self.differing.iter().all(|&pair| padding.is_all_that_differs(counterparts, pair));
        if is_alone {
            self.agreeing += std::mem::take(&mut self.differing).len();
            self.is_clear = true;
        }
        is_alone
    }

    /// Compares sums and extremes where nothing else is known: sums are far nearer than elements may be.
    fn compare_statistics(&mut self, counterparts: &Counterparts<'_>, pair: [usize; 2]) {
        let [one, other] = counterparts.pair(pair);
        if is_decision(one) || one.shape == other.shape && counterparts.elements(pair).is_some() {
            return;
        }
        // Statistics hardly show rounding to a coarser dtype: elements are moved up and down.
        if one.numbers != other.numbers && counterparts.rounds_on_one_side() {
            self.differing.push(pair);
            return;
        }
        // What a program was given in another dtype is shared by all elements.
        let is_recast = one.unit != other.unit || !counterparts.has_same_dtypes();
        let rounding = one.square.max(other.square).sqrt();
        let given = if is_recast { rounding } else { counterparts.noise };
        let bounds = StatisticBounds::of(rounding, given, one.count as f64);
        if one.numbers != other.numbers {
            self.hidden = Some(bounds.hidden().max(self.hidden.unwrap_or(0.0)));
        }
        let sums = sums_apart(one.count, &one.numbers, &other.numbers).map(|error| (error, bounds.sums));
        let extremes = extremes_apart(&one.numbers, &other.numbers).map(|error| (error, bounds.extremes));
        let mut far = [sums, extremes].into_iter().flatten().filter(|(error, allowed)| error > allowed);
        if let Some((error, allowed)) = far.next() {
            let what = EndKind::Value(Side::Target, one.call);
            self.apart.get_or_insert(EndApart { what, error, allowed });
        }
    }

    fn miss(&mut self, side: Side, call: usize) {
        let what = EndKind::Value(side, call);
        self.apart.get_or_insert(EndApart { what, error: f64::INFINITY, allowed: 0.0 });
    }
}

/// Whether the other side must have a value: what a model returned, and what was written into at last and not seen.
fn is_unexpected(program: &Program, value: usize) -> bool {
    let is_unseen =
        program.values[value].numbers == [None; 4] && program.operations[program.values[value].call].assigns;
    is_unseen || program.ends.returned.values().any(|&returned| returned == value)
}

fn is_decision(value: &Value) -> bool {
    value.unit == 0.0
}

/// Whether two last values are the same: floats within accumulated rounding, decisions as far as ties allow.
fn is_same(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> bool {
    let [one, other] = counterparts.pair(pair);
    if one.count != other.count || is_decision(one) != is_decision(other) {
        return false;
    }
    if !is_decision(one) {
        return counterparts.apart(pair) <= counterparts.allowed(one, other);
    }
    turned(counterparts, pair) <= allowed_to_turn(counterparts, pair)
}

/// How many decisions may differ: of floats that are apart by a share of their size, as many are so near to a tie.
fn allowed_to_turn(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> f64 {
    let [one, other] = counterparts.pair(pair);
    let (Some(ours), Some(theirs)) = (one.decided_from, other.decided_from) else { return 0.0 };
    let [ours, theirs] = counterparts.pair([ours, theirs]);
    (NEAR_A_TIE.get() * counterparts.allowed(ours, theirs) * one.count as f64).floor()
}

/// How many decisions differ; of statistics, how many at least.
fn turned(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> f64 {
    let [one, other] = counterparts.pair(pair);
    if one.shape == other.shape
        && let Some(turned) = counterparts.differing_elements(pair)
    {
        return turned;
    }
    if one.numbers == other.numbers {
        return 0.0;
    }
    let [[max, min, mean, _], [other_max, other_min, other_mean, _]] = [one.numbers, other.numbers];
    let range = [max, other_max].into_iter().flatten().fold(f64::NEG_INFINITY, f64::max)
        - [min, other_min].into_iter().flatten().fold(f64::INFINITY, f64::min);
    let moved = mean.zip(other_mean).map_or(0.0, |(one, other)| (one - other).abs());
    let least = if range > 0.0 { moved * one.count as f64 / range } else { 0.0 };
    if least.is_finite() { least.max(1.0) } else { one.count as f64 }
}

/// Whether everything that is computed from a value leads to values that the other program computes, too, and that are far
/// nearer to their counterparts than it is to the `nearest` value there. What the last module returns may be the prediction:
/// probabilities and choices do not show all of it.
fn meets_again(
    counterparts: &Counterparts<'_>,
    side: Side,
    [from, nearest]: [usize; 2],
    takers: &[Vec<usize>],
) -> bool {
    let program = counterparts.programs[side as usize];
    let limit = counterparts.apart(side.in_order(from, nearest)) / ON_THE_WAY.get();
    let is_near = |value: usize| {
        let other = counterparts.nearest[side as usize][value];
        other.is_some_and(|other| counterparts.apart(side.in_order(value, other)) <= limit)
    };
    let is_of_last_module = program.ends.of_last_module.contains(&from);
    let shows = |call: usize| {
        let operation = &program.operations[call];
        let forgets = matches!(operation.family, Family::Softmax | Family::LogSoftmax | Family::Norm);
        !is_of_last_module || !forgets && !operation.may_hide
    };
    let (mut known, mut waiting) = (HashSet::from([from]), vec![from]);
    while let Some(value) = waiting.pop() {
        // Copies that nothing is computed from show nothing.
        if !program.goes_on(value, takers) {
            return false;
        }
        let made = takers[value]
            .iter()
            .flat_map(|&call| program.steps[call].returned.iter().map(move |&made| (call, made)))
            .filter(|&(_, made)| program.copied(made).is_none() || program.goes_on(made, takers));
        for (call, made) in made {
            let meets = program.values[made].is_telling()
                && counterparts.has(side, made)
                && is_near(made)
                && shows(call);
            if !meets && known.insert(made) {
                waiting.push(made);
            }
        }
    }
    true
}

/// Of some values of the other program, the one of the same number of elements that is nearest.
fn nearest(value: &Value, there: &Program, among: &[usize]) -> Option<usize> {
    let apart = |other: usize| {
        distance(value.count, &value.numbers, &there.values[other].numbers).unwrap_or(f64::INFINITY)
    };
    let same_count = among.iter().copied().filter(|&other| there.values[other].count == value.count);
    same_count.min_by(|&one, &other| apart(one).total_cmp(&apart(other)))
}

/// The first buffer in which the two sides leave something else: by name, and else by content.
fn buffers(counterparts: &Counterparts<'_>, limit: f64) -> Option<EndApart> {
    let [target, golden] = counterparts.programs;
    let squares = [target, golden].into_iter().flat_map(|program| &program.values).map(|value| value.square);
    let allowed = limit.max(ALLOWED.get() * squares.fold(0.0, f64::max).sqrt());
    let error = |one: usize, other: usize| counterparts.apart([one, other]);
    let count = |program: &Program, value: usize| program.values[value].count;
    let mut theirs: BTreeMap<&String, usize> =
        golden.ends.buffers.iter().map(|(name, &value)| (name, value)).collect();
    let mut ours: Vec<(&String, usize)> = Vec::new();
    for (name, &one) in &target.ends.buffers {
        match theirs.get(name).copied().filter(|&other| count(golden, other) == count(target, one)) {
            Some(other) => {
                theirs.remove(name);
                let error = error(one, other);
                if error > allowed {
                    return Some(EndApart { what: EndKind::Buffer(name.clone()), error, allowed });
                }
            }
            None => ours.push((name, one)),
        }
    }
    for (name, one) in ours {
        let like = theirs.iter().filter(|(_, other)| count(golden, **other) == count(target, one));
        let nearest = like.map(|(name, &other)| (error(one, other), (*name).clone()));
        let Some((error, other)) = nearest.min_by(|one, other| one.0.total_cmp(&other.0)) else { continue };
        if error > allowed {
            return Some(EndApart { what: EndKind::Buffer(name.clone()), error, allowed });
        }
        theirs.remove(&other);
    }
    None
}

/// Whether a final result may have its elements in other places, which statistics do not show: it was made by a call that
/// moves elements, and its counterpart by another.
fn may_be_elsewhere(counterparts: &Counterparts<'_>, end: usize) -> bool {
    let [target, golden] = counterparts.programs;
    let operation = &target.operations[target.values[end].call];
    let Some(other) = counterparts.nearest[0][end] else { return true };
    let other = &golden.operations[golden.values[other].call];
    operation.name != other.name
        && (operation.reorders || other.reorders)
        && !counterparts.is_sure(Side::Target, end)
}

/// Whether two results that look the same may have their elements in different places: only statistics are known, and one
/// program alone moved elements at last.
fn may_be_moved(counterparts: &Counterparts<'_>, pair: [usize; 2]) -> bool {
    let [one, other] = counterparts.pair(pair);
    let moved = [0, 1].map(|side| counterparts.programs[side].is_moved(pair[side]));
    one.count > 1
        && moved[0] != moved[1]
        && (one.shape != other.shape || counterparts.elements(pair).is_none())
}

/// Whether the side that was given fewer tensors was given none that the other was not.
fn same_inputs(counterparts: &Counterparts<'_>) -> bool {
    let inputs = counterparts.programs.map(|program| {
        let bits = |input: &Weight| (input.count, input.numbers.map(|number| number.map(f64::to_bits)));
        program.inputs.iter().map(bits).collect::<HashSet<_>>()
    });
    let [fewer, more] = if inputs[0].len() <= inputs[1].len() { [0, 1] } else { [1, 0] };
    inputs[fewer].is_subset(&inputs[more])
}
