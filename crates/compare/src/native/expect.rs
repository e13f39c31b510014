//! The error that a call is expected to have: what it makes itself by rounding, and what its arguments bring.
//!
//! Two errors are followed, since neither sees everything: that of a tensor as a whole, which a single wrong element
//! hardly moves, and the largest of an element, which says nothing of many small ones.

use ulpscope_dump::CallKind;

use super::flow::Flow;
use super::noise::Noise;
use super::observed::{Extent, Observed, Seen, Source, ratio};
use super::rounding::own_error;
use super::sensitivity::{Family, terms};

/// Elements of an ordinary error lie within this many standard deviations, in a tensor of any size that fits a machine.
const ELEMENT_SPREAD: f64 = 6.0;

/// An error, or an expected one: of the whole tensor, and of its worst element. Absolute, or relative to the norm and
/// to the root of the mean square.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Apart {
    pub(super) whole: f64,
    pub(super) peak: f64,
}

impl Apart {
    pub(super) fn relative(of: &Extent) -> Apart {
        Apart { whole: of.relative(), peak: of.relative_peak() }
    }

    pub(super) fn max(self, other: Apart) -> Apart {
        Apart { whole: self.whole.max(other.whole), peak: self.peak.max(other.peak) }
    }
}

/// How a result compares to what was expected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excess {
    /// The number of the entry among those of its call.
    pub(super) entry: usize,
    /// How many times what was expected.
    pub(super) times: Apart,
    /// What was expected, relative.
    pub(super) expected: Apart,
}

/// What the units of a comparison bring along.
pub(super) struct Expectations<'a> {
    units: &'a [Observed],
    flow: &'a Flow,
    noise: &'a Noise,
    /// The largest relative errors among the results of the calls inside a module.
    inner: Vec<Apart>,
    /// The largest relative error that statistics have shown on the way to a unit's results.
    shown: Vec<Apart>,
}

impl<'a> Expectations<'a> {
    pub(super) fn of(units: &'a [Observed], flow: &'a Flow, noise: &'a Noise) -> Expectations<'a> {
        let none = vec![Apart::default(); units.len()];
        let mut all = Expectations { units, flow, noise, inner: none.clone(), shown: none };
        for &at in &flow.order {
            let results = all.results(at).map(|(_, extent)| Apart::relative(extent));
            let largest = results.fold(all.inner[at], Apart::max);
            if let Some(parent) = flow.parent[at] {
                all.inner[parent] = all.inner[parent].max(largest);
            }
        }
        for at in 0..units.len() {
            let own = units[at].entries.iter().filter_map(|entry| entry.numbers.as_ref());
            let own = own.filter(|extent| !extent.by_elements).map(Apart::relative);
            all.shown[at] = own.fold(all.shown_before(at), Apart::max);
        }
        all
    }

    /// The largest errors among what is inside a module.
    pub(super) fn inside(&self, at: usize) -> Apart {
        self.inner[at]
    }

    /// A unit's results that have numbers.
    pub(super) fn results(&self, at: usize) -> impl Iterator<Item = (usize, &'a Extent)> + use<'a> {
        numbers(&self.units[at], |entry| !entry.is_taken())
    }

    /// What a unit works on: its arguments, and of a backward call what its forward call took and gave.
    pub(super) fn taken(&self, at: usize) -> Vec<&'a Extent> {
        let own = numbers(&self.units[at], Seen::is_taken);
        let forward = self.flow.forward[at].into_iter();
        let forward = forward.flat_map(|forward| numbers(&self.units[forward], |_| true));
        own.chain(forward).map(|(_, extent)| extent).collect()
    }

    /// How far each result that is apart is beyond what was expected.
    pub(super) fn excesses(&self, at: usize) -> Vec<Excess> {
        let taken = self.taken(at);
        let apart = self.results(at).filter(|(_, extent)| extent.error > 0.0 || extent.peak > 0.0);
        // Where one side gives a gradient to another of the calls that share it, each gives another amount.
        let entries = &self.units[at].entries;
        apart
            .filter(|(entry, _)| !self.flow.shared.contains(&(self.flow.kinds[at], entries[*entry].place)))
            .map(|(entry, result)| {
                let expected = self.expected(at, entry, result, &taken);
                Excess {
                    entry,
                    times: Apart {
                        whole: ratio(result.error, expected.whole),
                        peak: ratio(result.peak, expected.peak),
                    },
                    expected: Apart {
                        whole: ratio(expected.whole, result.norm),
                        peak: ratio(expected.peak, result.rms()),
                    },
                }
            })
            .collect()
    }

    /// The absolute errors that a result may have.
    fn expected(&self, at: usize, entry: usize, result: &Extent, taken: &[&Extent]) -> Apart {
        let family = self.flow.families[at];
        let spread = result.count.max(1.0).sqrt();
        let mut natural = result.norm;
        let mut length = 1.0f64;
        let mut inherited = 0.0f64;
        let mut inherited_peak = 0.0f64;
        let mut unit = result.unit;
        let mut sum = 0.0;
        for (number, from) in taken.iter().enumerate() {
            unit = unit.max(from.unit);
            let others: Vec<&Extent> = taken
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != number)
                .map(|(_, other)| *other)
                .collect();
            let slope = family.slope(from, result, &others);
            sum += slope * from.norm;
            length = length.max(from.count / result.count.max(1.0));
            if family == Family::Contraction {
                length = others.iter().map(|other| terms(from, other, result)).fold(length, f64::max);
            }
            let gain = slope.max(if from.norm > 0.0 { result.norm / from.norm } else { 0.0 });
            inherited += (gain * from.error).powi(2);
            let relative = result.rms() * from.relative_peak();
            inherited_peak = inherited_peak.max(relative).max(slope * from.peak);
        }
        natural = natural.max(sum).max(self.beside(at) * spread);
        let within = self.within(at).max(self.shown_before(at));
        let inherited = inherited.sqrt() + within.whole * result.norm;
        let inherited_peak = inherited_peak.max(within.peak * result.rms());
        let own = own_error(unit, length);
        let heard = self.noise.of(at, entry).allowed();
        let whole = own * natural + inherited + heard.whole * result.norm;
        let peak = own * result.largest.max(ELEMENT_SPREAD * natural / spread)
            + inherited_peak
            + ELEMENT_SPREAD * inherited / spread
            + heard.peak * result.rms();
        Apart { whole, peak }
    }

    /// What statistics have shown on the way to a unit. Errors do not go away, but statistics may fail to show them, so
    /// those of a dump without elements are remembered.
    fn shown_before(&self, at: usize) -> Apart {
        let mut shown = Apart::default();
        for entry in self.units[at].entries.iter().filter(|entry| entry.is_taken()) {
            for (side, source) in entry.sources.iter().enumerate() {
                if let Source::Call(call, _) = source
                    && let Some(made_by) = self.flow.unit_of[side].get(*call).copied().flatten()
                {
                    shown = shown.max(self.shown[made_by]);
                }
            }
        }
        if let Some(forward) = self.flow.forward[at] {
            shown = shown.max(self.shown[forward]);
            let takers = self.flow.takers[forward].iter();
            for backward in takers.filter_map(|&(taker, _)| self.flow.backward[taker as usize]) {
                shown = shown.max(self.shown[backward]);
            }
        }
        shown
    }

    /// The size of an element in the largest of the gradients of a module's parameters. What cancels out, as the gradient
    /// of a bias in front of a normalisation does, is as far off as what it was computed from.
    fn beside(&self, at: usize) -> f64 {
        if self.units[at].kind != CallKind::ParametersGrad {
            return 0.0;
        }
        self.results(at).map(|(_, extent)| extent.rms()).fold(0.0, f64::max)
    }

    /// What is inside a module; of gradients of parameters, what is inside its backward call.
    fn within(&self, at: usize) -> Apart {
        let inner = self.inner[at];
        if self.units[at].kind != CallKind::ParametersGrad {
            return inner;
        }
        let backward = self.flow.forward[at].and_then(|forward| self.flow.backward[forward]);
        backward.map_or(inner, |backward| {
            let entries = numbers(&self.units[backward], |_| true);
            entries
                .map(|(_, extent)| Apart::relative(extent))
                .fold(inner.max(self.inner[backward]), Apart::max)
        })
    }
}

fn numbers<'a>(
    unit: &'a Observed,
    wanted: impl Fn(&Seen) -> bool + 'a,
) -> impl Iterator<Item = (usize, &'a Extent)> {
    let entries = unit.entries.iter().enumerate().filter(move |(_, entry)| wanted(entry));
    entries.filter_map(|(number, entry)| Some((number, entry.numbers.as_ref()?)))
}
