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

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rayon::prelude::*;
use ulpscope_dump::{CallKind, Content, Entry, Rank, Role};

use super::expect::Apart;
use super::extent::{Extent, extent, ratio};
use super::flow::{Calls, Flow};
use super::measure::{State, measure};
use super::observed::Observed;
use super::rounding::ACCUMULATOR;
use super::siblings::LEAST_ALLOWED;
use crate::pairing::Wrappers;
use crate::style::Side;

/// Where calls stand that belong to the step of an optimizer.
const OPTIMIZER: &str = "optimizer";

/// Parameters whose steps are measured: the middle of so many is near that of all.
const SAMPLES: usize = 32;

/// How dumps name what calls write into.
const PARAMETER: &str = "parameter:";
const GRADIENT: &str = "gradient:";

/// What was compared of the parameters that calls without partner write into.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whether all parameters that a unit writes into are left the same, as far as noise lets them.
    agree: HashMap<usize, bool>,
    /// Units that do nothing but work towards such parameters.
    towards: HashSet<usize>,
    /// The first parameter that is not, in order of writing.
    pub(super) first_apart: Option<LeftApart>,
}

/// A parameter that the two runs leave as another.
#[derive(Clone, Debug)]
pub(super) struct LeftApart {
    /// Which, as dumps name it: `parameter:0.weight`.
    pub(super) name: String,
    /// Who wrote into it last and has no partner.
    pub(super) by: usize,
    pub(super) error: Apart,
    pub(super) expected: Apart,
}

/// What a side does with a parameter.
struct Written {
    /// What it was before the first of the calls, if there are any.
    before: Entry,
    /// What was written last; nothing, where a call does not give back what it wrote.
    after: Option<Entry>,
    /// By which calls, in order.
    by: Vec<usize>,
}

/// A parameter that calls without partner write into.
struct Left<'a> {
    name: &'a str,
    /// The units that do, the target's first.
    by: Vec<usize>,
    /// How far it is left apart, where that can be told.
    apart: Option<LeftBy>,
}

/// How far a parameter is left apart, relative to its size.
#[derive(Clone, Copy)]
struct LeftBy {
    error: Apart,
    expected: Apart,
    /// The length of the step that both sides made; nothing, where one made none.
    step: f64,
}

impl LeftBy {
    fn is_expected(&self) -> bool {
        self.error.whole <= LEAST_ALLOWED * self.expected.whole
    }

    /// Whether two steps of the same length lead as far apart, by their directions.
    fn is_within_steps(&self) -> bool {
        self.error.whole <= 2.0 * self.step
    }
}

impl Kept {
    /// Whether a unit writes into parameters, all of which are left the same.
    pub(super) fn agrees(&self, at: usize) -> bool {
        self.agree.get(&at).copied().unwrap_or(false)
    }

    /// Whether a unit works towards parameters that are left the same, whatever it is paired with.
    pub(super) fn is_towards(&self, at: usize) -> bool {
        self.towards.contains(&at)
    }

    pub(super) fn of(units: &[Observed], flow: &Flow, calls: [&Calls<'_>; 2]) -> Kept {
        let is_lone_write = |at: usize| units[at].is_lone() && flow.operations[at].is_in_place;
        if !(0..units.len()).any(is_lone_write) {
            return Kept::default();
        }
        let sides = calls.map(written);
        let sides = unwrapped(sides);
        let names: BTreeSet<&String> = sides.iter().flat_map(BTreeMap::keys).collect();
        let names: Vec<&String> = names.into_iter().collect();
        let noise = gradient_noise(units);
        let left: Vec<Left> = names
            .into_par_iter()
            .filter_map(|name| {
                let [ours, theirs] = sides.each_ref().map(|side| side.get(name));
                let written = [(Side::Target, ours), (Side::Golden, theirs)];
                let calls_of = |(side, written): (Side, Option<&'_ Written>)| {
                    let calls = written.map_or(&[][..], |written| &written.by[..]);
                    calls.iter().filter_map(|&call| flow.unit_of[side as usize].of(call)).collect::<Vec<_>>()
                };
                let by: Vec<usize> = written.into_iter().flat_map(calls_of).collect();
                // What pairs of calls write is judged with them.
                let is_lone = by.iter().any(|&at| units[at].is_lone());
                is_lone.then(|| Left { name, by, apart: left_apart(calls, name, [ours, theirs], noise) })
            })
            .collect();
        // A parameter whose gradient is zero but for rounding, as that of the bias of keys, goes where rounding takes it. An
        // optimizer that does something else does so with most of them.
        let is_expected = |left: &&Left<'_>| left.apart.is_some_and(|apart| apart.is_expected());
        let are_few = left.iter().filter(is_expected).count() * 2 >= left.len();
        let mut kept = Kept::default();
        for Left { name, by, apart } in left {
            let agrees = apart.is_some_and(|apart| apart.is_expected() || are_few && apart.is_within_steps());
            for &at in &by {
                kept.agree.entry(at).and_modify(|all| *all &= agrees).or_insert(agrees);
            }
            // The last who wrote, in the target if anybody did there.
            let is_lone = |&&at: &&usize| units[at].is_lone();
            let lone = by.iter().filter(is_lone).max_by_key(|&&at| (units[at].target.is_some(), at)).copied();
            if let (false, Some(by), Some(LeftBy { error, expected, .. })) = (agrees, lone, apart)
                && kept.first_apart.as_ref().is_none_or(|first| by < first.by)
            {
                kept.first_apart = Some(LeftApart { name: name.to_owned(), by, error, expected });
            }
        }
        kept.find_towards(units, flow, calls);
        kept
    }

    /// Optimizers work outside of modules, and nobody asks for gradients of what they do. Where the dump says what belongs to the
    /// step of one, all of it does, be it to count steps.
    fn find_towards(&mut self, units: &[Observed], flow: &Flow, [target, golden]: [&Calls<'_>; 2]) {
        let is_plain = |at: usize| {
            units[at].kind == CallKind::Forward
                && flow.parent.of(at).is_none()
                && flow.backward.of(at).is_none()
        };
        let is_of_optimizer = |at: &usize| {
            let parents = [
                units[*at].target.and_then(|call| target.rank.parent(call)),
                units[*at].golden.and_then(|call| golden.rank.parent(call)),
            ];
            parents.iter().flatten().any(|parent| parent == OPTIMIZER)
        };
        let mut waiting: Vec<usize> = self.agree.keys().copied().filter(|&at| self.agrees(at)).collect();
        if !waiting.is_empty() && self.agree.values().all(|&agrees| agrees) {
            waiting.extend((0..units.len()).filter(is_of_optimizer));
        }
        while let Some(at) = waiting.pop() {
            if is_plain(at) && self.towards.insert(at) {
                waiting.extend(units[at].entries.iter().flat_map(|entry| flow.makers(entry)).flatten());
            }
        }
    }
}

/// How far the steps before may have taken parameters apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trained {
    /// Relative to their size, for signs of gradients that are open (see [`left_apart`]).
    pub(super) apart: f64,
    /// Per element, if all of them went other ways.
    pub(super) reach: f64,
}

impl Trained {
    /// After so many steps as long as this one; nothing, where none was recorded. Gradients are taken to be off by what the
    /// coarsest dtype rounds: how far they are apart by now may have other reasons.
    pub(super) fn of(steps: u64, units: &[Observed], calls: &Calls<'_>) -> Trained {
        let written = written(calls);
        let parameters: Vec<&Written> = written
            .iter()
            .filter(|(name, _)| name.starts_with(PARAMETER))
            .map(|(_, written)| written)
            .collect();
        let sampled = parameters.iter().step_by(parameters.len().div_ceil(SAMPLES).max(1));
        let step =
            |written: &&Written| apart((calls.rank, written.after.as_ref()?), (calls.rank, &written.before));
        let made: Vec<Extent> = sampled.filter_map(step).collect();
        let middle = |length: &dyn Fn(&Extent) -> f64| {
            let mut lengths: Vec<f64> = made.iter().map(length).collect();
            lengths.sort_by(f64::total_cmp);
            lengths.get(lengths.len() / 2).copied().unwrap_or(0.0) * steps as f64
        };
        let all = units.iter().flat_map(|unit| &unit.entries).filter_map(|entry| entry.numbers.as_ref());
        let coarsest = all.map(|extent| extent.unit()).fold(ACCUMULATOR, f64::max);
        Trained {
            apart: 2.0 * coarsest.sqrt() * middle(&Extent::relative),
            reach: 2.0 * middle(&|step| step.error / step.count.max(1.0).sqrt()),
        }
    }
}

/// What a side writes into its parameters, by their names.
fn written(calls: &Calls<'_>) -> BTreeMap<String, Written> {
    let rank = calls.rank;
    let mut written: BTreeMap<String, Written> = BTreeMap::new();
    // The parameter that a result is, by the name of the entry.
    let mut parameters: HashMap<String, String> = HashMap::new();
    for call in 0..rank.calls().len() {
        if rank.calls()[call].kind == CallKind::ParametersGrad {
            add_exchanged(rank, call, &mut written);
        }
        if rank.calls()[call].kind != CallKind::Forward || !calls.operation(call).is_in_place {
            continue;
        }
        // What could not be read was told when the call was judged.
        let entries = rank.entries(call).unwrap_or_default();
        let tensors = |role: Role| {
            entries
                .iter()
                .filter(move |entry| entry.role == role && matches!(entry.content, Content::Tensor(_)))
        };
        let gives_back = tensors(Role::Output).next().is_some();
        // What is written into comes first among the arguments, one tensor for each result.
        let mut results = tensors(Role::Output);
        for before in tensors(Role::Input) {
            let Content::Tensor(tensor) = &before.content else { continue };
            let after = results.next();
            let source = tensor.source.as_deref().unwrap_or_default();
            let made = || parameters.get(source).cloned();
            let is_named = [PARAMETER, GRADIENT].iter().any(|kind| source.starts_with(kind));
            let Some(name) = is_named.then(|| source.to_owned()).or_else(made) else { continue };
            // Of a call that gives something back, the other arguments are not written into.
            if after.is_none() && gives_back {
                break;
            }
            if let Some(after) = after {
                parameters.insert(after.name.clone(), name.clone());
            }
            let new = || Written { before: before.clone(), after: None, by: Vec::new() };
            let known = written.entry(name).or_insert_with(new);
            known.after = after.cloned();
            known.by.push(call);
        }
    }
    written
}

/// Gradients as an optimizer gets them: ranks may have exchanged them in a way that shows no call, as
/// `DistributedDataParallel` does.
fn add_exchanged(rank: &Rank, call: usize, written: &mut BTreeMap<String, Written>) {
    for entry in rank.entries(call).unwrap_or_default() {
        let Content::Tensor(tensor) = &entry.content else { continue };
        let Some(name) = tensor.source.clone().filter(|source| source.starts_with(GRADIENT)) else {
            continue;
        };
        let new = || Written { before: entry.clone(), after: None, by: Vec::new() };
        written.entry(name).or_insert_with(new).after = Some(entry.clone());
    }
}

/// Names of both sides without the words that a wrapper of one side's model adds.
fn unwrapped(sides: [BTreeMap<String, Written>; 2]) -> [BTreeMap<String, Written>; 2] {
    let paths = sides.each_ref().map(|side| side.keys().filter_map(|name| Some(name.split_once(':')?.1)));
    let [target, golden] = paths;
    let wrappers = Wrappers::of(target, golden);
    let [target, golden] = sides;
    [(Side::Target, target), (Side::Golden, golden)].map(|(side, written)| {
        let renamed = written.into_iter().map(|(name, written)| match name.split_once(':') {
            Some((kind, path)) => (format!("{kind}:{}", wrappers.unwrap(side, path)), written),
            None => (name, written),
        });
        renamed.collect()
    })
}

/// How far gradients of parameters are apart in the middle; where they were not recorded, other gradients.
fn gradient_noise(units: &[Observed]) -> f64 {
    let errors = |kind: CallKind| -> Vec<f64> {
        let units = units.iter().filter(|unit| unit.kind == kind);
        let results = units.flat_map(|unit| &unit.entries).filter(|entry| !entry.is_taken());
        let mut errors: Vec<f64> =
            results.filter_map(|entry| entry.numbers.as_ref()).map(Extent::relative).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let sums = errors(CallKind::ParametersGrad);
    let errors = if sums.is_empty() { errors(CallKind::Backward) } else { sums };
    errors.get(errors.len() / 2).copied().unwrap_or(0.0)
}

/// How far a parameter or a gradient is left apart, and how far it may be, relative to its size.
///
/// A run that does not write into it leaves what was there. It was rounded a few times on either side, and may have been apart
/// before. The step of a parameter follows the gradient; an optimizer that divides by the root of squares takes as long a step
/// for gradients next to nothing. If gradients are off by `ε` of their ordinary size, about `ε` of them are so small that their
/// sign is open, and that many steps are off by twice their length: `2 √ε` of the whole.
fn left_apart(
    calls: [&Calls<'_>; 2],
    name: &str,
    written: [Option<&Written>; 2],
    noise: f64,
) -> Option<LeftBy> {
    let [target, golden] = calls.map(|calls| calls.rank);
    let stepped =
        |rank: &Rank, written: &Written| apart((rank, written.after.as_ref()?), (rank, &written.before));
    let noise = noise.max(ACCUMULATOR);
    let open = if name.starts_with(GRADIENT) { noise } else { 2.0 * noise.sqrt() };
    let (left, before, step) = match written {
        [Some(ours), Some(theirs)] => {
            let left = apart((target, ours.after.as_ref()?), (golden, theirs.after.as_ref()?))?;
            // Where a side shows no call that wrote, it shows no state before it.
            let before = match ours.by.is_empty() || theirs.by.is_empty() {
                true => 0.0,
                false => apart((target, &ours.before), (golden, &theirs.before))?.relative(),
            };
            let step = match ours.by.is_empty() {
                true => stepped(golden, theirs)?.error,
                false => stepped(target, ours)?.error,
            };
            let step = ratio(step, left.norm);
            (left, before, step)
        }
        [Some(ours), None] if !golden.is_cut() => (stepped(target, ours)?, 0.0, 0.0),
        [None, Some(theirs)] if !target.is_cut() => (stepped(golden, theirs)?, 0.0, 0.0),
        // What was not recorded may have been written.
        _ => return None,
    };
    let expected = 4.0 * left.unit() + before + open * step;
    Some(LeftBy {
        error: Apart::relative(&left),
        expected: Apart { whole: expected, ..Apart::default() },
        step,
    })
}

/// How far two tensors are apart, where that can be told.
fn apart((rank, one): (&Rank, &Entry), (other_rank, other): (&Rank, &Entry)) -> Option<Extent> {
    let (Content::Tensor(target), Content::Tensor(golden)) = (&one.content, &other.content) else {
        return None;
    };
    let measured = measure((rank, one), (other_rank, other));
    match measured.state {
        State::Equal | State::Apart => extent(target, golden, &measured),
        _ => None,
    }
}
