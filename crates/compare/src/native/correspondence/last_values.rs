//! The last values of two programs, paired by content, and what remains of them.

use std::collections::{BTreeSet, HashMap, HashSet};

use ulpscope_dump::operators::Family;

use super::counterparts::Counterparts;
use super::ends::{EndApart, EndKind, is_decision, is_same, may_be_elsewhere, may_be_moved};
use super::likeness::{distance, extremes_apart, sums_apart};
use super::padding::Padding;
use super::program::{Program, Value};
use super::returned::{self, ReturnedPair};
use crate::native::final_results::guard::StatisticBounds;
use crate::native::thresholds::correspondence::ON_THE_WAY;
use crate::style::Side;

/// What the last values of both sides say.
#[derive(Default)]
pub(super) struct Last {
    pub(super) differing: Vec<[usize; 2]>,
    pub(super) agreeing: usize,
    pub(super) is_clear: bool,
    pub(super) apart: Option<EndApart>,
    pub(super) hidden: Option<f64>,
    /// What models return whose elements may be in different places.
    pub(super) moved: Option<EndApart>,
    /// Pairs that agree and are too few elements to tell what they were made from.
    reduced: Vec<[usize; 2]>,
}

/// Pairs the last values of two programs by content. Two that are left over and of one size are two results that differ,
/// unless the other program computes both of them, too, and uses them.
pub(super) fn last_values(counterparts: &Counterparts<'_>) -> Last {
    let [target, golden] = counterparts.programs;
    let mut found = Last::default();
    let mut theirs: BTreeSet<usize> = golden.ends.last.iter().copied().collect();
    let [our_floats, floats] = [target, golden].map(final_floats);
    // A result of a size that the other side ends in, too, may be what it should have computed.
    let should_be = |value: &Value, there: &Program, floats: &[usize]| {
        nearest(value, there, floats).filter(|_| !is_decision(value))
    };
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
    // Asked for every pair of values that are left over.
    let mut standing: HashMap<usize, bool> = HashMap::new();
    let mut stands_there =
        |other: usize| *standing.entry(other).or_insert_with(|| counterparts.stands(Side::Golden, other));
    for one in ours {
        let value = &target.values[one];
        let is_there = counterparts.stands(Side::Target, one);
        let open: Vec<usize> = theirs
            .iter()
            .copied()
            .filter(|&other| !is_there || !stands_there(other))
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
        } else if let Some(other) = should_be(value, golden, &floats) {
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
        } else if let Some(one) = should_be(value, target, &our_floats) {
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
    pub(super) fn compare_passed(&mut self, counterparts: &Counterparts<'_>) {
        for side in [Side::Target, Side::Golden] {
            let [here, there] = [side as usize, 1 - side as usize].map(|side| counterparts.programs[side]);
            let mut ends: Vec<usize> = there.ends.last.iter().chain(&there.ends.passed).copied().collect();
            if there.ends.is_without_modules && there.ends.models.is_empty() {
                // No module shows what it computes: any value behind its last parameter may be the same.
                ends.extend(there.behind_parameters());
            }
            let mut ways = Ways { takers: here.takers(), lost: HashMap::new() };
            // The last first: on the way from an earlier one, it is known what became of it.
            let passed = here.ends.passed.iter().rev();
            let differing = passed.map(|&end| {
                let open = Some(end).filter(|&end| !counterparts.has(side, end));
                let nearest = open.and_then(|end| nearest(&here.values[end], there, &ends));
                nearest.filter(|&nearest| !ways.meet_again(counterparts, side, [end, nearest]))
            });
            let differing: Vec<Option<usize>> = differing.collect();
            for (&end, differing) in here.ends.passed.iter().zip(differing.into_iter().rev()) {
                if counterparts.has(side, end) {
                    self.agreeing += usize::from(side == Side::Target);
                    self.is_clear |= side == Side::Target && !may_be_elsewhere(counterparts, end);
                } else if let Some(nearest) = differing {
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
    pub(super) fn compare_reduced(&mut self, counterparts: &Counterparts<'_>) {
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
    pub(super) fn compare_returned(&mut self, counterparts: &Counterparts<'_>, is_cut: impl Fn() -> bool) {
        let programs = counterparts.programs;
        let found = returned::compare(counterparts, |pair| is_same(counterparts, pair));
        let calls = |[one, other]: [usize; 2]| [programs[0].values[one].call, programs[1].values[other].call];
        for ReturnedPair { path, values } in found.same {
            self.agreeing += 1;
            match may_be_moved(counterparts, values) {
                true => {
                    let what = EndKind::Moved(path, calls(values));
                    self.moved.get_or_insert(EndApart { what, error: f64::INFINITY, allowed: 0.0 });
                }
                false => self.is_clear = true,
            }
        }
        for ReturnedPair { path, values } in found.differing {
            let [one, other] = counterparts.pair(values);
            // Parts of a batch are judged as such.
            if one.count != other.count && is_cut() {
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
    pub(super) fn leave_out_padding(&mut self, counterparts: &Counterparts<'_>) -> bool {
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

/// What is computed from values of one program.
struct Ways {
    /// By value: the calls that use it.
    takers: Vec<Vec<usize>>,
    /// Values from which something leads to no value of the other program: how far apart two values were allowed to be, and
    /// whether the last module returns it.
    lost: HashMap<usize, (f64, bool)>,
}

impl Ways {
    /// See [`Ways::lead_back`].
    fn meet_again(&mut self, counterparts: &Counterparts<'_>, side: Side, pair: [usize; 2]) -> bool {
        let [from, nearest] = pair;
        let limit = counterparts.apart(side.in_order(from, nearest)) / ON_THE_WAY.get();
        let is_of_last_module = counterparts.programs[side as usize].ends.of_last_module.contains(&from);
        let leads_back = self.lead_back(counterparts, side, from, (limit, is_of_last_module));
        if !leads_back {
            self.lost.insert(from, (limit, is_of_last_module));
        }
        leads_back
    }

    /// Whether what is lost from a value on is lost for one that leads there, too: for that, no more may be a counterpart.
    fn is_lost(&self, value: usize, (limit, is_of_last_module): (f64, bool)) -> bool {
        self.lost.get(&value).is_some_and(|&(lost, of_last)| limit <= lost && (is_of_last_module || !of_last))
    }

    /// Whether everything that is computed from a value leads to values that the other program computes, too, and that are far
    /// nearer to their counterparts, by `limit`, than it is to the nearest value there. What the last module returns may be the
    /// prediction: probabilities and choices do not show all of it.
    fn lead_back(
        &self,
        counterparts: &Counterparts<'_>,
        side: Side,
        from: usize,
        (limit, is_of_last_module): (f64, bool),
    ) -> bool {
        let program = counterparts.programs[side as usize];
        let is_near = |value: usize| {
            let other = counterparts.nearest[side as usize][value];
            other.is_some_and(|other| counterparts.apart(side.in_order(value, other)) <= limit)
        };
        let shows = |call: usize| {
            let operation = &program.operations[call];
            let forgets = matches!(operation.family, Family::Softmax | Family::LogSoftmax | Family::Norm);
            !is_of_last_module || !forgets && !operation.may_hide
        };
        let (mut known, mut waiting) = (HashSet::from([from]), vec![from]);
        while let Some(value) = waiting.pop() {
            // Copies that nothing is computed from show nothing.
            if self.is_lost(value, (limit, is_of_last_module)) || !program.goes_on(value, &self.takers) {
                return false;
            }
            let made = self.takers[value]
                .iter()
                .flat_map(|&call| program.steps[call].returned.iter().map(move |&made| (call, made)))
                .filter(|&(_, made)| program.copied(made).is_none() || program.goes_on(made, &self.takers));
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
}

/// Of some values of the other program, the one of the same number of elements that is nearest.
fn nearest(value: &Value, there: &Program, among: &[usize]) -> Option<usize> {
    let apart = |other: usize| {
        distance(value.count, &value.numbers, &there.values[other].numbers).unwrap_or(f64::INFINITY)
    };
    let same_count = among.iter().copied().filter(|&other| there.values[other].count == value.count);
    same_count.min_by(|&one, &other| apart(one).total_cmp(&apart(other)))
}
