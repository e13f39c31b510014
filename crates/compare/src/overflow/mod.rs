//! Where NaN and infinities come from, in one dump: the calls that made them, over ranks and steps.
//!
//! ```text
//! rank ──► scan: what each call was given and returned ──► origins: made here, or given?
//!                                                              └─► traffic: received from which rank?
//! ```
//! A call is an origin if its results have NaN and its arguments have none, or if its results are infinite and its
//! arguments are finite. An infinity among scalar arguments (`masked_fill(mask, -inf)`) is passed on purpose.

mod device;
mod order;
mod scan;
mod traffic;

use std::collections::{HashMap, HashSet, VecDeque};

use ulpscope_dump::{Content, Dump, Entry, Problems, Rank, Role};

pub use device::{DetectedOverflow, DetectedTensor, device_overflows};
use order::FlowOrder;
use scan::{CallState, NonFiniteKinds, RankScan};
use traffic::{Place, Traffic};

/// A call that produced NaN or infinity, or was the first to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonFiniteOrigin {
    /// The step, if the dump has steps.
    pub step: Option<u64>,
    /// The folder of the rank; empty if there is none.
    pub rank: String,
    /// The number of the rank, if it has one.
    pub rank_number: Option<u64>,
    /// The name of the call.
    pub call: String,
    /// What happened.
    pub kind: OriginKind,
    /// What of it: `NaN`, `infinity`, `NaN and infinity`.
    pub what: &'static str,
    /// Its tensors, as recorded: name and description.
    pub entries: Vec<OriginEntry>,
    /// The modules around it, the outermost first, then the call.
    pub path: Vec<String>,
    /// Where it was made, innermost frame first.
    pub stack: Vec<String>,
    /// The collectives or messages through which other ranks received it: `rank1: Distributed.all_reduce.0.forward`.
    pub received_by: Vec<String>,
}

/// A tensor of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginEntry {
    /// `Torch.div.0.forward.output.0`
    pub name: String,
    /// Whether it is a result.
    pub is_result: bool,
    /// `torch.float32`
    pub dtype: String,
    /// The dimensions, if recorded.
    pub shape: Vec<u64>,
    /// What of it is not finite; empty if all is.
    pub what: &'static str,
}

/// How NaN or infinity came into a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// Made by the call from finite arguments.
    Made,
    /// Made by a call that changed an argument in place, which is recorded as it is after the call.
    MadeInPlace,
    /// NaN, made of infinities.
    NanOfInfinities,
    /// It was in a parameter, a buffer or an input: which, as recorded.
    Outside(String),
    /// An argument has it, and no recorded call made it.
    Unrecorded,
    /// An argument has it, and was finite when a call returned it: which result.
    ChangedMemory(String),
}

impl OriginKind {
    /// The word in result files.
    pub fn word(&self) -> &'static str {
        match self {
            OriginKind::Made => "made here",
            OriginKind::MadeInPlace => "made in place",
            OriginKind::NanOfInfinities => "NaN of infinities",
            OriginKind::Outside(_) => "from outside",
            OriginKind::Unrecorded => "made by no recorded call",
            OriginKind::ChangedMemory(_) => "memory changed",
        }
    }
}

/// The origins of a dump, and what was searched.
#[derive(Clone, Debug, Default)]
pub struct OriginSearch {
    /// The origins.
    pub origins: Vec<NonFiniteOrigin>,
    /// How many calls were searched.
    pub calls: usize,
    /// How many of them have numbers.
    pub measured: usize,
}

/// The note on a rank whose capture ended early.
const CUT: &str = "capture ended before the step did, so calls are missing";

/// The origins of a dump, by steps, then in the order of the data flow: over several ranks, a call that fed a message comes
/// before what received it.
///
/// `notes` gets the ranks of which calls are missing.
pub fn non_finite_origins(dump: &Dump, notes: &mut Vec<String>, problems: &mut Problems) -> OriginSearch {
    let mut search = OriginSearch::default();
    // Ranks whose previous step has NaN: an optimizer carries it into parameters.
    let mut had_nan: HashSet<String> = HashSet::new();
    for step in &dump.steps {
        let mut scans = Vec::new();
        for place in &step.ranks {
            match place.open() {
                Ok(rank) => scans.push(RankScan::of(rank, place, problems)),
                Err(error) => problems.add(&error),
            }
        }
        let traffic = Traffic::of(&scans, problems);
        let mut found: Vec<(Place, NonFiniteOrigin)> = Vec::new();
        for (number, scan) in scans.iter().enumerate() {
            for (call, kind, what) in origins_of(number, &scans, &traffic, had_nan.contains(&scan.name)) {
                found.push(((number, call), described(step.number, scan, call, kind, what, problems)));
            }
        }
        name_receivers(&scans, &traffic, &mut found);
        let order = FlowOrder::of(&scans, &traffic);
        found.sort_by_cached_key(|(place, origin)| {
            (order.count(&scans, *place), origin.rank_number, origin.rank.clone(), place.1)
        });
        search.origins.extend(found.into_iter().map(|(_, origin)| origin));
        let with_nan = scans.iter().filter(|scan| scan.states.iter().any(|state| state.made.has_nan()));
        had_nan = with_nan.map(|scan| scan.name.clone()).collect();
        for scan in &scans {
            search.calls += scan.states.len();
            search.measured += scan.states.iter().filter(|state| state.is_measured).count();
            if scan.rank.is_cut() {
                notes.push(format!("{}: {CUT}", scan.rank.path.display()));
            }
            problems.extend(scan.rank.problems());
        }
    }
    search
}

/// The calls of a rank that are origins.
fn origins_of(
    number: usize,
    scans: &[RankScan],
    traffic: &Traffic,
    had_nan: bool,
) -> Vec<(usize, OriginKind, NonFiniteKinds)> {
    let mut found = Vec::new();
    let mut named = Vec::new();
    let mut is_known = false;
    let mut has_nan_gradient = false;
    let scan = &scans[number];
    for state in &scan.states {
        let CallState { call, given, made, .. } = *state;
        for source in &state.outside {
            // What the backward calls made, and what the optimizer of the previous step wrote.
            let is_follower = source.starts_with("gradient:") && has_nan_gradient
                || source.starts_with("parameter:") && had_nan;
            if !is_follower && !named.contains(source) {
                named.push(source.clone());
                found.push((call, OriginKind::Outside(source.clone()), NonFiniteKinds::NAN));
            }
        }
        for source in scan.changed_since(state) {
            if !named.contains(source) {
                named.push(source.clone());
                found.push((call, OriginKind::ChangedMemory(source.clone()), NonFiniteKinds::NAN));
            }
        }
        if given.has_nan() && !is_known && !state.has_sources && named.is_empty() {
            found.push((call, OriginKind::Unrecorded, given));
        }
        let new_nan = made.has_nan() && !given.has_nan();
        let is_sent = traffic.senders(number, call).any(|(rank, sent)| {
            scans[rank].state(sent).is_some_and(|sender| match given.is_none() {
                true => !sender.given.is_none(),
                false => new_nan && sender.given.has_nan(),
            })
        });
        if !is_sent {
            if new_nan && !given.is_none() {
                found.push((call, OriginKind::NanOfInfinities, NonFiniteKinds::NAN));
            } else if !made.is_none() && given.is_none() {
                let kind = if state.is_in_place { OriginKind::MadeInPlace } else { OriginKind::Made };
                found.push((call, kind, made));
            }
        }
        has_nan_gradient |= made.has_nan() && scan.is_backward(state);
        is_known |= made.has_nan() || given.has_nan();
    }
    found
}

/// Adds to each origin who received what came of it.
fn name_receivers(scans: &[RankScan], traffic: &Traffic, found: &mut [(Place, NonFiniteOrigin)]) {
    for (number, scan) in scans.iter().enumerate() {
        for state in scan.states.iter().filter(|state| state.given.is_none() && !state.made.is_none()) {
            for sent in bad_senders(scans, traffic, (number, state.call)) {
                if let Some(origin) = origin_of(scans, traffic, found, sent) {
                    let name = scan.rank.name(state.call);
                    let receiver = format!("{}: {name}", scan.name);
                    if !found[origin].1.received_by.contains(&receiver) {
                        found[origin].1.received_by.push(receiver);
                    }
                }
            }
        }
    }
}

/// The calls of other ranks that sent something not finite to a call. Of a collective, whose result all ranks have, these
/// are the ranks that gave it; where the dump does not tell, all that have it.
fn bad_senders(scans: &[RankScan], traffic: &Traffic, place: Place) -> Vec<Place> {
    let senders = |is_bad: fn(&CallState) -> bool| -> Vec<Place> {
        let all = traffic.senders(place.0, place.1);
        all.filter(|&(rank, sent)| scans[rank].state(sent).is_some_and(is_bad)).collect()
    };
    let given = senders(|state| !state.given.is_none());
    if given.is_empty() { senders(|state| !state.made.is_none()) } else { given }
}

/// The origin of what a call sent: back along the calls that made its arguments, and along messages. Where the dump does
/// not name them, it is the last origin before the call.
fn origin_of(
    scans: &[RankScan],
    traffic: &Traffic,
    found: &[(Place, NonFiniteOrigin)],
    sent: Place,
) -> Option<usize> {
    let mut waiting = VecDeque::from([sent]);
    let mut known = HashSet::from([sent]);
    while let Some(place) = waiting.pop_front() {
        if let Some(at) = found.iter().position(|(origin, _)| *origin == place) {
            return Some(at);
        }
        let scan = &scans[place.0];
        let Some(state) = scan.state(place.1) else { continue };
        let makers = scan.makers(state).map(|maker| (place.0, maker.call));
        let is_received = state.given.is_none();
        let senders = if is_received { bad_senders(scans, traffic, place) } else { Vec::new() };
        waiting.extend(makers.chain(senders).filter(|next| known.insert(*next)));
    }
    let before = found.iter().enumerate().filter(|(_, ((rank, call), _))| *rank == sent.0 && *call <= sent.1);
    before.max_by_key(|(_, (place, _))| place.1).map(|(at, _)| at)
}

fn described(
    step: Option<u64>,
    scan: &RankScan,
    call: usize,
    kind: OriginKind,
    what: NonFiniteKinds,
    problems: &mut Problems,
) -> NonFiniteOrigin {
    let rank = &scan.rank;
    let entries = rank.entries(call).unwrap_or_else(|error| {
        problems.add(&error);
        Vec::new()
    });
    NonFiniteOrigin {
        step,
        rank: scan.name.clone(),
        rank_number: scan.number,
        call: rank.name(call),
        kind,
        what: what.words(),
        entries: entries.iter().filter_map(|entry| origin_entry(rank, entry)).collect(),
        path: path_of(rank, call),
        stack: rank.stack(call).unwrap_or_default(),
        received_by: Vec::new(),
    }
}

fn origin_entry(rank: &Rank, entry: &Entry) -> Option<OriginEntry> {
    let Content::Tensor(tensor) = &entry.content else { return None };
    Some(OriginEntry {
        name: entry.name.clone(),
        is_result: entry.role == Role::Output,
        dtype: tensor.dtype.clone(),
        shape: tensor.shape.clone().unwrap_or_default(),
        what: scan::kinds_of(rank, tensor).map_or("", NonFiniteKinds::words),
    })
}

/// The modules around a call, the outermost first, then the call.
fn path_of(rank: &Rank, call: usize) -> Vec<String> {
    let mut path = vec![rank.name(call)];
    let mut numbers: Option<HashMap<String, usize>> = None;
    let mut parent = rank.parent(call);
    // A file may claim that a module is inside itself.
    while let Some(name) = parent.filter(|name| !path.contains(name)) {
        let numbers = numbers
            .get_or_insert_with(|| (0..rank.calls().len()).map(|call| (rank.name(call), call)).collect());
        parent = numbers.get(&name).and_then(|&call| rank.parent(call));
        path.push(name);
    }
    path.reverse();
    path
}
