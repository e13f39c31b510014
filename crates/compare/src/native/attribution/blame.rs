//! Arguments that differ although whoever made them agrees: they came from outside, were changed on the way, or were made
//! by a call that only one side has.

use ulpscope_dump::CallKind;

use crate::native::attribution::conclude::{Attribution, argument_differs, turns_too_many};
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::tensor_error::TensorError;
use crate::native::expectation::expectations::{ErrorProfile, shared_part};
use crate::native::expectation::noise_floor::NoiseSample;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::final_results::final_parameters::Trained;
use crate::native::thresholds::expect::ELEMENT_SPREAD;
use crate::native::thresholds::rounding::ROUNDINGS;
use crate::native::thresholds::{confidence, origins};
use crate::verdict::Class;

/// How far apart origins are in this run.
#[derive(Debug)]
pub(in crate::native) struct Origins {
    /// The relative error that is ordinary among them.
    ordinary: f64,
    /// The size of an element of an ordinary one, and the error per element that one in ten exceeds; nothing in a first
    /// step, where origins are what they are.
    trained: Option<(f64, f64)>,
    /// The relative error above which what was trained is another.
    most: f64,
    /// The error per element that a few may have whose gradients are zero except for rounding: an optimizer that divides by the root
    /// of squares takes them a whole step the way that rounding points, as the bias of keys.
    reach: f64,
}

impl Origins {
    pub(in crate::native) fn of(units: &[CallEvidence], trained: Option<Trained>) -> Origins {
        let origins = || units.iter().flat_map(|unit| &unit.entries).filter(|entry| is_origin(entry));
        // Of what was trained, parameters are the measure, and not an input or a buffer that may be wrong.
        let kept = origins().filter(|entry| entry.sources() == [Source::Origin; 2]);
        let kept: Vec<&TensorError> = kept.filter_map(|entry| entry.numbers.as_ref()).collect();
        let all: Vec<&TensorError> = origins().filter_map(|entry| entry.numbers.as_ref()).collect();
        let at = |tenth: usize, of: &[&TensorError], size: &dyn Fn(&TensorError) -> f64| {
            let mut sorted: Vec<f64> = of.iter().map(|extent| size(extent)).collect();
            sorted.sort_by(f64::total_cmp);
            // Of few, the largest is not among nine in ten.
            sorted.get(sorted.len().saturating_sub(1) * tenth / 10).copied().unwrap_or(0.0)
        };
        let median = at(5, &all, &TensorError::relative);
        let per_element = |extent: &TensorError| extent.error / extent.count.max(1.0).sqrt();
        let is_fine = all.iter().all(|extent| extent.unit() <= ACCUMULATOR);
        let most = match (trained, is_fine) {
            (None, _) => origins::STORED.get(),
            (Some(trained), true) => origins::OTHER_FINE.get().max(trained.apart),
            (Some(trained), false) => origins::OTHER.get().max(trained.apart),
        };
        // Where all are others, nothing can be learnt from them.
        let is_learnt = trained.is_some() && at(5, &kept, &TensorError::relative) <= most;
        let learnt = is_learnt.then(|| (at(5, &kept, &TensorError::rms), at(9, &kept, &per_element)));
        let mut origins =
            Origins { ordinary: if median > most { 0.0 } else { median }, trained: learnt, most, reach: 0.0 };
        let others = kept.iter().filter(|extent| !origins.is_as_trained(extent)).count();
        if let Some(trained) =
            trained.filter(|_| others as f64 * origins::ZERO_GRADIENTS.get() <= kept.len() as f64)
        {
            origins.reach = trained.reach;
        }
        origins
    }

    /// Whether steps that went before explain how far an origin is apart.
    fn is_as_trained(&self, extent: &TensorError) -> bool {
        self.trained.is_some_and(|(size, error)| {
            let size = size.max(extent.rms());
            let allowed =
                (origins::TRAINED_APART.get() * error).max(self.most * size) * extent.count.max(1.0).sqrt();
            extent.error <= allowed
        })
    }

    /// Whether an origin is as near as the others are, as its dtype lets it be, or as it is in a second golden run.
    pub(in crate::native) fn is_ordinary(&self, extent: &TensorError, heard: NoiseSample) -> bool {
        // Weights that were trained are results of earlier steps. What began as zero is no better than what it was
        // trained with, so errors are held against the size of all.
        if self.is_as_trained(extent) || extent.error <= self.reach * extent.count.max(1.0).sqrt() {
            return true;
        }
        // Another dtype rounds every element by itself.
        let of_dtype =
            if extent.unit() > ACCUMULATOR { origins::ROUNDINGS.get() * extent.unit() } else { 0.0 };
        let allowed = heard.allowed();
        let whole = of_dtype.max(origins::ORDINARY.get() * self.ordinary).max(allowed.whole);
        let peak = (of_dtype * extent.largest)
            .max((origins::ORDINARY_PEAK.get() * self.ordinary).max(allowed.peak) * extent.rms());
        extent.error <= whole * extent.norm && extent.peak <= peak
    }
}

fn is_origin(entry: &EntryEvidence) -> bool {
    entry.is_tensor && entry.is_taken() && entry.sources().iter().all(Source::is_given)
}

impl Attribution<'_> {
    /// What to blame for an argument that differs, if not whoever made it.
    pub(in crate::native) fn blame(&mut self, at: usize, unit: &CallEvidence) -> Option<Conclusion> {
        let differs = |entry: &EntryEvidence| {
            matches!(entry.state, Relation::Apart | Relation::Differs | Relation::Unlike)
        };
        let arguments =
            unit.entries.iter().enumerate().filter(|(_, entry)| entry.is_taken() && entry.is_tensor);
        if self.routes.meet_at(at) {
            return None;
        }
        // What lies on another route is no other for being made there.
        let is_on_route = |entry: &EntryEvidence| {
            self.flow.makers(entry).into_iter().flatten().any(|maker| self.routes.is_on(maker))
        };
        let arguments: Vec<(usize, &EntryEvidence)> =
            arguments.filter(|(_, entry)| differs(entry) && !is_on_route(entry)).collect();
        arguments.into_iter().find_map(|(number, entry)| match entry.sources() {
            sources if sources.iter().all(Source::is_given) => self.of_origin(at, number, entry),
            [Source::Call(..), _] | [_, Source::Call(..)] => self.of_made(at, number, entry),
            _ if unit.kind == CallKind::Backward => self.of_gradient(at, number, entry),
            _ => self.of_unsaid(at, number, entry),
        })
    }

    fn of_origin(&self, at: usize, number: usize, entry: &EntryEvidence) -> Option<Conclusion> {
        // Runs that were given other shapes have nothing to be compared, and nothing wrong with them.
        if entry.state == Relation::Unlike {
            return None;
        }
        let extent = entry.numbers.as_ref();
        let heard = self.noise.of(at, number);
        let is_ordinary =
            |extent: &TensorError| extent.mismatched == 0 && self.origins.is_ordinary(extent, heard);
        let is_amplified = self.is_fine_run && self.expectations.is_amplified(at, number);
        if entry.state == Relation::Apart && !is_amplified && extent.is_some_and(is_ordinary) {
            return None;
        }
        // Drawn anew in every run, or computed outside by a decision that is not always the same.
        if entry.state == Relation::Differs && heard.differs {
            return None;
        }
        // Behind an error that is known, what nobody is seen to have made may have been made of it all the same, as what a
        // backward pass hands to a user's function.
        let error = extent.map_or(ErrorProfile::default(), ErrorProfile::relative);
        if self.first_cause.is_some()
            && entry.sources().contains(&Source::Outside)
            && entry.state == Relation::Apart
            && self.is_explained(error, self.so_far)
        {
            let inherited = Conclusion::of(Class::Inherited);
            return Some(Conclusion { from: self.first_cause, entry: Some(number), error, ..inherited });
        }
        let mut conclusion = found(Class::OriginDiffers, Cause::Origin, number, confidence::SHOWN);
        conclusion.error = error;
        conclusion.expected.whole = self.origins.ordinary.max(heard.allowed().whole);
        Some(conclusion)
    }

    /// An argument that an earlier call made, on either side.
    fn of_made(&mut self, at: usize, number: usize, entry: &EntryEvidence) -> Option<Conclusion> {
        if self.is_unused_blank(at, entry) {
            return None;
        }
        let makers = self.flow.makers(entry);
        let Some(extent) = &entry.numbers else { return self.of_decided(at, number, entry) };
        // Taken from different calls, it is as far apart as these two are, and not as each is from its partner: if that is made of
        // this one, it explains nothing.
        let is_other = makers[0] != makers[1];
        let known = makers.into_iter().flatten().filter(|&maker| maker < at || !is_other);
        let known = known
            .map(|maker| self.regions.brought(maker))
            .fold(self.noise.of(at, number).allowed(), ErrorProfile::max);
        let brought = self.carried(extent, known);
        let error = ErrorProfile::relative(extent);
        let gives_broken =
            |maker: usize| self.expectations.results(maker).any(|(_, extent)| extent.mismatched > 0);
        let is_broken_here = extent.mismatched > 0 && !makers.into_iter().flatten().any(gives_broken);
        if !is_broken_here && self.is_explained(error, brought) {
            return None;
        }
        let lone = makers.into_iter().flatten().find(|&maker| self.regions.is_part(maker));
        if lone.is_some_and(|part| self.regions.is_excused(part)) {
            return None;
        }
        let mut conclusion = match lone {
            Some(lone) => return Some(self.blame_region(lone, number, error, brought)),
            None if self.flow.is_wired_otherwise(entry, self.units) => {
                found(Class::DifferentProgram, Cause::Wiring, number, confidence::STRUCTURE)
            }
            None => found(Class::OriginDiffers, Cause::Between, number, confidence::BETWEEN),
        };
        conclusion.error = error;
        conclusion.expected = brought;
        Some(conclusion)
    }

    /// An argument of exact values that an earlier call made, which may have fallen otherwise for errors that go into it.
    fn of_decided(&mut self, at: usize, number: usize, entry: &EntryEvidence) -> Option<Conclusion> {
        let makers = self.flow.makers(entry).into_iter().flatten();
        let brought = makers
            .clone()
            .map(|maker| self.regions.brought(maker))
            .fold(ErrorProfile::default(), ErrorProfile::max);
        let is_ranked = |maker: usize| self.flow.operations[maker].is_ranking;
        let may_fall_otherwise = match entry.turned() {
            _ if makers.clone().any(is_ranked) => brought != ErrorProfile::default(),
            Some(turned) => !turns_too_many(turned, brought.whole),
            None => brought != ErrorProfile::default(),
        };
        let lone = makers.clone().find(|&maker| self.regions.is_part(maker));
        let is_other = entry.state == Relation::Differs && !may_fall_otherwise;
        if !is_other
            || self.noise.of(at, number).differs
            || lone.is_some_and(|lone| self.regions.is_excused(lone))
        {
            return None;
        }
        match lone {
            Some(lone) => {
                Some(self.blame_region(lone, number, ErrorProfile::default(), ErrorProfile::default()))
            }
            None if self.flow.is_wired_otherwise(entry, self.units) => {
                Some(found(Class::DifferentProgram, Cause::Wiring, number, confidence::STRUCTURE))
            }
            None => None,
        }
    }

    /// Blames the first of the calls that cannot be held against each other, which one belongs to; who took of it inherits.
    pub(in crate::native) fn blame_region(
        &mut self,
        part: usize,
        number: usize,
        error: ErrorProfile,
        expected: ErrorProfile,
    ) -> Conclusion {
        let first = self.regions.first(part);
        // The first who took of it tells.
        if self.done.cause(first).is_none() {
            let cause = match &self.units[first] {
                unit if unit.is_lone() => Cause::Lone,
                unit if argument_differs(unit) => Cause::Argument,
                _ => Cause::Shape,
            };
            let entry = self.units[first].entries.iter().position(EntryEvidence::is_other_argument);
            let blamed = found(Class::DifferentProgram, cause, 0, confidence::STRUCTURE);
            self.done.set(first, Conclusion { entry, error, expected, is_of_taker: true, ..blamed });
        }
        Conclusion { from: Some(first), entry: Some(number), ..Conclusion::of(Class::Inherited) }
    }

    /// A gradient that arrives comes from those who took the result.
    fn of_gradient(&mut self, at: usize, number: usize, entry: &EntryEvidence) -> Option<Conclusion> {
        let extent = entry.numbers.as_ref()?;
        let forward = self.flow.forward.of(at)?;
        let takers = self.flow.takers[forward].iter().map(|&(taker, _)| taker as usize);
        let takers: Vec<usize> = takers.filter(|&taker| !self.flow.is_composite(taker)).collect();
        let is_back_on_route =
            |taker: usize| self.flow.backward.of(taker).is_some_and(|back| self.routes.is_on(back));
        if takers.iter().any(|&taker| is_back_on_route(taker)) {
            return None;
        }
        let mut lone = takers.iter().filter(|&&taker| self.units[taker].is_lone());
        let lone = lone.find_map(|&taker| self.flow.backward.of(taker));
        let heard = self.noise.of(at, number).allowed();
        let mut brought = ErrorProfile {
            whole: heard.whole.max(ROUNDINGS.get() * extent.unit()),
            ..ErrorProfile::default()
        };
        let mut scale = extent.norm;
        let mut is_known = !takers.is_empty();
        for &taker in &takers {
            let backward = self.flow.backward.of(taker).filter(|&backward| !self.units[backward].is_lone());
            is_known &= backward.is_some();
            for (_, given) in backward.into_iter().flat_map(|backward| self.expectations.results(backward)) {
                brought = brought.max(ErrorProfile::relative(given));
                scale = scale.max(given.norm);
            }
        }
        if !is_known {
            brought.whole = brought.whole.max(self.so_far.whole);
        }
        let error = ErrorProfile::relative(extent);
        // What came back through calls of one side may be scaled by them.
        let shared = self.siblings[2].allowed_in_run() * self.carried(extent, self.so_far).drift;
        let is_scaled = lone.is_some() && error.drift > shared;
        // Gradients that meet are added up and may cancel: their error is as large as the largest of them makes it.
        if extent.error <= self.siblings[0].allowed_in_run() * brought.whole * scale && !is_scaled {
            return None;
        }
        if let Some(cut) = self.where_gradients_end(&takers) {
            return Some(self.blame_cut(cut, number, error, brought));
        }
        if let Some(lone) = lone {
            return Some(self.blame_region(lone, number, error, brought));
        }
        let between = found(Class::DivergedHere, Cause::Between, number, confidence::BETWEEN);
        Some(Conclusion { error, expected: brought, ..between })
    }

    /// An argument of which nothing is known comes from what was computed before, if anything there is as far apart.
    fn of_unsaid(&mut self, at: usize, number: usize, entry: &EntryEvidence) -> Option<Conclusion> {
        let heard = self.noise.of(at, number);
        let error = match (entry.state, &entry.numbers) {
            (Relation::Apart, Some(extent)) => {
                let own = ROUNDINGS.get() * extent.unit();
                let own = ErrorProfile { whole: own, peak: ELEMENT_SPREAD.get() * own, drift: own };
                let error = ErrorProfile::relative(extent);
                if extent.mismatched == 0
                    && self.is_explained(error, own.max(heard.allowed()).max(self.so_far))
                {
                    return None;
                }
                error
            }
            (Relation::Differs, _) if self.so_far == ErrorProfile::default() && !heard.differs => {
                ErrorProfile::default()
            }
            _ => return None,
        };
        if let Some(changed) = self.who_changed_gradient(at, entry) {
            return Some(self.blame_region(changed, number, error, self.so_far));
        }
        let found = found(Class::OriginDiffers, Cause::Origin, number, confidence::BETWEEN);
        Some(Conclusion { error, expected: self.so_far, ..found })
    }

    /// The relative errors that a tensor may have if those of what it was made of are known.
    pub(in crate::native) fn carried(&self, extent: &TensorError, known: ErrorProfile) -> ErrorProfile {
        let own = ROUNDINGS.get() * extent.unit();
        let whole = known.whole.max(own);
        let peak =
            known.peak.max(own * (extent.largest / extent.rms()).max(1.0)).max(ELEMENT_SPREAD.get() * whole);
        ErrorProfile { whole, peak, drift: known.drift + shared_part(extent, whole, own) }
    }

    /// Whether two tensors are as near as one rounding leaves them.
    pub(in crate::native) fn is_near(&self, entry: &EntryEvidence) -> bool {
        let is_near = |extent: &TensorError| {
            let rounded = self.carried(extent, ErrorProfile::default());
            extent.mismatched == 0 && self.is_explained(ErrorProfile::relative(extent), rounded)
        };
        match entry.state {
            Relation::Equal => true,
            Relation::Apart => entry.numbers.as_ref().is_some_and(is_near),
            _ => false,
        }
    }

    /// Whether an error is as large as errors of this run may be, given what is expected.
    pub(in crate::native) fn is_explained(&self, error: ErrorProfile, expected: ErrorProfile) -> bool {
        let pairs =
            [(error.whole, expected.whole), (error.peak, expected.peak), (error.drift, expected.drift)];
        self.siblings
            .iter()
            .zip(pairs)
            .all(|(siblings, (error, expected))| error <= siblings.allowed_in_run() * expected)
    }
}
