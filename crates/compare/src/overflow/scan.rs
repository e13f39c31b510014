//! What one rank says of NaN and infinities: the calls that may be origins, and those by which ranks meet.
//!
//! It is all that is kept of a rank, so that ranks can be scanned on different machines.

use std::collections::{HashMap, HashSet, VecDeque};

use serde::{Deserialize, Serialize};
use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Content, Entry, Problems, Rank, RankPlace, Role};

use super::OriginKind;
use super::call_state::{CallState, NonFiniteKinds, kinds_of, state_of};
use super::traffic::{Part, parts_of};

/// The parent of the calls that an optimizer makes.
const OPTIMIZER: &str = "optimizer";

/// The note on a rank whose capture ended early.
const CUT: &str = "capture ended before the step did, so calls are missing";

/// What a rank says of NaN and infinities.
#[derive(Debug, Serialize, Deserialize)]
pub struct RankScan {
    pub(super) name: String,
    pub(super) number: Option<u64>,
    /// How many calls were searched.
    pub(super) calls: usize,
    /// How many of them have numbers.
    pub(super) measured: usize,
    /// Whether a call returned NaN.
    pub(super) has_nan: bool,
    /// The calls that matter, in order of execution.
    pub(super) states: Vec<ScannedCall>,
    pub(super) note: Option<String>,
    pub(super) problems: Problems,
}

/// A call that may be an origin, or takes part in a collective or message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ScannedCall {
    /// Its place among the calls that were searched.
    pub(super) position: u64,
    /// What its arguments have; of a backward call also what the inputs and results of its forward call have.
    pub(super) given: NonFiniteKinds,
    /// What its results have.
    pub(super) made: NonFiniteKinds,
    /// What it may be the origin of.
    candidates: Vec<Candidate>,
    /// The same if the step before left NaN in the rank; `None` if that makes no difference.
    candidates_after_nan: Option<Vec<Candidate>>,
    /// What it has to do with other ranks.
    pub(super) parts: Vec<Part>,
    /// The nearest of these calls that its arguments which are not finite come from.
    pub(super) makers: Vec<usize>,
    /// What is shown of it, if it may be an origin.
    pub(super) shown: Option<Box<ShownCall>>,
}

/// How a call may be an origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Candidate {
    pub(super) kind: OriginKind,
    pub(super) what: NonFiniteKinds,
    /// Whether it is none if another rank sent it.
    pub(super) unless_sent: bool,
}

/// What is shown of a call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ShownCall {
    pub(super) name: String,
    pub(super) entries: Vec<ShownEntry>,
    pub(super) path: Vec<String>,
    pub(super) stack: Vec<String>,
}

/// A tensor of a call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ShownEntry {
    pub(super) name: String,
    pub(super) is_result: bool,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) what: NonFiniteKinds,
}

impl ScannedCall {
    /// What it may be the origin of, given whether the step before left NaN in the rank.
    pub(super) fn candidates(&self, had_nan: bool) -> &[Candidate] {
        match &self.candidates_after_nan {
            Some(candidates) if had_nan => candidates,
            _ => &self.candidates,
        }
    }

    /// The name of a call that may be an origin.
    pub(super) fn name(&self) -> &str {
        self.shown.as_ref().map_or("", |shown| &shown.name)
    }
}

impl RankScan {
    /// Scans an opened rank.
    pub fn of(rank: &Rank, place: &RankPlace) -> RankScan {
        let mut problems = Problems::default();
        let calls = Calls::of(rank, &mut problems);
        let without = calls.candidates(rank, false);
        let after_nan = calls.candidates(rank, true);
        let parts: Vec<Vec<Part>> =
            calls.states.iter().map(|state| parts(rank, state.call, &mut problems)).collect();
        let is_kept =
            |at: &usize| !parts[*at].is_empty() || !without[*at].is_empty() || !after_nan[*at].is_empty();
        let kept: Vec<usize> = (0..calls.states.len()).filter(is_kept).collect();
        let makers: Vec<Vec<usize>> = kept.iter().map(|&at| calls.nearest_makers(at, &kept)).collect();
        let mut modules = Modules::default();
        let mut each = without.into_iter().zip(after_nan).zip(parts).enumerate();
        let states = kept.iter().zip(makers).filter_map(|(&at, makers)| {
            let (_, ((candidates, after_nan), parts)) = each.by_ref().find(|(number, _)| *number == at)?;
            let state = &calls.states[at];
            let is_candidate = !candidates.is_empty() || !after_nan.is_empty();
            let mut shown = || Box::new(shown(rank, state.call, &mut modules, &mut problems));
            Some(ScannedCall {
                position: at as u64,
                given: state.given,
                made: state.made,
                candidates_after_nan: (after_nan != candidates).then_some(after_nan),
                candidates,
                parts,
                makers,
                shown: is_candidate.then(&mut shown),
            })
        });
        let states = states.collect();
        problems.extend(rank.problems());
        RankScan {
            name: place.name.clone(),
            number: place.number,
            calls: calls.states.len(),
            measured: calls.states.iter().filter(|state| state.is_measured).count(),
            has_nan: calls.states.iter().any(|state| state.made.has_nan()),
            states,
            note: rank.is_cut().then(|| format!("{}: {CUT}", rank.path.display())),
            problems,
        }
    }
}

/// The calls of a rank.
struct Calls {
    /// In order of execution.
    states: Vec<CallState>,
    by_name: HashMap<String, usize>,
}

impl Calls {
    fn of(rank: &Rank, problems: &mut Problems) -> Calls {
        // A module only repeats what its calls say, if they were recorded.
        let is_module = |call: usize| {
            let base = rank.base(rank.calls()[call].base);
            ApiName::of(base).is_module()
        };
        let calls = 0..rank.calls().len();
        let has_apis = calls.clone().any(|call| !is_module(call) && is_computed(rank, call));
        let mut states: Vec<CallState> = Vec::new();
        let mut forwards: HashMap<(String, Option<u32>), NonFiniteKinds> = HashMap::new();
        for call in calls.filter(|&call| is_computed(rank, call) && !(has_apis && is_module(call))) {
            let entries = match rank.entries(call) {
                Ok(entries) => entries,
                Err(error) => {
                    problems.add(&error);
                    continue;
                }
            };
            let mut state = state_of(rank, call, &entries, problems);
            let about = &rank.calls()[call];
            let key = (rank.base(about.base).to_owned(), about.index);
            if about.kind == CallKind::Forward {
                forwards.insert(key, state.given.and(state.made));
            } else if let Some(forward) = forwards.get(&key) {
                state.given = state.given.and(*forward);
            }
            states.push(state);
        }
        // Only calls that returned something not finite, and sources of NaN, are looked for by name.
        let sources: HashSet<&str> =
            states.iter().flat_map(|state| &state.nan_sources).map(|entry| call_of(entry)).collect();
        let by_name = states.iter().enumerate().filter_map(|(at, state)| {
            let name = rank.name(state.call);
            (!state.made.is_none() || sources.contains(name.as_str())).then_some((name, at))
        });
        let by_name = by_name.collect();
        Calls { states, by_name }
    }

    /// Of each call, what it may be the origin of.
    fn candidates(&self, rank: &Rank, had_nan: bool) -> Vec<Vec<Candidate>> {
        let mut named = Vec::new();
        let mut is_known = false;
        let mut has_nan_gradient = false;
        let mut all = Vec::with_capacity(self.states.len());
        for state in &self.states {
            let mut found = Vec::new();
            let mut add = |kind, what, unless_sent| found.push(Candidate { kind, what, unless_sent });
            let (given, made) = (state.given, state.made);
            for source in &state.outside {
                // What the backward calls made, and what the previous step wrote: its optimizer, which also has tensors
                // of its own, and layers with buffers.
                let is_kept = source.starts_with("parameter:")
                    || source.starts_with("buffer:")
                    || rank.parent(state.call).as_deref() == Some(OPTIMIZER);
                let is_follower = source.starts_with("gradient:") && has_nan_gradient || had_nan && is_kept;
                if !is_follower && !named.contains(source) {
                    named.push(source.clone());
                    add(OriginKind::Outside(source.clone()), NonFiniteKinds::NAN, false);
                }
            }
            for source in self.changed_since(state) {
                if !named.contains(source) {
                    named.push(source.clone());
                    add(OriginKind::ChangedMemory(source.clone()), NonFiniteKinds::NAN, false);
                }
            }
            if given.has_nan() && !is_known && !state.has_sources && named.is_empty() {
                add(OriginKind::Unrecorded, given, false);
            }
            if made.has_nan() && !given.has_nan() && !given.is_none() {
                add(OriginKind::NanOfInfinities, NonFiniteKinds::NAN, true);
            } else if !made.is_none() && given.is_none() {
                let kind = if state.is_in_place { OriginKind::MadeInPlace } else { OriginKind::Made };
                add(kind, made, true);
            }
            let is_backward = rank.calls()[state.call].kind == CallKind::Backward;
            has_nan_gradient |= made.has_nan() && is_backward;
            is_known |= made.has_nan() || given.has_nan();
            all.push(found);
        }
        all
    }

    /// The results with NaN among the arguments of a call that were finite when they were returned.
    fn changed_since<'a>(&'a self, state: &'a CallState) -> impl Iterator<Item = &'a String> {
        state.nan_sources.iter().filter(|entry| {
            let maker = self.by_name.get(call_of(entry)).map(|&at| &self.states[at]);
            entry.contains(".output")
                && maker.is_some_and(|maker| maker.has_known_results && !maker.made.has_nan())
        })
    }

    /// The calls that made the arguments of a call that are not finite, as far as the dump names them.
    fn makers(&self, at: usize) -> impl Iterator<Item = usize> {
        let makers = self.states[at].sources.iter().filter_map(|entry| self.by_name.get(call_of(entry)));
        makers.copied().filter(|&maker| !self.states[maker].made.is_none())
    }

    /// The nearest of some calls among the makers of a call and theirs, by their places among these.
    fn nearest_makers(&self, at: usize, kept: &[usize]) -> Vec<usize> {
        let mut waiting: VecDeque<usize> = self.makers(at).collect();
        let mut known: HashSet<usize> = waiting.iter().copied().collect();
        let mut nearest = Vec::new();
        while let Some(maker) = waiting.pop_front() {
            match kept.binary_search(&maker) {
                Ok(place) => nearest.push(place),
                Err(_) => waiting.extend(self.makers(maker).filter(|next| known.insert(*next))),
            }
        }
        nearest
    }
}

/// The call of a result.
fn call_of(entry: &str) -> &str {
    entry.rsplit_once(".output").map_or(entry, |(call, _)| call)
}

fn is_computed(rank: &Rank, call: usize) -> bool {
    matches!(rank.calls()[call].kind, CallKind::Forward | CallKind::Backward)
}

/// What a call has to do with other ranks.
fn parts(rank: &Rank, call: usize, problems: &mut Problems) -> Vec<Part> {
    let base = rank.base(rank.calls()[call].base);
    if !base.starts_with("Distributed.") {
        return Vec::new();
    }
    match rank.entries(call) {
        Ok(entries) => parts_of(base, &entries),
        Err(error) => {
            problems.add(&error);
            Vec::new()
        }
    }
}

/// The calls of a rank by name, once they were asked for.
#[derive(Default)]
struct Modules(Option<HashMap<String, usize>>);

impl Modules {
    fn call(&mut self, rank: &Rank, name: &str) -> Option<usize> {
        let all = || (0..rank.calls().len()).map(|call| (rank.name(call), call)).collect();
        self.0.get_or_insert_with(all).get(name).copied()
    }
}

fn shown(rank: &Rank, call: usize, modules: &mut Modules, problems: &mut Problems) -> ShownCall {
    let entries = rank.entries(call).unwrap_or_else(|error| {
        problems.add(&error);
        Vec::new()
    });
    ShownCall {
        name: rank.name(call),
        entries: entries.iter().filter_map(|entry| shown_entry(rank, entry)).collect(),
        path: path_of(rank, call, modules),
        stack: rank.stack(call).unwrap_or_default(),
    }
}

fn shown_entry(rank: &Rank, entry: &Entry) -> Option<ShownEntry> {
    let Content::Tensor(tensor) = &entry.content else { return None };
    Some(ShownEntry {
        name: entry.name.clone(),
        is_result: entry.role == Role::Output,
        dtype: tensor.dtype.clone(),
        shape: tensor.shape.clone().unwrap_or_default(),
        what: kinds_of(rank, tensor).unwrap_or_default(),
    })
}

/// The modules around a call, the outermost first, then the call.
fn path_of(rank: &Rank, call: usize, modules: &mut Modules) -> Vec<String> {
    let mut path = vec![rank.name(call)];
    let mut parent = rank.parent(call);
    // A file may claim that a module is inside itself.
    while let Some(name) = parent.filter(|name| !path.contains(name)) {
        parent = modules.call(rank, &name).and_then(|call| rank.parent(call));
        path.push(name);
    }
    path.reverse();
    path
}
