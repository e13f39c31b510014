//! One class for each call, and the calls that introduced an error.
//!
//! ```text
//! calls in execution order, then modules from inside out:
//!   an argument that differs   from outside ──► origin differs
//!                              and whoever made it agrees ──► changed on the way; made by a call without partner ──► blame it
//!   a result that is not finite, of finite arguments ──► non-finite born here
//!   a result further apart than expected ──► diverged here, or different program if a plain argument is another
//!   what comes from a call that introduced an error ──► inherited
//! ```

use ulpscope_dump::{CallKind, Role};

use super::blame::{Origins, Regions};
use super::conclusion::{Cause, Conclusion, found};
use super::expect::{Apart, Excess, Expectations};
use super::flow::Flow;
use super::noise::Noise;
use super::observed::{Observed, Seeing, Seen};
use super::saved::of_saved;
use super::siblings::Siblings;
use crate::style::Side;
use crate::verdict::Class;

/// From this relative error on nothing is linear any more, and a call may do anything with it.
const BEYOND_LINEAR: f64 = 0.05;

/// How many decisions an error turns, in terms of its relative size: values that are compared lie some sixteenth of their
/// size apart, as the largest of some thousand do.
const NEAR_A_TIE: f64 = 16.0;

/// Concludes all units.
///
/// `has_trained` says that steps went before: what is no result of this one is one of theirs.
pub(super) fn conclude(units: &[Observed], flow: &Flow, noise: &Noise, has_trained: bool) -> Vec<Conclusion> {
    let expectations = Expectations::of(units, flow, noise);
    let excesses: Vec<Vec<Excess>> = (0..units.len()).map(|at| expectations.excesses(at)).collect();
    let channels = [|times: Apart| times.whole, |times: Apart| times.peak, |times: Apart| times.drift];
    let tests = channels.len() * (0..units.len()).map(|at| expectations.results(at).count()).sum::<usize>();
    let siblings = channels.map(|of| {
        let worst = |all: &Vec<Excess>| all.iter().map(|excess| of(excess.times)).fold(0.0, f64::max);
        let by_kind = excesses.iter().enumerate().map(|(at, all)| (flow.kinds[at], worst(all)));
        Siblings::of(by_kind, tests)
    });
    let mut walk = Walk {
        units,
        flow,
        noise,
        siblings,
        origins: Origins::of(units, has_trained),
        regions: Regions::of(units, flow, &expectations),
        done: vec![None; units.len()],
        expectations: &expectations,
        excesses: &excesses,
        so_far: Apart::default(),
        first_cause: None,
    };
    for &at in &flow.order {
        let conclusion = walk.conclude(at);
        let errors = expectations.results(at).map(|(_, extent)| Apart::relative(extent));
        walk.so_far = errors.fold(walk.so_far, Apart::max);
        // A lone call may have been blamed already, by who took what it gave.
        if walk.done[at].as_ref().is_none_or(|known| known.cause.is_none()) {
            if conclusion.cause.is_some() {
                walk.first_cause = walk.first_cause.or(Some(at));
            }
            walk.done[at] = Some(conclusion);
        }
    }
    walk.done.into_iter().map(|done| done.unwrap_or_else(|| Conclusion::of(Class::NotComparable))).collect()
}

/// Units on the way to their conclusions.
pub(super) struct Walk<'a> {
    pub(super) units: &'a [Observed],
    pub(super) flow: &'a Flow,
    pub(super) noise: &'a Noise,
    /// For whole tensors, for their worst elements, and for what all elements share.
    pub(super) siblings: [Siblings; 3],
    pub(super) origins: Origins,
    pub(super) regions: Regions,
    pub(super) done: Vec<Option<Conclusion>>,
    pub(super) expectations: &'a Expectations<'a>,
    excesses: &'a [Vec<Excess>],
    /// The first unit that introduced an error.
    pub(super) first_cause: Option<usize>,
    /// The largest relative errors of results up to here.
    pub(super) so_far: Apart,
}

impl Walk<'_> {
    fn conclude(&mut self, at: usize) -> Conclusion {
        let unit = &self.units[at];
        if unit.is_lone() {
            let mut lone = Conclusion::of(Class::DifferentProgram);
            lone.from = self.comes_from(at);
            return lone;
        }
        let mut conclusion = self.of_pair(at, unit);
        conclusion.taken = self.taken(at);
        conclusion
    }

    fn of_pair(&mut self, at: usize, unit: &Observed) -> Conclusion {
        if unit.kind == CallKind::Saved {
            return of_saved(unit, |entry| self.noise.of(at, entry));
        }
        let from = self.comes_from(at);
        let mut known = Conclusion { from, ..Conclusion::of(Class::Noise) };
        // What is wrong with the arguments of a module is wrong with those of a call inside it.
        let arguments =
            if from.is_none() && !self.flow.is_composite(at) { self.blame(at, unit) } else { None };
        if let Some(found) = arguments {
            return found;
        }
        if let Some(found) = self.look_for_non_finite(at, unit, from) {
            return found;
        }
        // Results of arguments of another shape are other results.
        let unlike = |entry: &Seen| entry.is_tensor && entry.state == Seeing::Unlike;
        if self.works_on_unlike(at) {
            known.class = Class::NotComparable;
            return known;
        }
        if let Some((number, _)) = results(unit).find(|(_, entry)| unlike(entry)) {
            if from.is_some() || self.works_on_differing(at) {
                known.class = Class::Inherited;
                return known;
            }
            // Asked for another shape, a call gives another: what follows cannot be compared, but nothing is wrong with it.
            if argument_differs(unit) {
                known.class = Class::DifferentProgram;
                return known;
            }
            return found(Class::DifferentProgram, Cause::Shape, number, 0.9);
        }
        self.look_at_results(at, unit, known)
    }

    fn look_at_results(&self, at: usize, unit: &Observed, mut known: Conclusion) -> Conclusion {
        let loose = self.works_on_differing(at) || self.flow.is_steep[at] && self.taken(at) > 0.0;
        let exact = results(unit).find(|(_, entry)| entry.state == Seeing::Differs);
        if let Some((number, entry)) =
            exact.filter(|(number, _)| !loose && !self.noise.of(at, *number).differs)
        {
            // By statistics alone, what it works on may have differed without showing.
            let untouched = self.taken(at) == 0.0
                && known.from.is_none()
                && self.expectations.shown_before(at) == Apart::default();
            // Between floats that are not the same, another decision may be right: a tie, a threshold. But not many more
            // than are that near to one: four standard deviations of a count, and three where nearly none is expected.
            let is_too_many = entry.turned.is_some_and(|(turned, of)| {
                let expected = NEAR_A_TIE * self.taken(at) * of;
                turned > expected + 4.0 * expected.sqrt() + 3.0 && !self.flow.is_ranking[at]
            });
            let made_here = untouched || is_too_many && known.from.is_none();
            if made_here && entry.is_tensor {
                return match argument_differs(unit) {
                    true => found(Class::DifferentProgram, Cause::Argument, number, 0.9),
                    false => found(Class::DivergedHere, Cause::Made, number, 0.9),
                };
            }
        }
        let kind = self.flow.kinds[at];
        let mut worst: Option<(f64, f64, &Excess)> = None;
        for excess in &self.excesses[at] {
            let Apart { whole, peak, drift } = excess.times;
            let judged = self.siblings.iter().zip([whole, peak, drift]);
            let (times, confidence) = judged
                .map(|(siblings, times)| siblings.judge(kind, times))
                .fold((0.0, 0.0), |(times, sure): (f64, f64), (more, surer)| {
                    (times.max(more), sure.max(surer))
                });
            if worst.is_none_or(|(most, ..)| times > most) {
                worst = Some((times, confidence, excess));
            }
        }
        if let Some((times, confidence, excess)) = worst {
            known.entry = Some(excess.entry);
            known.expected = excess.expected;
            known.error = unit.entries[excess.entry].numbers.as_ref().map_or(known.error, Apart::relative);
            let taken = self.taken(at);
            // Behind an error that is known, another has to stand out from it.
            let may_be_its = known.from.is_some() && taken > 0.0;
            let stands_out = if may_be_its { times > 10.0 && taken < BEYOND_LINEAR } else { times > 1.0 };
            if stands_out && !loose && self.follows_unlike(at) {
                known.class = Class::NotComparable;
                return known;
            }
            if stands_out && !loose {
                known.confidence = confidence;
                let argument = unit.entries.iter().position(is_other_argument);
                known.cause = Some(if argument.is_some() { Cause::Argument } else { Cause::Made });
                known.class = if argument.is_some() { Class::DifferentProgram } else { Class::DivergedHere };
                if self.has_unknown_arguments(unit) {
                    known.confidence /= 2.0;
                }
                return known;
            }
        }
        let mut states = unit.entries.iter().filter(|entry| entry.is_tensor).map(|entry| entry.state);
        known.class = if states.clone().all(|state| state == Seeing::Equal) {
            Class::Equal
        } else if known.from.is_some() && !self.excesses[at].is_empty() || loose {
            Class::Inherited
        } else if states.all(|state| matches!(state, Seeing::Unknown | Seeing::Missing | Seeing::Lone(_))) {
            Class::NotComparable
        } else {
            Class::Noise
        };
        known
    }

    fn look_for_non_finite(&self, at: usize, unit: &Observed, from: Option<usize>) -> Option<Conclusion> {
        let taken = self.expectations.taken(at);
        let own = || {
            unit.entries.iter().filter(|entry| entry.is_taken()).filter_map(|entry| entry.numbers.as_ref())
        };
        // Infinities in a mask are meant; what makes NaN of them is not.
        let nan_before =
            |side: usize| taken.iter().any(|extent| extent.nan[side]) || self.inside_is_broken(at, side);
        let infinite_before =
            |side: usize| own().any(|extent| extent.broken[side]) || self.inside_is_broken(at, side);
        for (number, entry) in results(unit) {
            let Some(extent) = &entry.numbers else { continue };
            let one_sided = extent.mismatched > 0;
            let both_nan = extent.nan == [true, true];
            if !one_sided && !both_nan {
                continue;
            }
            if from.is_some() || self.works_on_differing(at) {
                let mut inherited = Conclusion::of(Class::Inherited);
                inherited.from = from;
                inherited.entry = Some(number);
                return Some(inherited);
            }
            let sides = [0, 1].map(|side| {
                extent.nan[side] && !nan_before(side) || extent.broken[side] && !infinite_before(side)
            });
            if one_sided && sides != [false, false] && own().all(|extent| extent.mismatched == 0) {
                return Some(found(Class::NonFiniteBornHere, Cause::NonFinite, number, 0.95));
            }
            if both_nan && sides == [true, true] {
                return Some(found(Class::NonFiniteBornHere, Cause::BothNan, number, 0.9));
            }
            if one_sided {
                let mut inherited = Conclusion::of(Class::Inherited);
                inherited.entry = Some(number);
                return Some(inherited);
            }
        }
        None
    }

    fn inside_is_broken(&self, at: usize, side: usize) -> bool {
        // A module is looked at after everything inside it, and asked only where nothing inside is at fault.
        let mut children = self.flow.children[at].iter();
        children.any(|&child| self.expectations.results(child).any(|(_, extent)| extent.broken[side]))
    }

    /// The first unit with a cause that a unit's arguments come from.
    fn comes_from(&self, at: usize) -> Option<usize> {
        let mut from: Option<usize> = None;
        let mut ask = |unit: usize| {
            if let Some(Some(known)) = self.done.get(unit) {
                let cause = if known.cause.is_some() { Some(unit) } else { known.from };
                from = match (from, cause) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
        };
        for entry in &self.units[at].entries {
            for side in [Side::Target, Side::Golden] {
                self.flow.maker(side, entry).into_iter().for_each(&mut ask);
            }
        }
        if let Some(forward) = self.flow.forward[at] {
            ask(forward);
            let takers = &self.flow.takers[forward];
            takers.iter().filter_map(|&(taker, _)| self.flow.backward[taker as usize]).for_each(&mut ask);
            if let Some(backward) = self.flow.backward[forward].filter(|&backward| backward != at) {
                ask(backward);
                self.flow.children[backward].iter().copied().for_each(&mut ask);
            }
        }
        self.flow.children[at].iter().copied().for_each(&mut ask);
        from
    }

    fn taken(&self, at: usize) -> f64 {
        let taken = self.expectations.taken(at);
        taken.iter().map(|extent| extent.relative()).fold(self.expectations.inside(at).whole, f64::max)
    }

    /// Whether a unit works on tensors of exact values that differ: indices, masks.
    fn works_on_differing(&self, at: usize) -> bool {
        let differs = |unit: &Observed| {
            unit.entries
                .iter()
                .any(|entry| entry.is_tensor && entry.is_taken() && entry.state == Seeing::Differs)
        };
        differs(&self.units[at]) || self.flow.forward[at].is_some_and(|forward| differs(&self.units[forward]))
    }

    /// Whether what a unit works on, or what that was made of, has no counterpart on the other side.
    fn follows_unlike(&self, at: usize) -> bool {
        let unlike = |maker: usize| {
            let known = self.done[maker].as_ref();
            known.is_some_and(|known| known.class == Class::NotComparable)
        };
        let makers = |entry: &Seen| [Side::Target, Side::Golden].map(|side| self.flow.maker(side, entry));
        let mut entries = self.units[at].entries.iter().flat_map(makers).flatten();
        let forward = self.flow.forward[at];
        entries.any(unlike) || forward.is_some_and(|at| unlike(at) || argument_differs(&self.units[at]))
    }

    fn works_on_unlike(&self, at: usize) -> bool {
        let unlike = |unit: &Observed| {
            unit.entries
                .iter()
                .any(|entry| entry.is_tensor && entry.is_taken() && matches!(entry.state, Seeing::Unlike))
        };
        unlike(&self.units[at]) || self.flow.forward[at].is_some_and(|forward| unlike(&self.units[forward]))
    }

    fn has_unknown_arguments(&self, unit: &Observed) -> bool {
        unit.entries.iter().any(|entry| entry.is_tensor && entry.is_taken() && entry.state == Seeing::Unknown)
    }
}

fn results(unit: &Observed) -> impl Iterator<Item = (usize, &Seen)> {
    unit.entries.iter().enumerate().filter(|(_, entry)| !entry.is_taken() && entry.role != Role::Saved)
}

fn is_other_argument(entry: &Seen) -> bool {
    entry.is_taken() && !entry.is_tensor && matches!(entry.state, Seeing::Differs | Seeing::Unlike)
}

fn argument_differs(unit: &Observed) -> bool {
    unit.entries.iter().any(is_other_argument)
}
