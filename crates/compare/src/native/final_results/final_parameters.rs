//! What a step leaves in the parameters and their gradients, where the two runs write into them by different calls.
//!
//! ```text
//! target   weight ──► mul_ ──► sub_ ───────────────────────────► weight
//!                                                                  │ compared
//! golden   weight ──► _foreach_mul_ ──► _foreach_addcdiv_ ──────► weight
//! ```
//! An optimizer works on one parameter after the other, on all at once, or is written by hand, as the device and the
//! program have it, and so does what clips gradients. Their calls have no partners then, but what they leave has: the parameter of
//! the same name.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use ulpscope_dump::{CallKind, Content, Entry, Rank};

use crate::finding::LeftDetails;
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::attribution::updates::{Updates, is_plain, is_unit_of_optimizer, writers};
use crate::native::correspondence::named_region::named;
use crate::native::correspondence::parameter_pairs::{ParameterPair, parameter_pairs};
use crate::native::correspondence::{Cut, Weight, update_cut};
use crate::native::evidence::call_evidence::{CallEvidence, Source};
use crate::native::evidence::flow::{Calls, Flow};
use crate::native::evidence::measure::{State, measure};
use crate::native::evidence::tensor_error::{TensorError, extent, ratio};
use crate::native::evidence::written::{
    GRADIENT, PARAMETER, Written, add_assigned, has_nameless_parameters, recorded_gradients, written,
};
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::thresholds::Threshold;
use crate::native::thresholds::confidence;
use crate::native::thresholds::origins::{
    LENGTHENED, OPEN_SIGNS, OPPOSITE_STEPS, ORDINARY, RARE, ZERO_GRADIENTS,
};
use crate::native::thresholds::rounding::ROUNDINGS;
use crate::native::thresholds::siblings::LEAST_ALLOWED;
use crate::verdict::Class;

/// The reason for which capture leaves out assignments.
const ASSIGNED: &str = "assigned to a property";

/// Parameters whose steps are measured: the middle of so many is near that of all.
const SAMPLES: usize = 32;

/// What was compared of the parameters that unpaired calls write into.
#[derive(Debug, Default)]
pub(in crate::native) struct FinalParameters {
    /// Whether all parameters that a unit writes into are left the same, as far as noise lets them.
    agree: HashMap<usize, bool>,
    /// Units that do nothing but work towards such parameters.
    towards: HashSet<usize>,
    /// The first parameter that is not, in order of writing.
    pub(in crate::native) first_apart: Option<LeftApart>,
    /// How many parameters and gradients are left different, and how many were compared.
    pub(in crate::native) apart: [u64; 2],
    /// Those of which it is not known what the other run has for them, or that could not be compared.
    pub(in crate::native) open: u64,
    /// The calls of optimizer steps.
    pub(in crate::native) updates: Updates,
}

/// A parameter that the two runs leave as another.
#[derive(Clone, Debug)]
pub(in crate::native) struct LeftApart {
    /// Which, as dumps name it: `parameter:0.weight`.
    pub(in crate::native) name: String,
    /// Who wrote into it last and has no partner.
    pub(in crate::native) by: usize,
    pub(in crate::native) error: ErrorProfile,
    pub(in crate::native) expected: ErrorProfile,
    /// The calls of both sides that may have made the difference, where both write.
    pub(in crate::native) cut: Option<Cut>,
}

/// A parameter that is compared by what is left in it.
struct Left<'a> {
    name: String,
    /// The units that write into it, the target's first.
    by: Vec<usize>,
    /// What both sides write, where each keeps it as one.
    written: Option<[&'a Written; 2]>,
    /// How far it is left apart, where that can be told.
    apart: Option<LeftBy>,
    /// Whether its gradients on the two sides were compared, so that it is known how far they lead apart.
    is_by_own_gradient: bool,
}

/// How far a parameter is left apart, relative to its size.
#[derive(Clone, Copy)]
struct LeftBy {
    error: ErrorProfile,
    expected: ErrorProfile,
    /// The lengths of the steps that both sides made; nothing, where one made none.
    steps: [f64; 2],
    /// Whether elements were compared.
    by_elements: bool,
}

impl LeftBy {
    fn is_expected(&self) -> bool {
        self.error.whole <= LEAST_ALLOWED.get() * self.expected.whole
    }

    /// Whether so many signs of the step must differ that its gradient has a part which is zero except for rounding.
    fn is_as_far_as_steps(&self) -> bool {
        // Statistics show a part alone.
        let share = if self.by_elements { OPEN_SIGNS.get() } else { OPEN_SIGNS.get().powi(2) };
        self.error.whole * share >= self.steps[0].max(self.steps[1])
    }

    /// Whether two steps of the same length lead as far apart, by their directions. A difference of their lengths is none that
    /// rounding makes.
    fn is_within_steps(&self) -> bool {
        let [one, other] = self.steps;
        // Statistics show a part of the lengths alone.
        let is_as_long = match self.by_elements {
            true => (one - other).abs() <= LENGTHENED.get() * self.error.whole,
            false => one.max(other) <= ORDINARY.get() * one.min(other),
        };
        is_as_long && self.error.whole <= OPPOSITE_STEPS.get() * one.max(other)
    }
}

impl FinalParameters {
    /// Whether a unit writes into parameters, all of which are left the same.
    pub(in crate::native) fn agrees(&self, at: usize) -> bool {
        self.agree.get(&at).copied().unwrap_or(false)
    }

    /// Whether a unit works towards parameters that are left the same, whatever it is paired with.
    pub(in crate::native) fn is_towards(&self, at: usize) -> bool {
        self.towards.contains(&at)
    }

    pub(in crate::native) fn of(
        units: &[CallEvidence],
        flow: &Flow,
        calls: [&Calls<'_>; 2],
        trained: Option<Trained>,
    ) -> FinalParameters {
        FinalParameters::compare(units, flow, calls, trained, false)
    }

    /// Of all parameters, whoever writes into them: calls of two different programs may be paired, and judged by nobody.
    pub(in crate::native) fn of_all(
        units: &[CallEvidence],
        flow: &Flow,
        calls: [&Calls<'_>; 2],
        trained: Option<Trained>,
    ) -> FinalParameters {
        FinalParameters::compare(units, flow, calls, trained, true)
    }

    /// `all`: also parameters that paired calls write into.
    fn compare(
        units: &[CallEvidence],
        flow: &Flow,
        calls: [&Calls<'_>; 2],
        trained: Option<Trained>,
        all: bool,
    ) -> FinalParameters {
        let writes = |at: usize| flow.operations[at].is_in_place;
        // Gradients of other parameters, at the same place of the same call.
        let is_crossed = |unit: &CallEvidence| {
            unit.entries.iter().any(|entry| match entry.sources() {
                [Source::Gradient(one), Source::Gradient(other)] => one != other,
                _ => false,
            })
        };
        let is_compared = |at: usize| (all || units[at].is_lone()) && writes(at) || is_crossed(&units[at]);
        if !(0..units.len()).any(is_compared) {
            return FinalParameters::default();
        }
        let mut sides = calls.map(written);
        add_assigned(&mut sides, calls);
        // Without a model, parameters have no names: which is which is not known.
        let is_nameless = |side: usize| sides[side].is_empty() && has_nameless_parameters(calls[side].rank);
        if is_nameless(0) || is_nameless(1) {
            let open = sides.iter().map(|side| side.len() as u64).max().unwrap_or(0);
            return FinalParameters { open, ..FinalParameters::default() };
        }
        let pairs = parameter_pairs(&sides, calls, trained.map_or(0.0, |trained| trained.apart));
        let updates = Updates::of(units, flow, calls, &pairs);
        let noise = gradient_noise(units);
        let gradients = calls.map(|calls| recorded_gradients(calls.rank));
        let left: Vec<Left<'_>> = pairs
            .into_par_iter()
            .filter_map(|pair| {
                let by = writers(&pair, flow).concat();
                // What pairs of calls write is judged with them, if they write into the same.
                let is_lone = all || by.iter().any(|&at| units[at].is_lone() || updates.is_in_rewritten(at));
                is_lone.then(|| {
                    let own = gradient_apart(calls, &pair, gradients.each_ref());
                    let apart = left_apart(calls, &pair, own.unwrap_or(0.0).max(noise));
                    let written = match pair.sides.each_ref().map(Vec::as_slice) {
                        [&[target], &[golden]] => Some([target, golden]),
                        _ => None,
                    };
                    Left { apart, name: pair.name, by, written, is_by_own_gradient: own.is_some() }
                })
            })
            .collect();
        // A parameter whose gradient is zero except for rounding, as that of the bias of keys, goes where rounding takes it. It may be
        // a part of one whose gradient is not.
        let is_other = |left: &&Left<'_>| !left.apart.is_some_and(|apart| apart.is_expected());
        let others = left.iter().filter(is_other).count() as f64;
        let count = left.len() as f64;
        let are_few = |share: Threshold| others * share.get() <= count;
        let mut kept = FinalParameters { updates, ..FinalParameters::default() };
        let mut first_written = None;
        for Left { name, by, written, apart, is_by_own_gradient } in left {
            let goes_anywhere = |apart: &LeftBy| {
                let is_far_or_unknown = !is_by_own_gradient || apart.is_as_far_as_steps();
                apart.is_within_steps() && (are_few(ZERO_GRADIENTS) && is_far_or_unknown || are_few(RARE))
            };
            let agrees = apart.is_some_and(|apart| apart.is_expected() || goes_anywhere(&apart));
            kept.open += u64::from(apart.is_none());
            kept.apart[0] += u64::from(apart.is_some() && !agrees);
            kept.apart[1] += u64::from(apart.is_some());
            for &at in &by {
                kept.agree.entry(at).and_modify(|all| *all &= agrees).or_insert(agrees);
            }
            // The last who wrote, in the target if anybody did there.
            let is_lone = |&&at: &&usize| all || units[at].is_lone() || kept.updates.is_in_rewritten(at);
            let lone =
                by.iter().filter(is_lone).max_by_key(|&&at| (units[at].target().is_some(), at)).copied();
            if let (false, Some(by), Some(LeftBy { error, expected, .. })) = (agrees, lone, apart)
                && kept.first_apart.as_ref().is_none_or(|first| by < first.by)
            {
                kept.first_apart = Some(LeftApart { name, by, error, expected, cut: None });
                first_written = written;
            }
        }
        if let (Some(first), Some(written), true) =
            (&mut kept.first_apart, first_written, kept.updates.is_rewritten)
        {
            first.cut = update_cut(calls, written, noise, (first.error.whole, first.expected.whole));
        }
        kept.find_towards(units, flow, calls);
        kept
    }

    /// Whether every parameter that the two runs write in different ways was compared, and agrees.
    pub(in crate::native) fn all_agree(&self) -> bool {
        self.apart[0] == 0 && self.open == 0 && self.apart[1] > 0
    }

    /// Who is blamed for what is left in parameters, and the conclusion on it.
    pub(in crate::native) fn blamed(&self) -> Option<(usize, Conclusion)> {
        let LeftApart { by, error, expected, cut, .. } = self.first_apart.as_ref()?;
        let (by, error, expected) = (*by, *error, *expected);
        let cause = if self.updates.is_rewritten { Cause::Updates } else { Cause::Left };
        // Any call of the cut may have done it.
        let sure = confidence::STRUCTURE / cut.as_ref().map_or(1.0, |cut| (cut.named.max(1) as f64).sqrt());
        let blamed = found(Class::DifferentProgram, cause, 0, sure);
        Some((by, Conclusion { entry: None, error, expected, is_of_taker: true, ..blamed }))
    }

    /// What is said of a parameter that is left different.
    pub(in crate::native) fn left_by(&self, left: &LeftApart, calls: [&Calls<'_>; 2]) -> LeftDetails {
        let [differ, of] = self.apart;
        let region = left.cut.as_ref().map(|cut| Box::new(named(calls, cut)));
        LeftDetails { name: left.name.clone(), differ, of, calls: self.updates.calls, region }
    }

    /// Where the dump says what belongs to the step of an optimizer, all of it does, be it to count steps.
    fn find_towards(&mut self, units: &[CallEvidence], flow: &Flow, calls: [&Calls<'_>; 2]) {
        let mut waiting: Vec<usize> = self.agree.keys().copied().filter(|&at| self.agrees(at)).collect();
        if !waiting.is_empty() && self.agree.values().all(|&agrees| agrees) {
            waiting.extend((0..units.len()).filter(|&at| is_unit_of_optimizer(&units[at], calls)));
            if self.updates.is_rewritten {
                waiting.extend(self.updates.members());
            }
        }
        while let Some(at) = waiting.pop() {
            if is_plain(at, units, flow) && self.towards.insert(at) {
                waiting.extend(units[at].entries.iter().flat_map(|entry| flow.makers(entry)).flatten());
            }
        }
    }
}

/// How far the steps before may have taken parameters apart.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::native) struct Trained {
    /// Relative to their size, for signs of gradients that are open (see [`left_apart`]).
    pub(in crate::native) apart: f64,
    /// Per element, if all of them went other ways.
    pub(in crate::native) reach: f64,
}

impl Trained {
    /// After so many steps as long as this one; nothing, where none was recorded. Gradients are taken to be off by what the
    /// coarsest dtype rounds: how far they are apart by now may have other reasons.
    pub(in crate::native) fn of(steps: u64, units: &[CallEvidence], calls: &Calls<'_>) -> Trained {
        let written = written(calls);
        let parameters: Vec<&Written> = written
            .iter()
            .filter(|(name, _)| name.starts_with(PARAMETER))
            .map(|(_, written)| written)
            .collect();
        let sampled = parameters.iter().step_by(parameters.len().div_ceil(SAMPLES).max(1));
        let step =
            |written: &&Written| apart((calls.rank, written.after.as_ref()?), (calls.rank, &written.before));
        let made: Vec<TensorError> = sampled.filter_map(step).collect();
        let middle = |length: &dyn Fn(&TensorError) -> f64| {
            let mut lengths: Vec<f64> = made.iter().map(length).collect();
            lengths.sort_by(f64::total_cmp);
            lengths.get(lengths.len() / 2).copied().unwrap_or(0.0) * steps as f64
        };
        let all = units.iter().flat_map(|unit| &unit.entries).filter_map(|entry| entry.numbers.as_ref());
        let coarsest = all.map(|extent| extent.unit()).fold(ACCUMULATOR, f64::max);
        Trained {
            apart: OPPOSITE_STEPS.get() * coarsest.sqrt() * middle(&TensorError::relative),
            reach: OPPOSITE_STEPS.get() * middle(&|step| step.error / step.count.max(1.0).sqrt()),
        }
    }
}

/// How far gradients of parameters are apart in the middle; where they were not recorded, other gradients.
fn gradient_noise(units: &[CallEvidence]) -> f64 {
    let errors = |kind: CallKind| -> Vec<f64> {
        let units = units.iter().filter(|unit| unit.kind == kind);
        let results = units.flat_map(|unit| &unit.entries).filter(|entry| !entry.is_taken());
        let mut errors: Vec<f64> =
            results.filter_map(|entry| entry.numbers.as_ref()).map(TensorError::relative).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let sums = errors(CallKind::ParametersGrad);
    let errors = if sums.is_empty() { errors(CallKind::Backward) } else { sums };
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

/// How far the gradients of a parameter are apart, relative to their size; nothing, where a side did not record them.
fn gradient_apart(
    calls: [&Calls<'_>; 2],
    pair: &ParameterPair<'_>,
    recorded: [&HashMap<String, Entry>; 2],
) -> Option<f64> {
    if !pair.name.starts_with(PARAMETER) {
        return None;
    }
    let found = [0, 1].map(|side| {
        let paths = pair.paths[side].iter();
        paths.map(|path| recorded[side].get(path)).collect::<Option<Vec<&Entry>>>().unwrap_or_default()
    });
    let [target, golden] = found.each_ref().map(Vec::as_slice);
    if target.is_empty() || golden.is_empty() {
        return None;
    }
    let gap = gap((calls[0].rank, target), (calls[1].rank, golden))?;
    Some(gap.error.whole).filter(|error| error.is_finite())
}

/// How far a parameter or a gradient is left apart, and how far it may be, relative to its size.
///
/// A run that does not write into it leaves what was there. It was rounded a few times on either side, and may have been apart
/// before. The step of a parameter follows the gradient; an optimizer that divides by the root of squares takes as long a step
/// for gradients next to nothing. If gradients are off by `ε` of their ordinary size, about `ε` of them are so small that their
/// sign is open, and that many steps are off by twice their length: `2 √ε` of the whole.
fn left_apart(calls: [&Calls<'_>; 2], pair: &ParameterPair<'_>, noise: f64) -> Option<LeftBy> {
    let [target, golden] = calls.map(|calls| calls.rank);
    let noise = noise.max(ACCUMULATOR);
    let open = if pair.name.starts_with(GRADIENT) { noise } else { OPPOSITE_STEPS.get() * noise.sqrt() };
    let (ours, theirs) = (&pair.sides[0][..], &pair.sides[1][..]);
    let is_unwritten = |side: &[&Written]| side.iter().any(|written| written.by.is_empty());
    let (left, before, steps) = match (ours.is_empty(), theirs.is_empty()) {
        (false, false) => {
            let left = gap((target, &after(ours)?), (golden, &after(theirs)?))?;
            // Where a side shows no call that wrote, it shows no state before it.
            let before = match is_unwritten(ours) || is_unwritten(theirs) {
                true => 0.0,
                false => gap((target, &before(ours)), (golden, &before(theirs)))?.error.whole,
            };
            let length = |step: Gap| ratio(step.error.whole * step.norm, left.norm);
            let one = if is_unwritten(ours) { None } else { Some(length(stepped(target, ours)?)) };
            let other = if is_unwritten(theirs) { None } else { Some(length(stepped(golden, theirs)?)) };
            let steps = [one.or(other)?, other.or(one)?];
            (left, before, steps)
        }
        // A parameter may have been assigned, `p.data = …`, which is no call.
        (false, true) if pair.is_matched && !golden.is_cut() && !assigns(golden) => {
            (stepped(target, ours)?, 0.0, [0.0; 2])
        }
        (true, false) if pair.is_matched && !target.is_cut() && !assigns(target) => {
            (stepped(golden, theirs)?, 0.0, [0.0; 2])
        }
        // What was not recorded may have been written.
        _ => return None,
    };
    let expected = ROUNDINGS.get() * left.unit + before + open * steps[0];
    let expected = ErrorProfile { whole: expected, ..ErrorProfile::default() };
    Some(LeftBy { error: left.error, expected, steps, by_elements: left.by_elements })
}

/// Whether a run assigned to properties of tensors, such as `data` and `grad`.
fn assigns(rank: &Rank) -> bool {
    rank.ledger().is_some_and(|ledger| ledger.skipped.iter().any(|(reason, _)| reason == ASSIGNED))
}

fn before<'a>(written: &[&'a Written]) -> Vec<&'a Entry> {
    written.iter().map(|written| &written.before).collect()
}

fn after<'a>(written: &[&'a Written]) -> Option<Vec<&'a Entry>> {
    written.iter().map(|written| written.after.as_ref()).collect()
}

/// The step that a side made.
fn stepped(rank: &Rank, written: &[&Written]) -> Option<Gap> {
    gap((rank, &after(written)?), (rank, &before(written)))
}

/// How far apart two parameters are, each of which may be kept in several tensors.
struct Gap {
    /// Relative to the size.
    error: ErrorProfile,
    norm: f64,
    unit: f64,
    by_elements: bool,
}

/// By elements, where they have the same places; else by statistics, as of a parameter that one side keeps transposed.
fn gap((rank, ones): (&Rank, &[&Entry]), (other_rank, others): (&Rank, &[&Entry])) -> Option<Gap> {
    if ones.len() == others.len() {
        let pairs = ones.iter().zip(others);
        let apart: Option<Vec<TensorError>> =
            pairs.map(|(one, other)| apart((rank, one), (other_rank, other))).collect();
        if let Some([only]) = apart.as_deref() {
            return Some(Gap {
                error: ErrorProfile::relative(only),
                norm: only.norm,
                unit: only.unit(),
                by_elements: only.by_elements,
            });
        }
        if let Some(parts) = apart {
            let root = |of: &dyn Fn(&TensorError) -> f64| {
                parts.iter().map(|part| of(part).powi(2)).sum::<f64>().sqrt()
            };
            let (error, norm) = (root(&|part| part.error), root(&|part| part.norm));
            let unit = parts.iter().map(TensorError::unit).fold(0.0, f64::max);
            let by_elements = parts.iter().all(|part| part.by_elements);
            let error = ErrorProfile { whole: ratio(error, norm), ..ErrorProfile::default() };
            return Some(Gap { error, norm, unit, by_elements });
        }
    }
    let [one, other] = [joined_statistics(ones)?, joined_statistics(others)?];
    let whole = one.distance(&other)?;
    Some(Gap {
        error: ErrorProfile { whole, ..ErrorProfile::default() },
        norm: one.norm().max(other.norm()),
        unit: one.unit.max(other.unit),
        by_elements: false,
    })
}

fn joined_statistics(entries: &[&Entry]) -> Option<Weight> {
    let tensors: Option<Vec<Weight>> = entries
        .iter()
        .map(|entry| match &entry.content {
            Content::Tensor(tensor) => Weight::of(tensor),
            _ => None,
        })
        .collect();
    Weight::joined(&tensors?.iter().collect::<Vec<&Weight>>())
}

/// How far two tensors are apart, where that can be told.
fn apart((rank, one): (&Rank, &Entry), (other_rank, other): (&Rank, &Entry)) -> Option<TensorError> {
    let (Content::Tensor(target), Content::Tensor(golden)) = (&one.content, &other.content) else {
        return None;
    };
    let measured = measure((rank, one), (other_rank, other));
    match measured.state {
        State::Equal | State::Apart => extent(target, golden, &measured),
        _ => None,
    }
}
