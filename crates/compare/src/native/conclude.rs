//! One class for each call, and the calls that introduced an error.
//!
//! ```text
//! in execution order, modules behind what is inside them:
//!   an argument that differs   from outside ──► origin differs
//!                              and whoever made it agrees ──► changed on the way; made by a call without partner ──► blame it
//!   a result that is not finite, of finite arguments ──► non-finite born here
//!   a result further apart than expected ──► diverged here, or different program if a plain argument is another
//!   what comes from a call that introduced an error ──► inherited
//! ```

use ulpscope_dump::{CallKind, Role};

use super::expect::{Apart, Excess, Expectations};
use super::flow::Flow;
use super::noise::{Heard, Noise};
use super::observed::{Extent, Observed, Seeing, Seen, Source};
use super::siblings::Siblings;
use crate::style::Side;
use crate::verdict::Class;

/// From this relative error on nothing is linear any more, and a call may do anything with it.
const BEYOND_LINEAR: f64 = 0.05;

/// Origins that all differ by more than this are other origins, not the same after some noisy steps.
const OTHER_ORIGINS: f64 = 1e-2;

/// What was concluded of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Conclusion {
    pub(super) class: Class,
    /// The entry that shows it, by its number in the unit.
    pub(super) entry: Option<usize>,
    /// Whether the unit introduced an error, and if so how.
    pub(super) cause: Option<Cause>,
    /// How sure it is, from 0 to 1.
    pub(super) confidence: f64,
    /// The relative error of the entry, and what was expected.
    pub(super) error: Apart,
    pub(super) expected: Apart,
    /// The largest relative error among what the unit works on.
    pub(super) taken: f64,
    /// The first unit with a cause that this one's error comes from.
    pub(super) from: Option<usize>,
}

/// How an error came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The result is not what the arguments explain.
    Made,
    /// A plain argument is another.
    Argument,
    /// An argument from outside is another.
    Origin,
    /// An argument is not what its maker gave.
    Between,
    /// One side has this call, the other not, and what follows is another.
    Lone,
    /// The two take their argument from different calls.
    Wiring,
    /// Results have another shape.
    Shape,
    /// NaN or infinite on one side.
    NonFinite,
    /// NaN on both sides.
    BothNan,
}

/// Concludes all units.
pub(super) fn conclude(units: &[Observed], flow: &Flow, noise: &Noise) -> Vec<Conclusion> {
    let expectations = Expectations::of(units, flow, noise);
    let excesses: Vec<Vec<Excess>> = (0..units.len()).map(|at| expectations.excesses(at)).collect();
    let whole = excesses.iter().enumerate().flat_map(|(at, all)| {
        let worst = all.iter().map(|excess| excess.times.whole).fold(0.0, f64::max);
        Some((flow.kinds[at], worst))
    });
    let peak = excesses.iter().enumerate().flat_map(|(at, all)| {
        let worst = all.iter().map(|excess| excess.times.peak).fold(0.0, f64::max);
        Some((flow.kinds[at], worst))
    });
    let mut walk = Walk {
        units,
        flow,
        noise,
        siblings: (Siblings::of(whole, units.len()), Siblings::of(peak, units.len())),
        origins: Origins::of(units),
        done: vec![None; units.len()],
        expectations: &expectations,
        excesses: &excesses,
        backward_so_far: 0.0,
    };
    for &at in &flow.order {
        let conclusion = walk.conclude(at);
        if units[at].kind == CallKind::Backward {
            let errors = expectations.results(at).map(|(_, extent)| extent.relative());
            walk.backward_so_far = errors.fold(walk.backward_so_far, f64::max);
        }
        // A lone call may have been blamed already, by who took what it gave.
        if walk.done[at].as_ref().is_none_or(|known| known.cause.is_none()) {
            walk.done[at] = Some(conclusion);
        }
    }
    walk.done.into_iter().map(|done| done.unwrap_or_else(|| Conclusion::of(Class::NotComparable))).collect()
}

impl Conclusion {
    fn of(class: Class) -> Conclusion {
        Conclusion {
            class,
            entry: None,
            cause: None,
            confidence: 0.0,
            error: Apart::default(),
            expected: Apart::default(),
            taken: 0.0,
            from: None,
        }
    }
}

/// How far apart origins are in this run.
struct Origins {
    /// The relative error that is ordinary among them.
    ordinary: f64,
}

impl Origins {
    fn of(units: &[Observed]) -> Origins {
        let origins = units.iter().flat_map(|unit| &unit.entries).filter(|entry| is_origin(entry));
        let mut errors: Vec<f64> =
            origins.filter_map(|entry| entry.numbers.as_ref()).map(Extent::relative).collect();
        errors.sort_by(f64::total_cmp);
        let median = errors.get(errors.len() / 2).copied().unwrap_or(0.0);
        Origins { ordinary: if median > OTHER_ORIGINS { 0.0 } else { median } }
    }

    /// Whether an origin is as near as the others are, as its dtype lets it be, or as it is in a second golden run.
    fn is_ordinary(&self, extent: &Extent, heard: Heard) -> bool {
        // Another dtype rounds every element by itself.
        let of_dtype = if extent.unit > super::rounding::ACCUMULATOR { 2.0 * extent.unit } else { 0.0 };
        let allowed = heard.allowed();
        let whole = of_dtype.max(8.0 * self.ordinary).max(allowed.whole);
        let peak = (of_dtype * extent.largest).max((64.0 * self.ordinary).max(allowed.peak) * extent.rms());
        extent.error <= whole * extent.norm && extent.peak <= peak
    }
}

fn is_origin(entry: &Seen) -> bool {
    entry.is_tensor && entry.is_taken() && entry.sources.iter().all(|source| *source == Source::Origin)
}

struct Walk<'a> {
    units: &'a [Observed],
    flow: &'a Flow,
    noise: &'a Noise,
    /// For whole tensors, and for their worst elements.
    siblings: (Siblings, Siblings),
    origins: Origins,
    done: Vec<Option<Conclusion>>,
    expectations: &'a Expectations<'a>,
    excesses: &'a [Vec<Excess>],
    /// The largest relative error of a gradient up to here.
    backward_so_far: f64,
}

impl Walk<'_> {
    fn conclude(&mut self, at: usize) -> Conclusion {
        let unit = &self.units[at];
        if unit.target.is_none() || unit.golden.is_none() {
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
        if !self.flow.is_composite(at) && from.is_none() {
            if let Some(found) = self.look_at_arguments(at, unit) {
                return found;
            }
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
        let loose = self.works_on_differing(at);
        let exact = results(unit).find(|(_, entry)| entry.state == Seeing::Differs);
        if let Some((number, entry)) =
            exact.filter(|(number, _)| !loose && !self.noise.of(at, *number).differs)
        {
            let untouched = self.taken(at) == 0.0 && known.from.is_none();
            // Between floats that are not the same, another decision may be right: a tie, a threshold.
            if untouched && (entry.is_tensor || !argument_differs(unit)) {
                return found(Class::DivergedHere, Cause::Made, number, 0.9);
            }
        }
        let kind = self.flow.kinds[at];
        let mut worst: Option<(f64, f64, &Excess)> = None;
        for excess in &self.excesses[at] {
            let (whole, sure) = self.siblings.0.judge(kind, excess.times.whole);
            let (peak, sure_by_peak) = self.siblings.1.judge(kind, excess.times.peak);
            let (times, confidence) = (whole.max(peak), sure.max(sure_by_peak));
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
                let argument = unit.entries.iter().position(|entry| is_other_argument(entry));
                known.cause = Some(if argument.is_some() { Cause::Argument } else { Cause::Made });
                known.class = if argument.is_some() { Class::DifferentProgram } else { Class::DivergedHere };
                if self.has_unknown_arguments(unit) {
                    known.confidence /= 2.0;
                }
                return known;
            }
        }
        let mut states = unit.entries.iter().filter(|entry| entry.is_tensor).map(|entry| entry.state);
        known.class = if known.from.is_some() && self.excesses[at].iter().any(|_| true) || loose {
            Class::Inherited
        } else if states.clone().all(|state| state == Seeing::Equal) {
            Class::Equal
        } else if states.all(|state| matches!(state, Seeing::Unknown | Seeing::Missing | Seeing::Lone(_))) {
            Class::NotComparable
        } else {
            Class::Noise
        };
        known
    }

    /// An argument that differs although whoever made it agrees.
    fn look_at_arguments(&mut self, at: usize, unit: &Observed) -> Option<Conclusion> {
        for (number, entry) in unit.entries.iter().enumerate() {
            if !entry.is_taken()
                || !entry.is_tensor
                || matches!(entry.state, Seeing::Equal | Seeing::Unknown | Seeing::Missing)
            {
                continue;
            }
            let found = match entry.sources {
                [Source::Origin, Source::Origin] => self.of_origin(at, number, entry),
                [Source::Call(..), _] | [_, Source::Call(..)] => self.of_made(at, number, entry),
                _ if unit.kind == CallKind::Backward => self.of_gradient(at, number, entry),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn of_origin(&self, at: usize, number: usize, entry: &Seen) -> Option<Conclusion> {
        if matches!(entry.state, Seeing::Unlike | Seeing::Lone(_)) {
            return None;
        }
        let extent = entry.numbers.as_ref();
        let heard = self.noise.of(at, number);
        if let Some(extent) = extent.filter(|_| entry.state == Seeing::Apart)
            && extent.mismatched == 0
            && self.origins.is_ordinary(extent, heard)
        {
            return None;
        }
        // Drawn anew in every run, or computed outside by a decision that is not always the same.
        if entry.state == Seeing::Differs && heard.differs {
            return None;
        }
        let mut conclusion = found(Class::OriginDiffers, Cause::Origin, number, 0.95);
        conclusion.error = extent.map_or(conclusion.error, Apart::relative);
        conclusion.expected.whole = self.origins.ordinary.max(heard.allowed().whole);
        Some(conclusion)
    }

    fn of_made(&mut self, at: usize, number: usize, entry: &Seen) -> Option<Conclusion> {
        let extent = entry.numbers.as_ref()?;
        let makers = [Side::Target, Side::Golden].map(|side| self.maker(side, entry));
        let own = 4.0 * extent.unit;
        let brought = |walk: &Self| {
            let mut brought = Apart { whole: own, peak: own * (extent.largest / extent.rms()).max(1.0) };
            for maker in makers.iter().flatten() {
                brought = brought.max(walk.brought_by(*maker, &mut Vec::new()));
            }
            brought.max(walk.noise.of(at, number).allowed())
        };
        let brought = brought(self);
        let error = Apart::relative(extent);
        // Nothing is known of what was done on the way, so the prior is all there is.
        let allowed = self.siblings.0.allowed_by_prior();
        if error.whole <= allowed * brought.whole
            && error.peak <= allowed * brought.peak.max(6.0 * brought.whole)
        {
            return None;
        }
        let lone = makers.iter().flatten().copied().find(|&maker| self.is_lone(maker));
        let mut conclusion = match (lone, makers) {
            (Some(lone), _) => {
                let first = self.first_of_region(lone);
                let mut blamed = found(Class::DifferentProgram, Cause::Lone, 0, 0.8);
                blamed.entry = None;
                blamed.error = error;
                blamed.expected = brought;
                self.done[first] = Some(blamed);
                let mut inherited = Conclusion::of(Class::Inherited);
                inherited.from = Some(first);
                inherited.entry = Some(number);
                return Some(inherited);
            }
            (None, [Some(one), Some(other)]) if one != other => {
                found(Class::DifferentProgram, Cause::Wiring, number, 0.8)
            }
            _ => found(Class::OriginDiffers, Cause::Between, number, 0.6),
        };
        conclusion.error = error;
        conclusion.expected = brought;
        Some(conclusion)
    }

    /// A gradient that arrives comes from those who took the result.
    fn of_gradient(&self, at: usize, number: usize, entry: &Seen) -> Option<Conclusion> {
        let extent = entry.numbers.as_ref()?;
        let forward = self.flow.forward[at]?;
        let mut brought = Apart { whole: 4.0 * extent.unit, peak: 0.0 };
        brought.whole = brought.whole.max(self.noise.of(at, number).allowed().whole);
        let mut scale = extent.norm;
        let mut missing = false;
        let takers = &self.flow.takers[forward];
        for &(taker, _) in takers.iter().filter(|(taker, _)| !self.flow.is_composite(*taker as usize)) {
            let Some(backward) = self.flow.backward[taker as usize] else {
                missing = true;
                continue;
            };
            missing |= self.is_lone(backward);
            for (_, given) in self.expectations.results(backward) {
                brought = brought.max(Apart::relative(given));
                scale = scale.max(given.norm);
            }
        }
        if missing || takers.is_empty() {
            brought.whole = brought.whole.max(self.backward_so_far);
        }
        let allowed = self.siblings.0.allowed_by_prior();
        let error = Apart::relative(extent);
        if extent.error <= allowed * brought.whole * scale {
            return None;
        }
        let mut conclusion = found(Class::DivergedHere, Cause::Between, number, 0.6);
        conclusion.error = error;
        conclusion.expected = brought;
        Some(conclusion)
    }

    fn look_for_non_finite(&self, at: usize, unit: &Observed, from: Option<usize>) -> Option<Conclusion> {
        let taken = self.expectations.taken(at);
        let broken_before =
            |side: usize| taken.iter().any(|extent| extent.broken[side]) || self.inside_is_broken(at, side);
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
            let sides = [0, 1].map(|side| extent.broken[side] && !broken_before(side));
            if one_sided && sides != [false, false] && taken.iter().all(|extent| extent.mismatched == 0) {
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
                self.maker(side, entry).into_iter().for_each(&mut ask);
            }
        }
        if let Some(forward) = self.flow.forward[at] {
            ask(forward);
            let takers = &self.flow.takers[forward];
            takers.iter().filter_map(|&(taker, _)| self.flow.backward[taker as usize]).for_each(&mut ask);
            self.flow.backward[forward].filter(|&backward| backward != at).into_iter().for_each(&mut ask);
        }
        self.flow.children[at].iter().copied().for_each(&mut ask);
        from
    }

    fn maker(&self, side: Side, entry: &Seen) -> Option<usize> {
        match entry.sources[side as usize] {
            Source::Call(call, _) => self.flow.unit_of[side as usize].get(call).copied().flatten(),
            _ => None,
        }
    }

    /// The largest relative error that comes out of a unit; through calls without partner, what goes into them.
    fn brought_by(&self, at: usize, seen: &mut Vec<usize>) -> Apart {
        if !self.is_lone(at) {
            let results = self.expectations.results(at).map(|(_, extent)| Apart::relative(extent));
            return results.fold(self.expectations.inside(at), Apart::max);
        }
        if seen.contains(&at) {
            return Apart::default();
        }
        seen.push(at);
        let mut brought = Apart::default();
        for entry in self.units[at].entries.iter().filter(|entry| entry.is_taken()) {
            for side in [Side::Target, Side::Golden] {
                if let Some(maker) = self.maker(side, entry) {
                    brought = brought.max(self.brought_by(maker, seen));
                }
            }
        }
        brought
    }

    /// Of calls without partner that follow one another, the first.
    fn first_of_region(&self, lone: usize) -> usize {
        let (mut first, mut to_see, mut seen) = (lone, vec![lone], vec![lone]);
        while let Some(at) = to_see.pop() {
            first = first.min(at);
            for entry in &self.units[at].entries {
                for side in [Side::Target, Side::Golden] {
                    if let Some(maker) = self.maker(side, entry).filter(|&maker| self.is_lone(maker))
                        && !seen.contains(&maker)
                    {
                        seen.push(maker);
                        to_see.push(maker);
                    }
                }
            }
        }
        first
    }

    fn is_lone(&self, at: usize) -> bool {
        self.units[at].target.is_none() || self.units[at].golden.is_none()
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
        let makers = |entry: &Seen| [Side::Target, Side::Golden].map(|side| self.maker(side, entry));
        let mut entries = self.units[at].entries.iter().flat_map(makers).flatten();
        entries.any(unlike) || self.flow.forward[at].is_some_and(unlike)
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

fn found(class: Class, cause: Cause, entry: usize, confidence: f64) -> Conclusion {
    Conclusion { cause: Some(cause), entry: Some(entry), confidence, ..Conclusion::of(class) }
}

/// A tensor that was saved under a name comes from nowhere, and all that is known is its dtype.
fn of_saved(unit: &Observed, noise: impl Fn(usize) -> Heard) -> Conclusion {
    let mut class = Class::Equal;
    for (number, entry) in unit.entries.iter().enumerate() {
        let heard = noise(number);
        let allowed = heard.allowed();
        let limit = |extent: &Extent| extent.limit.max(allowed.whole);
        let far = match (&entry.state, &entry.numbers) {
            (Seeing::Apart, Some(extent)) => {
                let element = 8.0 * extent.limit * extent.rms().max(extent.largest);
                let element = element.max(allowed.peak * extent.rms());
                extent.mismatched > 0 || extent.error > limit(extent) * extent.norm || extent.peak > element
            }
            (Seeing::Differs, _) => !heard.differs,
            (Seeing::Unlike, _) => true,
            _ => false,
        };
        if far {
            let mut conclusion = found(Class::OriginDiffers, Cause::Origin, number, 0.95);
            conclusion.error = entry.numbers.as_ref().map_or(conclusion.error, Apart::relative);
            conclusion.expected.whole = entry.numbers.as_ref().map_or(0.0, limit);
            return conclusion;
        }
        match entry.state {
            Seeing::Apart => class = Class::Noise,
            Seeing::Unknown if class == Class::Equal => class = Class::NotComparable,
            _ => {}
        }
    }
    Conclusion::of(class)
}
