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

use rayon::prelude::*;
use ulpscope_dump::{CallKind, Role};

use crate::native::attribution::blame::Origins;
use crate::native::attribution::cast::is_fine_run;
use crate::native::attribution::conclusion::{Cause, Conclusion, found, is_of_structure};
use crate::native::attribution::conclusion_list::ConclusionList;
use crate::native::attribution::proofs::Decided;
use crate::native::attribution::regions::Regions;
use crate::native::attribution::routes::Routes;
use crate::native::attribution::standalone_tensors::of_saved;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation};
use crate::native::evidence::flow::Flow;
use crate::native::evidence::tensor_error::TensorError;
use crate::native::expectation::calibration::Calibration;
use crate::native::expectation::expectations::{ErrorProfile, Excess, Expectations};
use crate::native::expectation::noise_floor::Noise;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::final_results::final_parameters::{FinalParameters, Trained};
use crate::native::thresholds::conclude::{
    BESIDE_KNOWN, BEYOND_LINEAR, NEAR_A_TIE, TURNED_FEW, TURNED_SPREAD,
};
use crate::native::thresholds::confidence;
use crate::native::thresholds::siblings::LEAST_ALLOWED;
use crate::verdict::Class;

/// Concludes all units.
///
/// `trained` says that steps went before, what is no result of this one being one of theirs; and how far these may have taken it
/// apart.
pub(in crate::native) fn conclude(
    units: &[CallEvidence],
    (flow, kept): (&Flow, &FinalParameters),
    noise: &Noise,
    trained: Option<Trained>,
    decided: &Decided,
) -> Concluded {
    let expectations = Expectations::of(units, flow, noise);
    // Those of each unit are made anew when it is concluded: all of them together would take much memory.
    let worst = |at: usize| {
        let times = expectations.excesses(at).into_iter().map(|excess| excess.times);
        times.fold(ErrorProfile::default(), ErrorProfile::max)
    };
    let worst: Vec<ErrorProfile> = (0..units.len()).into_par_iter().map(worst).collect();
    let channels = [
        |times: ErrorProfile| times.whole,
        |times: ErrorProfile| times.peak,
        |times: ErrorProfile| times.drift,
    ];
    let tests = channels.len() * (0..units.len()).map(|at| expectations.results(at).count()).sum::<usize>();
    let siblings = channels.map(|of| {
        let by_kind = worst.iter().enumerate().map(|(at, times)| (flow.kinds[at], of(*times)));
        Calibration::of(by_kind, tests)
    });
    drop(worst);
    let mut walk = Attribution {
        units,
        flow,
        kept,
        noise,
        siblings,
        origins: Origins::of(units, trained),
        regions: Regions::of(units, flow, &expectations),
        is_fine_run: is_fine_run(units, flow, &expectations),
        routes: Routes::default(),
        done: ConclusionList::open(units.len()),
        expectations: &expectations,
        so_far: ErrorProfile::default(),
        at: 0,
        first_cause: None,
        decided,
    };
    let is_guess = walk.conclude_all();
    Concluded { conclusions: walk.done, routes: walk.routes, origins: walk.origins, is_guess }
}

/// What was concluded of all units.
pub(in crate::native) struct Concluded {
    pub(in crate::native) conclusions: ConclusionList,
    /// Other routes to the same results.
    pub(in crate::native) routes: Routes,
    pub(in crate::native) origins: Origins,
    /// Whether no call stood out, and gradients of parameters that are far apart are named all the same.
    pub(in crate::native) is_guess: bool,
}

/// Units on the way to their conclusions.
pub(in crate::native) struct Attribution<'a> {
    pub(in crate::native) units: &'a [CallEvidence],
    pub(in crate::native) flow: &'a Flow,
    /// What is left in parameters.
    pub(in crate::native) kept: &'a FinalParameters,
    pub(in crate::native) noise: &'a Noise,
    /// For whole tensors, for their worst elements, and for what all elements share.
    pub(in crate::native) siblings: [Calibration; 3],
    pub(in crate::native) origins: Origins,
    pub(in crate::native) regions: Regions,
    /// Whether the two runs compute in float32 or finer for the most part.
    pub(in crate::native) is_fine_run: bool,
    /// Other routes to the same results.
    pub(in crate::native) routes: Routes,
    pub(in crate::native) done: ConclusionList,
    pub(in crate::native) expectations: &'a Expectations<'a>,
    /// The unit that is being concluded.
    pub(in crate::native) at: usize,
    /// The first unit that introduced an error.
    pub(in crate::native) first_cause: Option<usize>,
    /// The largest relative errors of results up to here.
    pub(in crate::native) so_far: ErrorProfile,
    /// What replay has decided.
    decided: &'a Decided,
}

impl Attribution<'_> {
    /// Whether what is blamed is a guess.
    fn conclude_all(&mut self) -> bool {
        for &at in &self.flow.order {
            self.at = at;
            let mut conclusion = self.conclude(at);
            // What seems a cause may be the beginning of another route to the same results; but not where a module, of which
            // everything inside was looked at, says otherwise.
            while let Some((start, cause)) = self.cause_of(at, &conclusion)
                && !self.flow.is_composite(at)
                && self.is_route(start, cause)
            {
                self.done.set(start, self.on_route(start));
                conclusion = self.conclude(at);
            }
            if !self.routes.is_on(at) {
                let errors = self.expectations.results(at).map(|(_, extent)| ErrorProfile::relative(extent));
                self.so_far = errors.fold(self.so_far, ErrorProfile::max);
            }
            // A lone call may have been blamed already, by who took what it gave.
            if let Some((start, _)) = self.cause_of(at, &conclusion) {
                self.first_cause = self.first_cause.or(Some(start));
            }
            if self.done.cause(at).is_none() {
                self.done.set(at, conclusion);
            }
        }
        for at in (0..self.units.len()).filter(|&at| self.routes.is_on(at)) {
            self.done.set(at, self.on_route(at));
        }
        self.look_at_updates();
        if self.first_cause.is_some() {
            return false;
        }
        let is_guess = self.look_at_sums();
        self.look_at_kept();
        is_guess && self.kept.first_apart.is_none()
    }

    /// Of steps that the two runs make in different ways, one call is named for what they leave in parameters, and not each
    /// that differs.
    fn look_at_updates(&mut self) {
        let is_blamed = |at: &usize| self.done.cause(*at).is_some();
        let mut blamed: Vec<usize> = self.kept.updates.members().filter(is_blamed).collect();
        blamed.retain(|&at| self.kept.updates.is_in_rewritten(at));
        blamed.sort_unstable();
        let (Some(&first), Some(left)) = (blamed.first(), &self.kept.first_apart) else { return };
        if blamed.len() == 1 {
            return;
        }
        let mut named = first;
        if self.done.cause(first).is_some_and(is_of_structure) {
            // Where both sides write, it is known from which values on they compute something else.
            let found = self.kept.blamed().filter(|_| left.cut.is_some());
            let conclusion;
            (named, conclusion) = found.unwrap_or_else(|| {
                (first, Conclusion { cause: Some(Cause::Updates), ..self.done.get(first) })
            });
            self.done.set(named, conclusion);
        }
        for at in blamed.into_iter().filter(|&at| at != named) {
            self.done.set(at, Conclusion { from: Some(named), ..Conclusion::of(Class::Inherited) });
        }
    }

    /// Where nobody was found to blame, who leaves another parameter is.
    fn look_at_kept(&mut self) {
        if let Some((by, left)) = self.kept.blamed() {
            self.done.set(by, left);
        }
    }

    /// Where nobody was found to blame, gradients of parameters that are far apart are named all the same: errors that each
    /// call explains by another come from somewhere.
    fn look_at_sums(&mut self) -> bool {
        // Where anything was computed in a coarse dtype, gradients may be as far apart for that.
        let all = self.units.iter().flat_map(|unit| &unit.entries).filter_map(|entry| entry.numbers.as_ref());
        if all.into_iter().any(|extent| extent.unit() > ACCUMULATOR) {
            return false;
        }
        let is_sum = |at: &usize| self.units[*at].kind == CallKind::ParametersGrad;
        for at in (0..self.units.len()).filter(is_sum) {
            let is_judged = matches!(self.done.class(at), Some(Class::Noise | Class::Inherited))
                && self.done.from(at).is_none();
            let beside = self.expectations.beside(at);
            let is_far = |extent: &TensorError| {
                let size = extent.norm.max(beside * extent.count.sqrt());
                extent.error > BEYOND_LINEAR.get() * size
            };
            let mut far = self.expectations.results(at).filter(|(_, extent)| is_far(extent));
            if let Some((entry, extent)) = far.next().filter(|_| is_judged) {
                let found = found(Class::DivergedHere, Cause::Made, entry, confidence::GUESS);
                self.done.set(at, Conclusion { error: ErrorProfile::relative(extent), ..found });
                return true;
            }
        }
        false
    }

    /// The unit that a conclusion blames, and why.
    fn cause_of(&self, at: usize, conclusion: &Conclusion) -> Option<(usize, Cause)> {
        let blamed = || {
            let from = conclusion.from?;
            Some((from, self.done.cause(from)?))
        };
        conclusion.cause.map(|cause| (at, cause)).or_else(blamed)
    }

    fn on_route(&self, at: usize) -> Conclusion {
        let class = if self.units[at].is_lone() { Class::DifferentProgram } else { Class::NotComparable };
        Conclusion { from: self.comes_from(at), ..Conclusion::of(class) }
    }

    fn conclude(&mut self, at: usize) -> Conclusion {
        let unit = &self.units[at];
        if self.routes.is_on(at) {
            return self.on_route(at);
        }
        if unit.is_lone() {
            let mut lone = Conclusion::of(Class::DifferentProgram);
            lone.from = self.comes_from(at);
            return lone;
        }
        if unit.is_unread {
            return Conclusion::of(Class::NotComparable);
        }
        let mut conclusion = self.of_pair(at, unit);
        conclusion.taken = self.taken(at);
        conclusion
    }

    fn of_pair(&mut self, at: usize, unit: &CallEvidence) -> Conclusion {
        if unit.kind == CallKind::Saved {
            return of_saved(unit, |entry| self.noise.of(at, entry));
        }
        let from = self.comes_from(at);
        let mut known = Conclusion { from, ..Conclusion::of(Class::Noise) };
        // What a step leaves is what calls made: final results are compared with accumulated rounding.
        if unit.kind == CallKind::StepEnd {
            let mut tensors = unit.entries.iter().filter(|entry| entry.is_tensor);
            known.class = match from {
                _ if tensors.clone().all(|entry| entry.state.is_settled()) => Class::Equal,
                Some(_) => Class::Inherited,
                None if tensors.all(|entry| self.is_near(entry)) => Class::Noise,
                None => Class::NotComparable,
            };
            return known;
        }
        let mut tensors = unit.entries.iter().filter(|entry| entry.is_tensor);
        let is_update = self.kept.is_towards(at) || self.kept.updates.is_crossed(at);
        if is_update && !tensors.all(|entry| self.is_near(entry)) {
            known.class = Class::NotComparable;
            return known;
        }
        // What is wrong with the arguments of a module is wrong with those of a call inside it.
        let arguments =
            if from.is_none() && !self.flow.is_composite(at) { self.blame(at, unit) } else { None };
        if let Some(found) = arguments {
            return found;
        }
        if let Some(found) = self.look_for_non_finite(at, unit, from) {
            return found;
        }
        if from.is_none()
            && let Some(found) = self.find_cast(at, unit)
        {
            return found;
        }
        // Results of arguments of another shape are other results.
        let unlike = |entry: &EntryEvidence| entry.is_tensor && entry.state == Relation::Unlike;
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
            return found(Class::DifferentProgram, Cause::Shape, number, confidence::EXACT);
        }
        let mut concluded = self.look_at_results(at, unit, known);
        // Sums of gradients have no makers that are known: behind an error, they may have it.
        if concluded.cause == Some(Cause::Made)
            && unit.kind == CallKind::ParametersGrad
            && self.first_cause.is_some_and(|cause| cause < at)
            && self.is_explained(concluded.error, self.so_far)
        {
            let inherited = Conclusion::of(Class::Inherited);
            concluded = Conclusion {
                from: self.first_cause,
                entry: concluded.entry,
                error: concluded.error,
                ..inherited
            };
        }
        if concluded.cause.is_none()
            && let Some(frozen) = self.find_frozen(at, unit)
        {
            return frozen;
        }
        if concluded.class == Class::NotComparable
            && concluded.from.is_none()
            && let Some(inherited) = self.blame_forward(at, &concluded)
        {
            return inherited;
        }
        let is_open = concluded.class == Class::NotComparable || concluded.cause == Some(Cause::Made);
        if is_open
            && concluded.from.is_none()
            && let (Some(part), Some(entry)) = (self.who_reordered(at), concluded.entry)
        {
            return self.blame_reordered(part, entry, concluded.error, concluded.expected);
        }
        // What nothing inside a module explains was done by whoever could not be compared.
        let lone = self.flow.children[at].iter().copied().find(|&child| {
            // What is written into a tensor that nobody takes, such as a count of batches, explains nothing.
            let is_used = !self.flow.operations[child].is_in_place || !self.flow.takers[child].is_empty();
            self.units[child].is_lone() && is_used && !self.units[child].is_left_out
        });
        match (lone, concluded.cause, concluded.entry) {
            (Some(lone), Some(Cause::Made), Some(entry)) => {
                self.leave_route(lone);
                self.blame_region(lone, entry, concluded.error, concluded.expected)
            }
            _ => concluded,
        }
    }

    fn look_at_results(&self, at: usize, unit: &CallEvidence, mut known: Conclusion) -> Conclusion {
        // What a user's own backward function gives, the calls inside it made.
        if known.from.is_some() && self.flow.inside_backward.contains_key(&at) {
            let differs = |(_, entry): &(usize, &EntryEvidence)| !entry.state.is_settled();
            known.class =
                if results(unit).any(|result| differs(&result)) { Class::Inherited } else { Class::Equal };
            return known;
        }
        if let Some((number, _)) = results(unit).next().filter(|_| self.decided.is_wrong(at)) {
            return self.proven(at, number);
        }
        let is_cleared = self.decided.is_cleared(at);
        let loose = self.works_on_differing(at) || self.flow.operations[at].is_steep && self.taken(at) > 0.0;
        let exact = results(unit).find(|(_, entry)| entry.state == Relation::Differs);
        if let Some((number, entry)) =
            exact.filter(|(number, _)| !loose && !is_cleared && !self.noise.of(at, *number).differs)
        {
            // By statistics alone, what it works on may have differed without showing.
            let untouched = self.taken(at) == 0.0
                && known.from.is_none()
                && self.expectations.shown_before(at) == ErrorProfile::default();
            let is_too_many = entry.turned().is_some_and(|turned| turns_too_many(turned, self.taken(at)))
                && !self.flow.operations[at].is_ranking;
            let made_here = untouched || is_too_many && known.from.is_none();
            if made_here && entry.is_tensor {
                let (class, cause) = self.introduced(at, true);
                return found(class, cause, number, confidence::EXACT);
            }
        }
        let kind = self.flow.kinds[at];
        let excesses = self.expectations.excesses(at);
        let mut worst: Option<(f64, f64, &Excess)> = None;
        for excess in &excesses {
            let ErrorProfile { whole, peak, drift } = excess.times;
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
            known.error =
                unit.entries[excess.entry].numbers.as_ref().map_or(known.error, ErrorProfile::relative);
            let taken = self.taken(at);
            // Behind an error that is known, another has to stand out from it.
            let may_be_its = known.from.is_some() && taken > 0.0;
            let is_open = !is_cleared && (!may_be_its || taken < BEYOND_LINEAR.get());
            let doubt = if may_be_its { times / BESIDE_KNOWN.get() } else { times };
            let stands_out = is_open && (doubt > 1.0 || !may_be_its && self.is_gone(at, excess));
            known.doubt = if is_open && !loose { doubt } else { 0.0 };
            let is_no_cause =
                || self.follows_unlike(at) || self.flow.rearranged.contains(&at) || self.is_unused_draw(at);
            if stands_out && !loose && is_no_cause() {
                known.class = Class::NotComparable;
                return known;
            }
            if stands_out && !loose {
                known.confidence = confidence;
                // What is but scaled was not drawn anew.
                let ErrorProfile { whole, drift, .. } = known.error;
                let is_new = (whole * whole - drift * drift).max(0.0).sqrt() > BEYOND_LINEAR.get();
                let (class, cause) = self.introduced(at, is_new);
                (known.class, known.cause) = (class, Some(cause));
                if self.has_unknown_arguments(unit) {
                    known.confidence *= confidence::UNKNOWN_ARGUMENT;
                }
                return known;
            }
        }
        let mut states = unit.entries.iter().filter(|entry| entry.is_tensor).map(|entry| entry.state);
        known.class = if states.clone().all(|state| state.is_settled()) {
            Class::Equal
        } else if known.from.is_some() && !excesses.is_empty() || loose || is_cleared && self.taken(at) > 0.0
        {
            Class::Inherited
        } else if states.all(Relation::is_open) {
            Class::NotComparable
        } else {
            Class::Noise
        };
        known
    }

    /// A call of which replay has measured that one side is wrong.
    fn proven(&self, at: usize, number: usize) -> Conclusion {
        let size = |excess: &&Excess| excess.times.whole;
        let excesses = self.expectations.excesses(at);
        let worst = excesses.iter().max_by(|one, other| size(one).total_cmp(&size(other)));
        let entry = worst.map_or(number, |excess| excess.entry);
        let error = self.units[at].entries[entry]
            .numbers
            .as_ref()
            .map_or(ErrorProfile::default(), ErrorProfile::relative);
        let expected = worst.map_or(ErrorProfile::default(), |excess| excess.expected);
        Conclusion { error, expected, ..found(Class::DivergedHere, Cause::Made, entry, 1.0) }
    }

    /// Whether a result is gone that its arguments say is there: no noise makes zeros of all elements.
    fn is_gone(&self, at: usize, excess: &Excess) -> bool {
        let result = self.units[at].entries[excess.entry].numbers.as_ref();
        excess.times.whole > LEAST_ALLOWED.get()
            && result.is_some_and(|result| result.is_gone)
            && !self.flow.operations[at].may_hide
            && !self.expectations.taken(at).iter().any(|taken| taken.is_gone)
    }

    /// Whether a module draws random numbers and computes nothing from them: which layers to skip, where none are skipped.
    fn is_unused_draw(&self, at: usize) -> bool {
        self.flow.operations[at].is_draw
            && self.flow.takers[at].is_empty()
            && self.flow.parent.of(at).is_some()
            && !self.units[at].entries.iter().any(|entry| entry.is_tensor && entry.is_taken())
    }

    /// How an error came in at a call whose arguments do not explain it; `is_new` says that its results have little in
    /// common.
    fn introduced(&self, at: usize, is_new: bool) -> (Class, Cause) {
        let mut entries = self.units[at].entries.iter();
        if entries.any(|entry| entry.is_other_argument() || entry.is_own_argument()) {
            (Class::DifferentProgram, Cause::Argument)
        } else if is_new && self.flow.operations[at].is_draw {
            (Class::OriginDiffers, Cause::Draw)
        } else {
            (Class::DivergedHere, Cause::Made)
        }
    }
}

pub(in crate::native) fn results(unit: &CallEvidence) -> impl Iterator<Item = (usize, &EntryEvidence)> {
    unit.entries.iter().enumerate().filter(|(_, entry)| !entry.is_taken() && entry.role != Role::Saved)
}

/// Whether more decisions fell otherwise than an error of what was decided on makes: between floats that are not the same,
/// another decision may be right, at a tie or a threshold, but not many more than are that near to one.
pub(in crate::native) fn turns_too_many((turned, of): (f64, f64), error: f64) -> bool {
    let expected = NEAR_A_TIE.get() * error * of;
    turned
        > expected + if error > 0.0 { TURNED_SPREAD.get() * expected.sqrt() + TURNED_FEW.get() } else { 0.0 }
}

pub(in crate::native) fn argument_differs(unit: &CallEvidence) -> bool {
    unit.entries.iter().any(EntryEvidence::is_other_argument)
}
