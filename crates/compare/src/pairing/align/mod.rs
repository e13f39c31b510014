//! Pairing by the order of calls: the longest common subsequence of two sequences of tokens.
//!
//! A token describes a call: API or module, direction, shapes, its module. The first pass aligns the finest tokens;
//! between the pairs found, further passes align coarser tokens, down to the operation. So an extra call is skipped and
//! the two sides match again after it, and if all shapes differ (a different batch size) names and order still pair
//! everything.

mod anchors;
mod common;
mod slide;

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rayon::prelude::*;
use ulpscope_dump::{CallKind, Rank};

use super::How;
use super::accumulated;
use super::backward;
use super::by_name;
use super::links::Links;
use super::names::{Names, SideNames};
use super::signature::{self, Signature};

/// Calls whose shapes are checked before equal names are trusted without any check.
const SAMPLES: usize = 4096;

/// By name if both sides make the same calls in the same order; otherwise alignment, then names again for calls that
/// only moved.
pub(super) fn auto(target: &Rank, golden: &Rank, names: &Names, links: &mut Links) {
    if same_calls(names, links) && names_hold(target, golden, &names.target) {
        for call in 0..names.target.len() {
            links.join(call, call, names.how(call, call, How::Exact));
        }
        return;
    }
    let aligned = Aligned::of(target, golden, names, links);
    aligned.join_forward(names, links);
    aligned.join_running(names, links);
    aligned.join_moved(names, links);
    aligned.join_backward(names, links);
}

/// Alignment alone.
pub(super) fn align(target: &Rank, golden: &Rank, names: &Names, links: &mut Links) {
    let aligned = Aligned::of(target, golden, names, links);
    aligned.join_forward(names, links);
    aligned.join_running(names, links);
    aligned.join_backward(names, links);
}

/// Whether both sides have the same names in the same order, and in the same modules if these are known.
fn same_calls(names: &Names, links: &Links) -> bool {
    let (ours, theirs) = (&names.target, &names.golden);
    ours.len() == theirs.len()
        && (!names.parents_known || ours.parent == theirs.parent)
        && (0..ours.len()).all(|call| ours.name(call) == theirs.name(call) && links.golden(call).is_none())
}

/// Whether shapes support the names: they agree, or they differ nearly everywhere and show nothing, as with a different
/// batch size. Shapes that differ here and match elsewhere indicate omitted and added calls.
fn names_hold(target: &Rank, golden: &Rank, names: &SideNames) -> bool {
    let stride = names.len().div_ceil(SAMPLES).max(1);
    let samples: Vec<usize> = (0..names.len()).step_by(stride).collect();
    let shapes: Vec<(Signature, Signature)> =
        samples.par_iter().map(|&call| (signature::of(target, call), signature::of(golden, call))).collect();
    let name = |place: usize| (names.key[samples[place]], names.kind[samples[place]]);
    let differing: Vec<usize> =
        (0..samples.len()).filter(|&place| shapes[place].0 != shapes[place].1).collect();
    let there: HashSet<_> = (0..samples.len()).map(|place| (name(place), shapes[place].1)).collect();
    let elsewhere =
        differing.iter().filter(|&&place| there.contains(&(name(place), shapes[place].0))).count();
    differing.is_empty() || differing.len() * 2 > samples.len() && elsewhere * 2 < differing.len()
}

/// The result of an alignment.
struct Aligned {
    /// Pairs of calls, in the order of both sides.
    pairs: Vec<(usize, usize)>,
    signatures: [Vec<Signature>; 2],
    /// Modules whose gradients are those of pieces of a batch.
    pieces: HashSet<u32>,
}

impl Aligned {
    fn of(target: &Rank, golden: &Rank, names: &Names, links: &Links) -> Aligned {
        let signatures = [signature::of_all(target), signature::of_all(golden)];
        // A running call has no results, and a running module is listed where it began: neither shapes nor order say
        // anything about it.
        let ours: Vec<usize> = (0..names.target.len())
            .filter(|&call| links.golden(call).is_none() && !names.target.is_running(call))
            .collect();
        let theirs: Vec<usize> = (0..names.golden.len())
            .filter(|&call| links.target(call).is_none() && !names.golden.is_running(call))
            .collect();
        let tokens = |side: &SideNames, calls: &[usize], signatures: &[Signature], grain| -> Vec<u64> {
            calls.par_iter().map(|&call| token(names, side, call, signatures[call], grain)).collect()
        };
        let mut found: Vec<(u32, u32)> = Vec::new();
        let mut budget = common::BUDGET;
        let finest = if names.parents_known { Grain::Place } else { Grain::Shapes };
        for grain in [Grain::Place, Grain::Shapes, Grain::Name, Grain::Operation] {
            if grain == Grain::Place && !names.parents_known || found.len() == ours.len().min(theirs.len()) {
                continue;
            }
            let a = tokens(&names.target, &ours, &signatures[0], grain);
            let b = tokens(&names.golden, &theirs, &signatures[1], grain);
            found = refine(&found, &a, &b, &mut budget);
            if grain == finest {
                let early = names.target.is_cut || names.golden.is_cut;
                slide::to_most_alike(&mut found, &a, &b, early, |a, b| {
                    let (a, b) = (ours[a as usize], theirs[b as usize]);
                    let same_name = names.target.name(a) == names.golden.name(b);
                    // Results say more than the count of an API's calls so far.
                    2 * i64::from(signature::same_results(target, a, golden, b)) + i64::from(same_name)
                });
            }
        }
        let pairs = found.into_iter().map(|(a, b)| (ours[a as usize], theirs[b as usize])).collect();
        let mut aligned = Aligned { pairs, signatures, pieces: HashSet::new() };
        aligned.pieces = accumulated::pieces(names, &aligned.pairs, |pair| aligned.is_alike(pair));
        aligned
    }

    /// Pairs all calls except backward calls.
    fn join_forward(&self, names: &Names, links: &mut Links) {
        for &(target, golden) in &self.pairs {
            if names.target.kind[target] != CallKind::Backward && !self.is_piece(names, target) {
                links.join(target, golden, names.how(target, golden, How::Aligned));
            }
        }
        accumulated::join_last(names, &self.pieces, links);
    }

    /// Whether a call of the target is the gradients of a module after one of several pieces of a batch.
    fn is_piece(&self, names: &Names, target: usize) -> bool {
        names.target.kind[target] == CallKind::ParametersGrad
            && self.pieces.contains(&names.target.key[target])
    }

    /// Whether the two calls of a pair have the same input and output shapes.
    fn is_alike(&self, &(target, golden): &(usize, usize)) -> bool {
        self.signatures[0][target] == self.signatures[1][golden]
    }

    /// Pairs calls that were running when a run was killed with calls of the same name: the one whose number is shifted
    /// like those of the pairs before it.
    fn join_running(&self, names: &Names, links: &mut Links) {
        let (ours, theirs) = (&names.target, &names.golden);
        let mut shifts: HashMap<(u32, CallKind), i64> = HashMap::new();
        for &(target, golden) in &self.pairs {
            let shift = i64::from(theirs.number[golden]) - i64::from(ours.number[target]);
            shifts.insert((ours.key[target], ours.kind[target]), shift);
        }
        let shifted = |(key, kind, number): (u32, CallKind, u32), sign: i64| {
            let shift = shifts.get(&(key, kind)).copied().unwrap_or(0);
            (key, kind, i64::from(number) + sign * shift)
        };
        let wide = |(key, kind, number): (u32, CallKind, u32)| (key, kind, i64::from(number));
        let calls = |side: &SideNames| (0..side.len()).map(|call| (wide(side.name(call)), call)).collect();
        if !ours.running.is_empty() {
            let there: HashMap<_, usize> = calls(theirs);
            for target in ours.running.iter().map(|&call| call as usize) {
                if let Some(&golden) = there.get(&shifted(ours.name(target), 1)) {
                    links.join(target, golden, names.how(target, golden, How::Aligned));
                }
            }
        }
        if !theirs.running.is_empty() {
            let here: HashMap<_, usize> = calls(ours);
            for golden in theirs.running.iter().map(|&call| call as usize) {
                if let Some(&target) = here.get(&shifted(theirs.name(golden), -1)) {
                    links.join(target, golden, names.how(target, golden, How::Aligned));
                }
            }
        }
    }

    fn join_backward(&self, names: &Names, links: &mut Links) {
        let of_backward = |(target, _): &&(usize, usize)| names.target.kind[*target] == CallKind::Backward;
        let suggested: Vec<(usize, usize)> = self.pairs.iter().filter(of_backward).copied().collect();
        backward::follow(names, &suggested, links);
    }

    /// Pairs calls of equal names that alignment cannot, because they changed places. A name counts as long as no call
    /// of its API or module was found shifted, and the shapes agree if shapes say anything.
    fn join_moved(&self, names: &Names, links: &mut Links) {
        let ours = &self.signatures[0];
        let shapes_count =
            self.pairs.iter().filter(|pair| self.is_alike(pair)).count() * 2 >= self.pairs.len();
        let shifted: HashSet<(u32, CallKind)> = self
            .pairs
            .iter()
            .filter(|&&(target, golden)| names.target.number[target] != names.golden.number[golden])
            .map(|&(target, _)| (names.target.key[target], names.target.kind[target]))
            .collect();
        for (target, golden) in by_name::equal_names(names, links) {
            let (key, kind) = (names.target.key[target], names.target.kind[target]);
            let parents_agree = names.target.parent[target] == names.golden.parent[golden];
            if kind != CallKind::Backward
                && !self.is_piece(names, target)
                && (!ours[target].is_recompute || parents_agree)
                && !shifted.contains(&(key, kind))
                && (!shapes_count || self.is_alike(&(target, golden)))
            {
                links.join(target, golden, names.how(target, golden, How::Exact));
            }
        }
    }
}

/// How much a token says about its call, finest first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Name, shapes, and the module it was made in.
    Place,
    /// Name and shapes.
    Shapes,
    /// Name.
    Name,
    /// Operation and shapes.
    Operation,
}

fn token(names: &Names, side: &SideNames, call: usize, signature: Signature, grain: Grain) -> u64 {
    let (key, kind) = (side.key[call], side.kind[call]);
    let mut hasher = DefaultHasher::new();
    // Recomputed calls follow the order of the backward pass: only their module shows which call they repeat.
    signature.is_recompute.then_some(side.parent[call]).hash(&mut hasher);
    match grain {
        Grain::Place => (key, kind, signature, side.parent[call]).hash(&mut hasher),
        Grain::Shapes => (key, kind, signature).hash(&mut hasher),
        Grain::Name => (key, kind).hash(&mut hasher),
        Grain::Operation => (names.operation[key as usize], kind, signature).hash(&mut hasher),
    }
    hasher.finish()
}

/// Keeps the pairs found, and aligns the calls between them.
fn refine(found: &[(u32, u32)], a: &[u64], b: &[u64], budget: &mut u64) -> Vec<(u32, u32)> {
    let mut refined = Vec::with_capacity(found.len());
    let mut start = (0, 0);
    for &end in found.iter().chain([&(a.len() as u32, b.len() as u32)]) {
        if start.0 < end.0 && start.1 < end.1 {
            common::subsequence(a, b, start.0..end.0, start.1..end.1, budget, &mut refined);
        }
        refined.push(end);
        start = (end.0 + 1, end.1 + 1);
    }
    refined.pop();
    refined
}
