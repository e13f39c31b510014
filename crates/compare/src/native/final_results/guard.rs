//! The guard: what a run ends in must agree, or the two runs do not.
//!
//! Each call may explain its error by its inputs, and calls that one side computes differently are not compared at all. So
//! a run in which no call is to blame can still end in different numbers. Final results are what the outermost modules
//! return, results of calls that are unused, such as a loss, what the step leaves in buffers and in what models returned,
//! and the gradients of parameters. Of two different programs they are found in `correspondence/final_values.rs`.
//!
//! How far apart they may be follows from the run itself. Rounding accumulates like the steps of a random walk: along the longest
//! chain of calls that leads to a result, the squares of what each rounds are added up, and of what parameters and inputs
//! differ by.

use std::collections::{HashMap, HashSet};

use ulpscope_dump::operators::Family;
use ulpscope_dump::{CallKind, Role};

use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::flow::Flow;
use crate::native::evidence::tensor_error::{TensorError, ratio};
use crate::native::evidence::unit_links::UnitLinks;
use crate::native::expectation::noise_floor::Noise;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::thresholds::expect::LOOP;
use crate::native::thresholds::final_results::{ALLOWED, ALLOWED_IN_GRADIENTS, RECORDED, REDUCTION};
use crate::native::thresholds::origins::OPPOSITE_STEPS;
use crate::native::thresholds::sentinels::LEAST;

/// How far apart statistics of a final result may be.
pub(in crate::native) struct StatisticBounds {
    /// The mean or the norm, relative to its size.
    pub(in crate::native) sums: f64,
    /// The extremes, relative to the larger of them.
    pub(in crate::native) extremes: f64,
}

impl StatisticBounds {
    /// If rounding moves each element by `rounding`, and what the runs were given differs by `given`, relatively.
    ///
    /// Roundings of different elements go different ways: a sum over `n` of them keeps a share of `1/√n`. Rows of a result
    /// share the roundings of what they are multiplied with, so `n` is the number of columns, about `√count`. What the runs
    /// were given is shared by all. In the healthy statistics of the suite of ports, none has more than a tenth of this.
    pub(in crate::native) fn of(rounding: f64, given: f64, count: f64) -> StatisticBounds {
        let share = 1.0 / count.max(1.0).sqrt().sqrt();
        StatisticBounds {
            sums: (ALLOWED.get() * (rounding * share).hypot(given)).max(RECORDED.get()),
            extremes: (ALLOWED.get() * rounding.hypot(given)).max(RECORDED.get()),
        }
    }

    /// The relative norm of an error that sums may not show. An error `e` that has nothing to do with the values makes their norm
    /// `√(1 + e²)` times as large, and one that moves elements about may keep even that.
    pub(in crate::native) fn hidden(&self) -> f64 {
        (2.0 * self.sums).sqrt()
    }
}

/// How far apart statistics of a final result are.
struct InStatistics {
    error: f64,
    allowed: f64,
    /// See [`StatisticBounds::hidden`].
    hidden: f64,
}

/// A final result that is too far apart.
#[derive(Clone, Debug)]
pub(in crate::native) struct Unexplained {
    pub(in crate::native) unit: usize,
    /// The number of the entry among those of the unit.
    pub(in crate::native) entry: usize,
    pub(in crate::native) error: f64,
    pub(in crate::native) allowed: f64,
    pub(in crate::native) step: Option<Step>,
}

/// A call on the way to it whose output is too far apart, although its inputs are not.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct Step {
    pub(in crate::native) unit: usize,
    pub(in crate::native) error: f64,
    pub(in crate::native) inputs: f64,
}

/// What the guard found.
#[derive(Clone, Debug, Default)]
pub(in crate::native) struct Guarded {
    /// The final result that is furthest beyond what accumulated rounding allows, if any is.
    pub(in crate::native) unexplained: Option<Unexplained>,
    /// Final results, by unit and entry, that are beyond it and follow from inputs that differ from the start.
    pub(in crate::native) unbounded: Vec<(usize, usize)>,
    /// Whether there are final results and each of them was compared with its bound.
    pub(in crate::native) is_complete: bool,
    /// Whether inputs are cut differently and what follows from them could not be compared, or models return results of
    /// different calls and nothing shows whether these are the same.
    pub(in crate::native) is_open: bool,
    /// Where some differ within their bounds by statistics alone: the relative norm of errors that may not show.
    pub(in crate::native) hidden: Option<f64>,
}

/// Compares every final result with what accumulated rounding allows. `with_gradients`: also the gradients that backward
/// calls return for what no call made. Where a blamed call was refuted, nobody else answers for these.
pub(in crate::native) fn guard(
    units: &[CallEvidence],
    flow: &Flow,
    noise: &Noise,
    with_gradients: bool,
) -> Guarded {
    let bounds = Bounds::of(units, flow, noise);
    let feeding = feeding(flow);
    let mut worst: Option<(u8, f64, Unexplained)> = None;
    let (mut unbounded, mut compared, mut unmeasured) = (Vec::new(), 0u64, false);
    let mut hidden: Option<f64> = None;
    for (at, unit) in units.iter().enumerate().filter(|(_, unit)| !unit.is_lone()) {
        let finality = finality(at, unit, flow, &feeding);
        let given = if with_gradients { given_arguments(at, units, flow) } else { Vec::new() };
        let Some(rank) = finality.or((!given.is_empty()).then_some(0)) else { continue };
        let is_final = |entry: &EntryEvidence| {
            is_result(entry)
                && (finality.is_some() || entry.ordinal().is_some_and(|own| given.contains(&own)))
        };
        let tensors = unit.entries.iter().filter(|entry| is_final(entry) && entry.is_float);
        unmeasured |= tensors.clone().any(|entry| measured(entry).is_none());
        compared += tensors.count() as u64;
        let is_reduction = finality.is_some() && flow.operations[at].reduces;
        let reduced_from = reduced_from(unit)
            .filter(|(_, seen, _)| is_reduction && follows_call_of_one_side(seen, units, flow));
        for (entry, seen, extent) in results(unit).chain(reduced_from) {
            let is_final = is_final(seen) || seen.is_taken();
            let error = bounds.error(at, extent);
            // Of a short run, or one of which little was recorded, not all rounding is known.
            let allowed = match unit.kind {
                CallKind::Backward => bounds.allowed_in_gradient(at, entry),
                _ => bounds.allowed(at, entry),
            };
            let of_elements = allowed.max(extent.limit());
            let (error, allowed) = match bounds.in_statistics(at, entry, extent) {
                Some(known) if is_final => {
                    if known.error > 0.0 {
                        hidden = Some(known.hidden.max(hidden.unwrap_or(0.0)));
                    }
                    (known.error, known.allowed)
                }
                _ => (error, of_elements),
            };
            let times = ratio(error, allowed);
            if !is_final || !seen.is_float || extent.mismatched != 0 || times.is_nan() || times <= 1.0 {
                continue;
            }
            if bounds.is_exempt[at] {
                unbounded.push((at, entry));
                continue;
            }
            let is_worse = worst.as_ref().is_none_or(|(known, most, _)| (rank, times) > (*known, *most));
            if is_worse {
                worst = Some((rank, times, Unexplained { unit: at, entry, error, allowed, step: None }));
            }
        }
    }
    let is_complete = compared > 0 && !unmeasured && unbounded.is_empty();
    let unexplained = worst.map(|(_, _, mut found)| {
        found.step = bounds.largest_step(found.unit);
        found
    });
    Guarded { unexplained, unbounded, is_complete, is_open: false, hidden }
}

/// Whether a unit's results are final; larger for those that are named first.
fn finality(at: usize, unit: &CallEvidence, flow: &Flow, feeding: &HashSet<usize>) -> Option<u8> {
    match unit.kind {
        CallKind::ParametersGrad => Some(0),
        CallKind::StepEnd => Some(2),
        CallKind::Forward if flow.parent.of(at).is_some() => None,
        CallKind::Forward if flow.is_composite(at) => (!feeding.contains(&at)).then_some(2),
        CallKind::Forward => flow.takers[at].iter().all(|&(taker, _)| taker as usize == at).then_some(1),
        _ => None,
    }
}

/// The arguments of a backward call's forward call that no call made, by their numbers, which are those of their gradients.
fn given_arguments(at: usize, units: &[CallEvidence], flow: &Flow) -> Vec<u32> {
    let forward =
        flow.forward.of(at).filter(|_| units[at].kind == CallKind::Backward && !flow.is_composite(at));
    let entries = forward.into_iter().flat_map(|forward| &units[forward].entries);
    let given = entries.filter(|entry| entry.is_taken() && entry.sources().iter().all(Source::is_given));
    given.filter_map(|entry| entry.ordinal()).collect()
}

/// Outermost modules and calls whose results another module uses: where the whole model is not recorded, its parts are.
fn feeding(flow: &Flow) -> HashSet<usize> {
    let outermost = outermost(&flow.parent);
    // From the modules back to whoever they take something from, through calls outside all modules.
    let is_module = |at: &usize| flow.is_composite(*at) && flow.parent.of(*at).is_none();
    let mut producers: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, takers) in flow.takers.iter().enumerate() {
        for &(taker, _) in takers.iter().filter(|(taker, _)| outermost[*taker as usize] != outermost[at]) {
            producers.entry(outermost[taker as usize]).or_default().push(outermost[at]);
        }
    }
    let mut feeding = HashSet::new();
    let mut waiting: Vec<usize> = (0..flow.parent.len()).filter(is_module).collect();
    while let Some(at) = waiting.pop() {
        for &producer in producers.get(&at).into_iter().flatten() {
            if feeding.insert(producer) {
                waiting.push(producer);
            }
        }
    }
    feeding
}

/// The outermost module around each unit. In a circle, which only a damaged dump has, one of its units stands for all that
/// lead into it. Every unit is climbed over once.
fn outermost(parent: &UnitLinks) -> Vec<usize> {
    let mut tops: Vec<Option<usize>> = vec![None; parent.len()];
    let mut is_on_path = vec![false; parent.len()];
    for start in 0..parent.len() {
        let (mut path, mut at) = (Vec::new(), start);
        let top = loop {
            if let Some(top) = tops[at] {
                break top;
            }
            if is_on_path[at] {
                break at;
            }
            is_on_path[at] = true;
            path.push(at);
            match parent.of(at) {
                Some(next) => at = next,
                None => break at,
            }
        };
        path.into_iter().for_each(|at| tops[at] = Some(top));
    }
    tops.into_iter().enumerate().map(|(at, top)| top.unwrap_or(at)).collect()
}

fn is_result(entry: &EntryEvidence) -> bool {
    !entry.is_taken() && entry.role != Role::Saved
}

/// What a final result was reduced from. A loss may agree although predictions do not: it does not see what all classes
/// share, nor what its labels leave out.
fn reduced_from(unit: &CallEvidence) -> impl Iterator<Item = (usize, &EntryEvidence, &TensorError)> {
    let entries = unit.entries.iter().enumerate().filter(|_| unit.kind == CallKind::Forward);
    let made = entries.filter(|(_, entry)| entry.is_taken() && !entry.sources().iter().any(Source::is_given));
    made.filter_map(|(number, entry)| Some((number, entry, measured(entry)?)))
}

/// Whether an argument follows from a call of one side, behind the last values that agree. What calls of both sides make is
/// judged where they make it: by their conditions, and by what their dtypes round.
fn follows_call_of_one_side(argument: &EntryEvidence, units: &[CallEvidence], flow: &Flow) -> bool {
    let mut known = HashSet::new();
    let mut waiting: Vec<usize> = flow.makers(argument).into_iter().flatten().collect();
    while let Some(at) = waiting.pop() {
        if units[at].is_lone() {
            return true;
        }
        if known.insert(at) {
            let differing =
                units[at].entries.iter().filter(|entry| entry.is_taken() && entry.state == Relation::Apart);
            waiting.extend(differing.flat_map(|entry| flow.makers(entry)).flatten());
        }
    }
    false
}

fn results(unit: &CallEvidence) -> impl Iterator<Item = (usize, &EntryEvidence, &TensorError)> {
    let entries = unit.entries.iter().enumerate();
    let entries = entries.filter(|(_, entry)| is_result(entry));
    entries.filter_map(|(number, entry)| Some((number, entry, measured(entry)?)))
}

/// Size and error, where the two can be laid over each other: statistics of different shapes say nothing.
fn measured(entry: &EntryEvidence) -> Option<&TensorError> {
    entry.numbers.as_ref().filter(|_| matches!(entry.state, Relation::Equal | Relation::Apart))
}

/// The middle one of the roundoffs of products of matrices, or float32's if that is coarser.
fn usual_unit(units: &[CallEvidence], flow: &Flow) -> f64 {
    let is_product = |at: &usize| {
        units[*at].kind == CallKind::Forward && flow.operations[*at].family == Family::Contraction
    };
    let products = (0..units.len()).filter(is_product).flat_map(|at| results(&units[at]));
    let mut all: Vec<f64> = products.map(|(_, _, extent)| extent.unit()).collect();
    all.sort_by(f64::total_cmp);
    // A run without any is as coarse as its calls are.
    all.get(all.len() / 2).map_or(f64::INFINITY, |unit| unit.max(ACCUMULATOR))
}

/// Accumulated squares of relative errors.
#[derive(Clone, Copy, Debug, Default)]
struct Squares {
    all: f64,
    /// Of roundings alone.
    rounding: f64,
    /// Of what parameters and inputs differ by, alone.
    given: f64,
}

impl Squares {
    fn max(self, other: Squares) -> Squares {
        Squares {
            all: self.all.max(other.all),
            rounding: self.rounding.max(other.rounding),
            given: self.given.max(other.given),
        }
    }
}

/// How far results may be apart.
struct Bounds<'a> {
    units: &'a [CallEvidence],
    flow: &'a Flow,
    noise: &'a Noise,
    /// The roundoff of most products of matrices. A few calls in a coarser dtype are what one looks for, and allow nothing.
    unit: f64,
    /// What accumulates up to each unit's results.
    squares: Vec<Squares>,
    /// The largest of their sums.
    most: f64,
    /// Units that follow from inputs of the run that differ from the start, which say nothing of rounding: pieces of a batch
    /// that is cut in two ways. It ends where results agree again.
    is_exempt: Vec<bool>,
}

impl<'a> Bounds<'a> {
    fn of(units: &'a [CallEvidence], flow: &'a Flow, noise: &'a Noise) -> Bounds<'a> {
        let (squares, is_exempt) = (vec![Squares::default(); units.len()], vec![false; units.len()]);
        let unit = usual_unit(units, flow);
        let mut bounds = Bounds { units, flow, noise, unit, squares, most: 0.0, is_exempt };
        for &at in &flow.order {
            bounds.squares[at] = bounds.square(at);
            bounds.most = bounds.most.max(bounds.squares[at].all);
            bounds.is_exempt[at] = bounds.follows_other_inputs(at);
        }
        bounds
    }

    fn follows_other_inputs(&self, at: usize) -> bool {
        let unit = &self.units[at];
        // A module returns what was made last inside it.
        if self.flow.is_composite(at) {
            let children = self.flow.children[at].iter();
            let last = children.filter(|&&child| self.units[child].kind == unit.kind).max();
            return last.is_some_and(|&last| self.is_exempt[last]);
        }
        let mut before = self.flow.upstream(at, unit).into_iter().filter(|&before| before != at);
        let differs = |entry: &EntryEvidence| entry.is_other_from(Source::is_outside);
        (unit.entries.iter().any(differs) || before.any(|before| self.is_exempt[before])) && !self.agrees(at)
    }

    /// Whether both sides have the results of a unit, and all are within their bounds.
    fn agrees(&self, at: usize) -> bool {
        let unit = &self.units[at];
        let is_within = |(number, entry): (usize, &EntryEvidence)| {
            measured(entry).is_some_and(|extent| {
                extent.mismatched == 0
                    && self.error(at, extent) <= self.allowed(at, number).max(extent.limit())
            })
        };
        let mut tensors = unit
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| is_result(entry) && entry.is_tensor)
            .peekable();
        !unit.is_lone() && tensors.peek().is_some() && tensors.all(is_within)
    }

    /// The accumulated squares up to a unit's results.
    fn square(&self, at: usize) -> Squares {
        let unit = &self.units[at];
        let largest = |units: &mut dyn Iterator<Item = usize>| {
            units.map(|at| self.squares[at]).fold(Squares::default(), Squares::max)
        };
        // A module rounds nothing itself.
        if self.flow.is_composite(at) {
            return largest(&mut self.flow.children[at].iter().copied());
        }
        let before = self.flow.upstream(at, unit).into_iter().filter(|&before| before != at);
        let mut squares = largest(&mut before.into_iter());
        // What lies in the `.grad` of a parameter was made by the whole backward pass.
        if unit.entries.iter().any(EntryEvidence::is_of_gradient) {
            squares.all = squares.all.max(self.most);
        }
        let numbers = || unit.entries.iter().filter_map(|entry| entry.numbers.as_ref());
        let given = || {
            let taken = unit
                .entries
                .iter()
                .filter(|entry| entry.is_taken() && entry.sources().iter().all(|source| source.is_given()));
            taken.filter_map(|entry| Some((entry, entry.numbers.as_ref()?)))
        };
        let share = Self::share(unit);
        let errors = given().map(|(_, extent)| extent.relative() * share(extent));
        let error = errors.filter(|error| error.is_finite()).fold(0.0, f64::max);
        // Statistics hardly show that one side has a coarser dtype. In a run of a finer one that is what one looks for.
        let shared = given().map(|(entry, extent)| {
            let error = if entry.is_recast { extent.unit().min(self.unit) } else { extent.relative() };
            error * share(extent)
        });
        let shared = shared.filter(|error| error.is_finite()).fold(0.0, f64::max);
        // Nothing was measured on a call of one side, so its own rounding is not among this.
        let coarsest = numbers().map(|extent| extent.unit()).fold(0.0, f64::max).min(self.unit);
        let longest = numbers().map(|extent| extent.count.sqrt()).fold(1.0, f64::max);
        let loops = if self.flow.operations[at].is_loop { LOOP.get() } else { 1.0 };
        let own = loops * (coarsest + ACCUMULATOR.min(coarsest) * longest.sqrt());
        let growth = self.growth(at).powi(2);
        Squares {
            all: (squares.all + own * own + error * error) * growth,
            rounding: (squares.rounding + own * own) * growth,
            given: (squares.given + shared * shared) * growth,
        }
    }

    /// How many times as large a norm makes errors of an input whose mean is much larger than its spread.
    fn growth(&self, at: usize) -> f64 {
        let unit = &self.units[at];
        let counts = || results(unit).map(|(_, _, extent)| extent.count);
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        let taken = taken.filter_map(|entry| entry.numbers.as_ref());
        let normalised = taken.filter(|extent| counts().any(|count| count == extent.count));
        match self.flow.operations[at].family {
            Family::Norm => normalised.map(|extent| extent.spread.growth()).fold(1.0, f64::max),
            _ => 1.0,
        }
    }

    /// The share of a bias in what it is added to, 1 for every other argument. A bias that training has just moved from zero is
    /// nothing but rounding, and too small to matter.
    fn share(unit: &CallEvidence) -> impl Fn(&TensorError) -> f64 + use<> {
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        let mut counts = taken.filter_map(|entry| Some(entry.numbers.as_ref()?.count));
        // Input, weight and bias: only the last is added, and none has fewer elements. Calls may have lists of thousands.
        let first = [counts.next(), counts.next(), counts.next(), counts.next()];
        let fewest = match first {
            [Some(one), Some(two), Some(three), None] => one.min(two).min(three),
            _ => -1.0,
        };
        let result = results(unit).map(|(_, _, extent)| extent.rms()).fold(0.0, f64::max);
        move |argument| match argument.count <= fewest && result > 0.0 {
            true => (argument.rms() / result).min(1.0),
            false => 1.0,
        }
    }

    /// The error of a result, relative to its size, or to that of what it is reduced from.
    fn error(&self, at: usize, result: &TensorError) -> f64 {
        let unit = &self.units[at];
        let is_reduction =
            self.flow.operations[at].family != Family::Contraction && !self.flow.is_composite(at);
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        let taken = taken.filter_map(|entry| entry.numbers.as_ref());
        let reduced = taken.filter(|from| is_reduction && from.count >= REDUCTION.get() * result.count);
        let reduced = reduced.map(TensorError::rms).fold(0.0, f64::max);
        let beside = match unit.kind {
            CallKind::ParametersGrad => results(unit).map(|(_, _, extent)| extent.rms()).fold(0.0, f64::max),
            _ => 0.0,
        };
        ratio(result.error, result.norm.max(reduced.max(beside) * result.count.sqrt()))
    }

    fn allowed(&self, at: usize, entry: usize) -> f64 {
        match self.units[at].kind {
            CallKind::ParametersGrad => self.allowed_in_gradient(at, entry),
            // Steps of gradients next to nothing go either way: see `left_apart` in `final_parameters.rs`.
            _ if self.flow.operations[at].is_steep => self.open_signs(at, entry),
            _ => ALLOWED.get() * self.squares[at].all.sqrt() + self.noise.of(at, entry).allowed().whole,
        }
    }

    /// Of a result of the forward pass of which statistics alone are known: how far apart sums or extremes are, whichever
    /// stands out more, and may be. Nothing for others.
    fn in_statistics(&self, at: usize, entry: usize, extent: &TensorError) -> Option<InStatistics> {
        let unit = &self.units[at];
        let is_update =
            self.flow.operations[at].is_in_place || unit.entries.iter().any(EntryEvidence::is_of_gradient);
        let is_result = matches!(unit.kind, CallKind::Forward | CallKind::StepEnd) && !is_update;
        let is_known = !extent.by_elements && extent.largest < LEAST.get() && unit.entries[entry].is_blurred;
        if !is_result || !is_known {
            return None;
        }
        let Squares { rounding, given, .. } = self.squares[at];
        let noise = self.noise.of(at, entry).allowed().whole;
        let bounds = StatisticBounds::of(rounding.sqrt(), given.sqrt(), extent.count);
        let sums = (self.error(at, extent), bounds.sums + noise);
        let extremes = (ratio(extent.peak, extent.largest), bounds.extremes + noise);
        let is_of_extremes = ratio(extremes.0, extremes.1) > ratio(sums.0, sums.1);
        let (error, allowed) = if is_of_extremes { extremes } else { sums };
        Some(InStatistics { error, allowed, hidden: bounds.hidden() })
    }

    /// How far an update may be apart whose size does not depend on that of the gradient: about as large a share of the signs is
    /// open as gradients are off, and that many elements go the other way. A standard deviation more, where it is one at all.
    fn open_signs(&self, at: usize, entry: usize) -> f64 {
        let count =
            self.units[at].entries[entry].numbers.as_ref().map_or(1.0, |extent| extent.count.max(1.0));
        let open = self.squares[at].all.sqrt();
        let more = if open * count > 0.5 { (open * count).sqrt() / count } else { 0.0 };
        OPPOSITE_STEPS.get() * (open + more).sqrt() + self.noise.of(at, entry).allowed().whole
    }

    /// Gradients of parameters are sums over the whole backward pass.
    fn allowed_in_gradient(&self, at: usize, entry: usize) -> f64 {
        ALLOWED_IN_GRADIENTS.get() * self.most.sqrt() + self.noise.of(at, entry).allowed().whole
    }

    /// The largest unexplained step towards a unit: of the calls on the way to it whose inputs are within their bounds, the
    /// one with the largest error.
    fn largest_step(&self, last: usize) -> Option<Step> {
        let mut steps: Vec<Step> = self.towards(last).into_iter().flat_map(|at| self.steps_at(at)).collect();
        steps.sort_by(|one, other| other.error.total_cmp(&one.error).then(one.unit.cmp(&other.unit)));
        steps.into_iter().next()
    }

    /// The units that lead to a unit, in order.
    fn towards(&self, last: usize) -> Vec<usize> {
        let (mut known, mut waiting) = (HashSet::new(), vec![last]);
        while let Some(at) = waiting.pop() {
            if known.insert(at) {
                waiting.extend(self.flow.upstream(at, &self.units[at]));
                waiting.extend(&self.flow.children[at]);
            }
        }
        let mut known: Vec<usize> = known.into_iter().filter(|&at| !self.flow.is_composite(at)).collect();
        known.sort_unstable();
        known
    }

    fn steps_at(&self, at: usize) -> Vec<Step> {
        let unit = &self.units[at];
        if unit.is_lone() {
            return Vec::new();
        }
        let mut steps = Vec::new();
        let taken = unit.entries.iter().filter(|entry| entry.is_taken());
        let taken: Vec<(&EntryEvidence, f64)> =
            taken.filter_map(|entry| Some((entry, measured(entry)?.relative()))).collect();
        // What a call of one side made is first seen where both sides use it.
        for (entry, error) in &taken {
            let makers = self.flow.makers(entry);
            let Some(lone) = makers.into_iter().flatten().find(|&maker| self.units[maker].is_lone()) else {
                continue;
            };
            let inputs = makers.into_iter().flatten().map(|maker| self.brought(maker)).fold(0.0, f64::max);
            steps.push(Step { unit: lone, error: *error, inputs });
        }
        let inputs = taken.iter().map(|(_, error)| *error).fold(0.0, f64::max);
        let errors = results(unit).map(|(_, _, extent)| self.error(at, extent));
        let error = errors.fold(0.0, f64::max);
        steps.push(Step { unit: at, error, inputs });
        let limit = |step: &Step| ALLOWED.get() * self.squares[step.unit].all.sqrt();
        steps.retain(|step| step.error.is_finite() && step.error > limit(step) && step.inputs <= limit(step));
        steps
    }

    /// The largest error that goes into calls of one side, from the last that both sides make.
    fn brought(&self, lone: usize) -> f64 {
        let (mut known, mut waiting, mut most) = (HashSet::new(), vec![lone], 0.0f64);
        while let Some(at) = waiting.pop() {
            if !known.insert(at) {
                continue;
            }
            if self.units[at].is_lone() {
                waiting.extend(self.flow.upstream(at, &self.units[at]));
            } else {
                let errors = results(&self.units[at]).map(|(_, _, extent)| extent.relative());
                most = errors.filter(|error| error.is_finite()).fold(most, f64::max);
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn links(of: &[Option<usize>]) -> UnitLinks {
        let mut links = UnitLinks::none(of.len());
        of.iter().enumerate().for_each(|(at, &unit)| links.set(at, unit));
        links
    }

    #[test]
    fn what_sums_may_not_show_is_far_more_than_they_may_differ_by() {
        let bounds = StatisticBounds::of(1e-6, 0.0, 4096.0);
        // Half of the elements of a vector of ones, moved up and down alike: the mean stays, the norm hardly changes.
        let moved = |by: f64| ((1.0 + by).powi(2) / 2.0 + (1.0 - by).powi(2) / 2.0).sqrt() - 1.0;
        assert!(moved(0.99 * bounds.hidden()) <= bounds.sums);
        assert!(moved(1.01 * bounds.hidden()) > bounds.sums);
        assert!(bounds.hidden() > 100.0 * bounds.sums, "{} {}", bounds.hidden(), bounds.sums);
    }

    #[test]
    fn the_outermost_module_is_found_through_all_others() {
        assert_eq!(outermost(&links(&[None, Some(0), Some(1), None, Some(3)])), [0, 0, 0, 3, 3]);
    }

    #[test]
    fn a_long_way_into_a_circle_is_climbed_once() {
        let count = 200_000;
        let start = Instant::now();
        let parent: Vec<Option<usize>> = (0..count).map(|at| Some((at + 1).min(count - 2))).collect();
        let tops = outermost(&links(&parent));
        assert!(tops.iter().all(|&top| top == tops[0]), "one circle, one top");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}
