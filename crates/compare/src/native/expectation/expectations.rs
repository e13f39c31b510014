//! The error that a call is expected to have: what it makes itself by rounding, and what its arguments bring.
//!
//! Three errors are followed, since none sees everything: that of a tensor as a whole, which a single wrong element hardly
//! moves; the largest of an element, which says nothing of many small ones; and the part that all elements share, which
//! rounding hardly has: a factor of 1.01 stands out where everything else is off by as much at random.

use std::collections::{HashMap, HashSet};

use ulpscope_dump::CallKind;
use ulpscope_dump::operators::{Family, SumsOver};

use crate::native::attribution::amplified::amplified;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Source};
use crate::native::evidence::flow::Flow;
use crate::native::evidence::tensor_error::{TensorError, ratio};
use crate::native::expectation::error_inputs::{ErrorInput, ErrorInputs};
use crate::native::expectation::noise_floor::Noise;
use crate::native::expectation::rounding::own_error;
use crate::native::expectation::sensitivity::{Sensitivity, terms};
use crate::native::thresholds::expect::{ELEMENT_SPREAD, FEW_ELEMENTS, GATES, LOOP, UNSEEN};

/// The part of a random error that all elements share, of one that is expected to be `whole` and at least `own`. Rows or
/// columns share theirs, so it is that of as many independent elements as the root of the count; and a second-order part of any
/// error lies in the direction of the tensor itself. Where elements were compared, what they do not share was seen: if that is
/// small, so is the share of it.
pub(in crate::native) fn shared_part(of: &TensorError, whole: f64, own: f64) -> f64 {
    if of.count < FEW_ELEMENTS.get() {
        return whole;
    }
    let (error, drift) = (of.relative(), of.drift);
    let unshared = (error * error - drift * drift).max(0.0).sqrt();
    let seen = if of.by_elements { unshared.max(own).min(whole) } else { whole };
    seen / of.count.sqrt().sqrt() + whole * whole
}

/// An error, or an expected one: of the whole tensor, of its worst element, and what all elements share. Relative to the
/// norm, to the root of the mean square, and to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::native) struct ErrorProfile {
    pub(in crate::native) whole: f64,
    pub(in crate::native) peak: f64,
    pub(in crate::native) drift: f64,
}

impl ErrorProfile {
    pub(in crate::native) fn relative(of: &TensorError) -> ErrorProfile {
        ErrorProfile { whole: of.relative(), peak: of.relative_peak(), drift: of.drift }
    }

    pub(in crate::native) fn max(self, other: ErrorProfile) -> ErrorProfile {
        ErrorProfile {
            whole: self.whole.max(other.whole),
            peak: self.peak.max(other.peak),
            drift: self.drift.max(other.drift),
        }
    }

    /// How many times `expected` this is.
    fn over(self, expected: ErrorProfile) -> ErrorProfile {
        ErrorProfile {
            whole: ratio(self.whole, expected.whole),
            peak: ratio(self.peak, expected.peak),
            drift: ratio(self.drift, expected.drift),
        }
    }
}

/// How a result compares to what was expected.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct Excess {
    /// The number of the entry among those of its call.
    pub(in crate::native) entry: usize,
    /// How many times what was expected.
    pub(in crate::native) times: ErrorProfile,
    /// What was expected, relative.
    pub(in crate::native) expected: ErrorProfile,
}

/// What all results of a unit share.
struct Around {
    /// The largest errors of what is inside, and of what statistics have shown before.
    within: ErrorProfile,
    /// The size of an element in the largest of the gradients that stand together.
    beside: f64,
}

/// What the units of a comparison bring along.
pub(in crate::native) struct Expectations<'a> {
    units: &'a [CallEvidence],
    flow: &'a Flow,
    noise: &'a Noise,
    /// The largest relative errors among the results of the calls inside a module.
    inner: Vec<ErrorProfile>,
    /// The largest relative error that statistics have shown on the way to a unit's results.
    shown: Vec<ErrorProfile>,
    /// What statistics have shown of all gradients, for units that take what lies in the `.grad` of a parameter: no call is
    /// known to have made that.
    of_gradients: HashMap<usize, ErrorProfile>,
    /// By the number of elements: the largest error of gradients that backward calls return for parameters. Those of a module
    /// that is never called are sums of such, as where others share its weights.
    portions: HashMap<u64, ErrorProfile>,
    /// Origins whose rounding a function makes much larger: unit and entry.
    amplified: HashSet<(usize, usize)>,
}

impl<'a> Expectations<'a> {
    pub(in crate::native) fn of(
        units: &'a [CallEvidence],
        flow: &'a Flow,
        noise: &'a Noise,
    ) -> Expectations<'a> {
        let none = vec![ErrorProfile::default(); units.len()];
        let amplified = amplified(units, flow).into_iter().map(|found| (found.unit, found.entry)).collect();
        let mut all = Expectations {
            units,
            flow,
            noise,
            inner: none.clone(),
            shown: none,
            of_gradients: HashMap::new(),
            portions: portions(units, flow),
            amplified,
        };
        for &at in &flow.order {
            let results = all.results(at).map(|(_, extent)| ErrorProfile::relative(extent));
            let largest = results.fold(all.inner[at], ErrorProfile::max);
            if let Some(parent) = flow.parent.of(at) {
                all.inner[parent] = all.inner[parent].max(largest);
            }
        }
        let mut of_gradients = ErrorProfile::default();
        for (at, unit) in units.iter().enumerate() {
            if of_gradients != ErrorProfile::default()
                && unit.entries.iter().any(EntryEvidence::is_of_gradient)
            {
                all.of_gradients.insert(at, of_gradients);
            }
            let own = unit.entries.iter().filter_map(|entry| entry.numbers.as_ref());
            let own = own.filter(|extent| !extent.by_elements).map(ErrorProfile::relative);
            all.shown[at] = own.fold(all.shown_before(at), ErrorProfile::max);
            if matches!(unit.kind, CallKind::Backward | CallKind::ParametersGrad) {
                of_gradients = of_gradients.max(all.shown[at]);
            }
        }
        all
    }

    /// Whether a function makes the rounding of an origin much larger.
    pub(in crate::native) fn is_amplified(&self, at: usize, entry: usize) -> bool {
        self.amplified.contains(&(at, entry))
    }

    /// The largest errors among what is inside a module.
    pub(in crate::native) fn inside(&self, at: usize) -> ErrorProfile {
        self.inner[at]
    }

    /// A unit's results that have numbers.
    pub(in crate::native) fn results(
        &self,
        at: usize,
    ) -> impl Iterator<Item = (usize, &'a TensorError)> + use<'a> {
        numbers(&self.units[at], |entry| !entry.is_taken())
    }

    /// What a unit works on: its arguments, and of a backward call what its forward call took and gave.
    pub(in crate::native) fn taken(&self, at: usize) -> Vec<&'a TensorError> {
        let own = numbers(&self.units[at], EntryEvidence::is_taken);
        let forward = self.flow.forward.of(at).into_iter();
        let forward = forward.flat_map(|forward| numbers(&self.units[forward], |_| true));
        own.chain(forward).map(|(_, extent)| extent).collect()
    }

    /// How far each result that is apart is beyond what was expected.
    pub(in crate::native) fn excesses(&self, at: usize) -> Vec<Excess> {
        let apart = self.results(at).filter(|(_, extent)| extent.error > 0.0 || extent.peak > 0.0);
        // Where one side gives a gradient to another of the calls that share it, each gives another amount.
        let entries = &self.units[at].entries;
        let forward = self.flow.forward.of(at).map(|forward| &self.units[forward]);
        let parts = ErrorInputs::of(&self.units[at], forward, self.flow.operations[at]);
        let around = Around { within: self.within(at).max(self.shown_before(at)), beside: self.beside(at) };
        apart
            .filter(|(entry, _)| !self.flow.shared.contains(&(self.flow.kinds[at], entries[*entry].place())))
            .map(|(entry, result)| {
                let made_of = parts.of_result(&entries[entry]);
                let is_of_added = parts.is_of_added(&entries[entry]);
                let family = if is_of_added { Family::Sum } else { self.flow.operations[at].family };
                let expected = self.expected(at, (entry, result), (family, &made_of), &around);
                Excess { entry, times: ErrorProfile::relative(result).over(expected), expected }
            })
            .collect()
    }

    /// The relative errors that a result may have.
    fn expected(
        &self,
        at: usize,
        (entry, result): (usize, &TensorError),
        (family, parts): (Family, &[ErrorInput<'_>]),
        around: &Around,
    ) -> ErrorProfile {
        let is_gate = self.flow.forward.of(at).is_some() && self.flow.operations[at].is_gate;
        let spread = result.count.max(1.0).sqrt();
        let (mut natural, mut length, mut unit) = (0.0f64, 1.0f64, result.unit());
        let (mut inherited, mut inherited_peak, mut drift) = (0.0f64, 0.0f64, 0.0f64);
        for (number, (from, partner)) in parts.iter().enumerate() {
            unit = unit.max(from.unit());
            // What a backward call takes from its forward call is no gradient, and says nothing of the size of one.
            let is_given = self.flow.forward.of(at).is_none() || number == 0 || family == Family::Sum;
            let slope = match is_given || partner.is_some() {
                true => family.slope(from, result, *partner),
                false => family.slope_in_backward(from, result),
            };
            if family.rounds_at_arguments() && (is_given || partner.is_some()) {
                natural += slope * from.norm;
            }
            // Most sums are over one dimension, or over all but one.
            length = length.max(from.count / result.count.max(1.0)).max(from.count.sqrt());
            if let (SumsOver::Inner, Some(partner)) = (family.sums_over(), partner) {
                length = length.max(terms(from, partner, result));
            }
            let gain = slope.max(if from.norm > 0.0 { result.norm / from.norm } else { 0.0 });
            inherited += (gain * from.error).powi(2);
            let relative = result.rms() * from.relative_peak();
            inherited_peak = inherited_peak.max(relative).max(family.peak_slope(result, slope) * from.peak);
            drift += from.drift * from.drift;
            // Where an argument of the forward call is near its threshold, the whole gradient passes or does not: of an
            // argument that is off by a share, as large a share of the elements may be.
            if is_gate && number > 0 && from.error > 0.0 {
                inherited_peak = inherited_peak.max(parts[0].0.largest);
                inherited += GATES.get() * from.relative() * result.norm * result.norm;
            }
        }
        let natural = natural.max(result.norm).max(around.beside * spread);
        // Where nothing is known of how it was made, its dtype tells, and how large it is among what it stands with.
        let is_unknown = !self.flow.is_composite(at) && (parts.is_empty() || self.is_unseen_sum(at));
        let unknown = if is_unknown { result.limit() * ratio(natural, result.norm) } else { 0.0 };
        let unknown = ErrorProfile { whole: unknown, peak: ELEMENT_SPREAD.get() * unknown, drift: unknown };
        let within = around.within.max(unknown);
        let unseen = if result.by_elements { 1.0 } else { UNSEEN.get() };
        let inherited = unseen * (inherited.sqrt() + within.whole * result.norm);
        let inherited_peak = inherited_peak.max(within.peak * result.rms());
        let loops = if self.flow.operations[at].is_loop { LOOP.get() } else { 1.0 };
        let own = loops * own_error(unit, length);
        let heard = self.noise.of(at, entry).allowed();
        let whole = own * natural + inherited + heard.whole * result.norm;
        let peak = own * result.largest.max(ELEMENT_SPREAD.get() * natural / spread)
            + inherited_peak
            + ELEMENT_SPREAD.get() * inherited / spread
            + heard.peak * result.rms();
        let whole = ratio(whole, result.norm);
        let drift = drift.sqrt() + within.drift + shared_part(result, whole, own) + heard.drift;
        ErrorProfile { whole, peak: ratio(peak, result.rms()), drift }
    }

    /// What statistics have shown on the way to a unit. Errors do not go away, but statistics may fail to show them, so
    /// those of a dump without elements are remembered.
    pub(in crate::native) fn shown_before(&self, at: usize) -> ErrorProfile {
        let mut shown = self.of_gradients.get(&at).copied().unwrap_or_default();
        for entry in self.units[at].entries.iter().filter(|entry| entry.is_taken()) {
            let makers = self.flow.makers(entry);
            shown =
                makers.into_iter().flatten().map(|maker| self.shown[maker]).fold(shown, ErrorProfile::max);
        }
        if let Some(forward) = self.flow.forward.of(at) {
            shown = shown.max(self.shown[forward]);
            let takers = self.flow.takers[forward].iter();
            for backward in takers.filter_map(|&(taker, _)| self.flow.backward.of(taker as usize)) {
                shown = shown.max(self.shown[backward]);
            }
        }
        shown
    }

    /// The size of an element in the largest of the gradients of a module's parameters. What cancels out, as the gradient
    /// of a bias in front of a normalisation does, is as far off as what it was computed from.
    pub(in crate::native) fn beside(&self, at: usize) -> f64 {
        if self.units[at].kind != CallKind::ParametersGrad {
            return 0.0;
        }
        self.results(at).map(|(_, extent)| extent.rms()).fold(0.0, f64::max)
    }

    /// Whether a unit is the gradients of parameters of a module in whose backward pass no call was recorded.
    fn is_unseen_sum(&self, at: usize) -> bool {
        let backward = self.flow.forward.of(at).and_then(|forward| self.flow.backward.of(forward));
        self.units[at].kind == CallKind::ParametersGrad
            && !backward.is_some_and(|backward| self.flow.is_composite(backward))
    }

    /// What is inside a module; of gradients of parameters, what is inside its backward call.
    fn within(&self, at: usize) -> ErrorProfile {
        let inner = self.inner[at];
        if self.units[at].kind != CallKind::ParametersGrad {
            return inner;
        }
        let Some(forward) = self.flow.forward.of(at) else {
            let counts = self.results(at).map(|(_, extent)| extent.count as u64);
            let portions = counts.filter_map(|count| self.portions.get(&count).copied());
            return portions.fold(inner, ErrorProfile::max);
        };
        self.flow.backward.of(forward).map_or(inner, |backward| {
            let entries = numbers(&self.units[backward], |_| true);
            entries
                .map(|(_, extent)| ErrorProfile::relative(extent))
                .fold(inner.max(self.inner[backward]), ErrorProfile::max)
        })
    }
}

/// The largest errors of gradients that backward calls return for parameters, by the number of elements; nothing, where
/// each module that has parameters is called.
fn portions(units: &[CallEvidence], flow: &Flow) -> HashMap<u64, ErrorProfile> {
    let mut portions: HashMap<u64, ErrorProfile> = HashMap::new();
    let is_uncalled = |at: usize| units[at].kind == CallKind::ParametersGrad && flow.forward.of(at).is_none();
    if !(0..units.len()).any(is_uncalled) {
        return portions;
    }
    for (at, unit) in units.iter().enumerate().filter(|(_, unit)| unit.kind == CallKind::Backward) {
        let Some(forward) = flow.forward.of(at).filter(|_| !flow.is_composite(at)) else { continue };
        let given = || units[forward].entries.iter().filter(|entry| entry.sources() == [Source::Origin; 2]);
        let returned = unit.entries.iter().filter(|entry| !entry.is_taken());
        for entry in returned.filter(|entry| given().any(|given| entry.is_gradient_of(given))) {
            if let Some(extent) = &entry.numbers {
                let known = portions.entry(extent.count as u64).or_default();
                *known = known.max(ErrorProfile::relative(extent));
            }
        }
    }
    portions
}

fn numbers<'a>(
    unit: &'a CallEvidence,
    wanted: impl Fn(&EntryEvidence) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a TensorError)> {
    let entries = unit.entries.iter().enumerate().filter(move |(_, entry)| wanted(entry));
    entries.filter_map(|(number, entry)| Some((number, entry.numbers.as_ref()?)))
}
