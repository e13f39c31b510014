//! Where NaN and infinities come from, in one dump: the calls that made them, over ranks and steps.
//!
//! ```text
//! rank ──► scan: what each call was given and returned ──► candidates: made here, or given?
//!            └─► collectives and messages ──► traffic ──────► origins: or received from which rank?
//! ```
//! Only scans are kept of ranks, so that these may be on different machines.
//!
//! A call is an origin if its results have NaN and its arguments have none, or if its results are infinite and its
//! arguments are finite. An infinity among scalar arguments (`masked_fill(mask, -inf)`) is passed on purpose.

mod call_state;
mod device;
mod order;
mod scan;
mod traffic;

use std::collections::{HashSet, VecDeque};

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Dump, Problems};

pub use device::{DetectedOverflow, DetectedTensor, device_overflows, overflows_of_rank};
use order::FlowOrder;
pub use scan::RankScan;
use scan::{ScannedCall, ShownEntry};
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The origins of a dump, by steps, then in the order of the data flow: over several ranks, a call that fed a message comes
/// before what received it.
///
/// `notes` gets the ranks of which calls are missing.
pub fn non_finite_origins(dump: &Dump, notes: &mut Vec<String>, problems: &mut Problems) -> OriginSearch {
    let mut merge = OriginMerge::default();
    for step in &dump.steps {
        let mut scans = Vec::new();
        for place in &step.ranks {
            match place.open() {
                Ok(rank) => scans.push(RankScan::of(&rank, place)),
                Err(error) => problems.add(&error),
            }
        }
        merge.add(step.number, scans, notes, problems);
    }
    merge.search
}

/// Finds the origins of one step after another in scans of its ranks.
#[derive(Debug, Default)]
pub struct OriginMerge {
    /// What was found so far.
    pub search: OriginSearch,
    /// Ranks whose previous step has NaN: an optimizer carries it into parameters.
    had_nan: HashSet<String>,
}

impl OriginMerge {
    /// Adds the next step.
    pub fn add(
        &mut self,
        step: Option<u64>,
        mut scans: Vec<RankScan>,
        notes: &mut Vec<String>,
        problems: &mut Problems,
    ) {
        for scan in &mut scans {
            self.search.calls += scan.calls;
            self.search.measured += scan.measured;
            notes.extend(scan.note.take());
            problems.extend(std::mem::take(&mut scan.problems));
        }
        let traffic = Traffic::of(&scans);
        let mut found: Vec<(Place, NonFiniteOrigin)> = Vec::new();
        for (rank, scan) in scans.iter().enumerate() {
            let had_nan = self.had_nan.contains(&scan.name);
            for at in 0..scan.states.len() {
                found.extend(origins_of(step, (rank, at), &scans, &traffic, had_nan));
            }
        }
        name_receivers(&scans, &traffic, &mut found);
        let order = FlowOrder::of(&scans, &traffic);
        found.sort_by_cached_key(|(place, origin)| {
            (order.count(&scans, *place), origin.rank_number, origin.rank.clone(), place.1)
        });
        self.search.origins.extend(found.into_iter().map(|(_, origin)| origin));
        self.had_nan = scans.into_iter().filter(|scan| scan.has_nan).map(|scan| scan.name).collect();
    }
}

fn state(scans: &[RankScan], (rank, at): Place) -> &ScannedCall {
    &scans[rank].states[at]
}

/// What a call is the origin of.
fn origins_of(
    step: Option<u64>,
    place: Place,
    scans: &[RankScan],
    traffic: &Traffic,
    had_nan: bool,
) -> Vec<(Place, NonFiniteOrigin)> {
    let call = state(scans, place);
    let candidates = call.candidates(had_nan);
    if candidates.is_empty() {
        return Vec::new();
    }
    let new_nan = call.made.has_nan() && !call.given.has_nan();
    let is_sent =
        traffic.senders(place).map(|sent| state(scans, sent)).any(|sender| match call.given.is_none() {
            true => !sender.given.is_none(),
            false => new_nan && sender.given.has_nan(),
        });
    let candidates = candidates.iter().filter(|one| !(one.unless_sent && is_sent));
    let scan = &scans[place.0];
    let origin = candidates.filter_map(|one| {
        let shown = call.shown.as_ref()?;
        let origin = NonFiniteOrigin {
            step,
            rank: scan.name.clone(),
            rank_number: scan.number,
            call: shown.name.clone(),
            kind: one.kind.clone(),
            what: one.what.words(),
            entries: shown.entries.iter().map(origin_entry).collect(),
            path: shown.path.clone(),
            stack: shown.stack.clone(),
            received_by: Vec::new(),
        };
        Some((place, origin))
    });
    origin.collect()
}

fn origin_entry(entry: &ShownEntry) -> OriginEntry {
    OriginEntry {
        name: entry.name.clone(),
        is_result: entry.is_result,
        dtype: entry.dtype.clone(),
        shape: entry.shape.clone(),
        what: entry.what.words(),
    }
}

/// Adds to each origin who received what came of it.
fn name_receivers(scans: &[RankScan], traffic: &Traffic, found: &mut [(Place, NonFiniteOrigin)]) {
    for (rank, scan) in scans.iter().enumerate() {
        for (at, call) in scan.states.iter().enumerate() {
            if !call.given.is_none() || call.made.is_none() {
                continue;
            }
            for sent in bad_senders(scans, traffic, (rank, at)) {
                if let Some(origin) = origin_of(scans, traffic, found, sent) {
                    let receiver = format!("{}: {}", scan.name, call.name());
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
    let senders = |is_bad: fn(&ScannedCall) -> bool| -> Vec<Place> {
        traffic.senders(place).filter(|&sent| is_bad(state(scans, sent))).collect()
    };
    let given = senders(|call| !call.given.is_none());
    if given.is_empty() { senders(|call| !call.made.is_none()) } else { given }
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
        let call = state(scans, place);
        let makers = call.makers.iter().map(|&maker| (place.0, maker));
        let senders = if call.given.is_none() { bad_senders(scans, traffic, place) } else { Vec::new() };
        waiting.extend(makers.chain(senders).filter(|next| known.insert(*next)));
    }
    let before = found.iter().enumerate().filter(|(_, ((rank, at), _))| *rank == sent.0 && *at <= sent.1);
    before.max_by_key(|(_, (place, _))| place.1).map(|(at, _)| at)
}
