//! Which blamed calls replay proves, and which it refutes.
//!
//! ```text
//! conclude ──► the first blamed call that was not replayed yet ──► replay both sides
//!    ▲            proved, not replayable ──► the next one
//!    └────────────refuted: the call is cleared ──► those that made its inputs: is one of them wrong on one side alone?
//! ```
//! Then calls beside the blamed ones are replayed: those that made their differing inputs, and those that nearly were
//! blamed. One that is wrong on one side alone is blamed too.
//!
//! A refuted call introduced nothing, so that all calls are concluded again with that knowledge: what was thought to be
//! inherited from it may be the next candidate. If nobody is left to blame and final results differ, the call that adds
//! most to their difference is replayed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use ulpscope_dump::CallKind;

use crate::native::attribution::conclusion::{Cause, Conclusion};
use crate::native::attribution::conclusion_list::ConclusionList;
use crate::native::evidence::call_evidence::{CallEvidence, Relation};
use crate::native::evidence::flow::Flow;
use crate::native::thresholds::proofs::LEAST_DOUBT;
use crate::proof::{OwnErrors, Proof, ProofVerdict, Proving, not_computed, only_wrong_side};

/// Calls of a pair of ranks that are replayed. The first of many findings tell most, and others are mostly alike.
const MOST_REPLAYED: usize = 64;

/// Calls that are replayed though nobody blames them, and how near to being blamed they came. Each costs about as much
/// as a blamed one.
const MOST_BESIDE: usize = 4;
/// Calls that are replayed on the way back from a refuted one.
const MOST_BEFORE: usize = 8;

const NOT_ASKED: &str = "as many calls of this rank as are replayed came before it";

/// What replay has decided.
#[derive(Debug, Default)]
pub(in crate::native) struct Decided {
    cleared: HashSet<usize>,
    wrong: HashSet<usize>,
}

impl Decided {
    /// Whether both sides computed what their inputs give.
    pub(in crate::native) fn is_cleared(&self, at: usize) -> bool {
        self.cleared.contains(&at)
    }

    /// Whether one side did not, though nobody blamed the call.
    pub(in crate::native) fn is_wrong(&self, at: usize) -> bool {
        self.wrong.contains(&at)
    }
}

/// The replays of two ranks.
#[derive(Debug)]
pub(in crate::native) struct Proofs<'a> {
    proving: Option<Proving<'a>>,
    pub(in crate::native) decided: Decided,
    /// What was measured, by unit.
    measured: HashMap<usize, OwnErrors>,
    /// What was concluded of calls until they were refuted.
    refuted: BTreeMap<usize, Conclusion>,
    /// Calls that were replayed though nobody blamed them.
    beside: HashSet<usize>,
}

impl<'a> Proofs<'a> {
    pub(in crate::native) fn of(proving: Option<Proving<'a>>) -> Proofs<'a> {
        Proofs {
            proving,
            decided: Decided::default(),
            measured: HashMap::new(),
            refuted: BTreeMap::new(),
            beside: HashSet::new(),
        }
    }

    /// Replays blamed calls, the first first, and `step`, which adds most to the difference of final results. Returns
    /// whether anything was decided that changes the conclusions.
    pub(in crate::native) fn examine(
        &mut self,
        units: &[CallEvidence],
        flow: &Flow,
        conclusions: &ConclusionList,
        step: Option<usize>,
    ) -> bool {
        if self.proving.is_none() {
            return false;
        }
        for (at, conclusion) in conclusions.blamed() {
            let Some(cause) = conclusion.cause else { continue };
            if is_computed(cause, &units[at]).is_ok() {
                self.measure(at, &units[at]);
            }
            let proof = self.proof(at, &units[at], conclusion);
            if proof.is_some_and(|proof| proof.verdict == ProofVerdict::Refuted) {
                self.decided.cleared.insert(at);
                self.decided.wrong.remove(&at);
                self.refuted.insert(at, conclusion.clone());
                self.look_before(at, units, flow);
                return true;
            }
        }
        self.look_beside(units, flow, conclusions) || step.is_some_and(|at| self.is_found_wrong(at, units))
    }

    /// Replays calls that nobody blames, but that may have done it: those that made differing inputs of blamed ones, and
    /// those that were cleared narrowly. Returns whether one is wrong.
    fn look_beside(&mut self, units: &[CallEvidence], flow: &Flow, conclusions: &ConclusionList) -> bool {
        let is_free = |&at: &usize| conclusions.cause(at).is_none() && !flow.is_composite(at);
        let blamed = conclusions.blamed().into_iter();
        let before = blamed.flat_map(|(at, _)| producers(at, units, flow)).filter(is_free);
        let mut doubtful: Vec<usize> = (0..units.len()).filter(is_free).collect();
        doubtful.retain(|&at| conclusions.doubt(at) >= LEAST_DOUBT.get());
        doubtful.sort_by(|&one, &other| conclusions.doubt(other).total_cmp(&conclusions.doubt(one)));
        for at in before.chain(doubtful) {
            let is_known = self.measured.contains_key(&at);
            if !is_known && (self.beside.len() >= MOST_BESIDE || !self.beside.insert(at)) {
                continue;
            }
            if self.is_found_wrong(at, units) {
                return true;
            }
        }
        false
    }

    /// What replay says of a unit that introduced an error; `None` without replay.
    pub(in crate::native) fn proof(
        &self,
        at: usize,
        unit: &CallEvidence,
        conclusion: &Conclusion,
    ) -> Option<Proof> {
        self.proving?;
        let cause = conclusion.cause?;
        Some(match (is_computed(cause, unit), self.measured.get(&at)) {
            (Err(why), _) => Proof::impossible(why),
            (Ok(()), Some(own)) => Proof::of(cause, difference(conclusion), own),
            (Ok(()), None) => Proof::impossible(NOT_ASKED),
        })
    }

    /// What was concluded of a unit until it was refuted.
    pub(in crate::native) fn refuted(&self, at: usize) -> Option<&Conclusion> {
        self.refuted.get(&at)
    }

    /// Whether a call was blamed until it was refuted.
    pub(in crate::native) fn is_any_refuted(&self) -> bool {
        !self.refuted.is_empty()
    }

    /// Whether rows have the columns of replay.
    pub(in crate::native) fn is_asked(&self) -> bool {
        self.proving.is_some()
    }

    /// Measures the own errors of a unit's call, once.
    fn measure(&mut self, at: usize, unit: &CallEvidence) -> Option<&OwnErrors> {
        let Proving { prover, ranks } = self.proving?;
        if !self.measured.contains_key(&at) {
            if self.measured.len() >= MOST_REPLAYED {
                return None;
            }
            let calls = [(ranks[0], unit.target()), (ranks[1], unit.golden())];
            let own = calls.map(|(rank, call)| call.map(|call| prover.replay(rank, call)));
            self.measured.insert(at, own);
        }
        self.measured.get(&at)
    }

    /// Goes back from a refuted call along the inputs that differ, until a call is wrong on one side alone.
    fn look_before(&mut self, at: usize, units: &[CallEvidence], flow: &Flow) {
        let mut waiting: VecDeque<usize> = producers(at, units, flow).into();
        let mut seen: HashSet<usize> = HashSet::from([at]);
        while let Some(before) = waiting.pop_front() {
            if seen.len() > MOST_BEFORE || !seen.insert(before) || flow.is_composite(before) {
                continue;
            }
            if self.is_found_wrong(before, units) {
                return;
            }
            waiting.extend(producers(before, units, flow));
        }
    }

    /// Replays a call that nobody blames. Where both sides are off, as all products in a coarse precision are, it says
    /// nothing of their difference.
    fn is_found_wrong(&mut self, at: usize, units: &[CallEvidence]) -> bool {
        let unit = &units[at];
        if unit.is_lone() || unit.kind == CallKind::ParametersGrad || self.decided.is_cleared(at) {
            return false;
        }
        let is_wrong = self.measure(at, unit).is_some_and(|own| only_wrong_side(own).is_some());
        is_wrong && self.decided.wrong.insert(at)
    }
}

/// Whether a call computed what a cause says; else why not.
fn is_computed(cause: Cause, unit: &CallEvidence) -> Result<(), &'static str> {
    match (not_computed(cause), unit.kind) {
        (Some(why), _) => Err(why),
        (None, CallKind::ParametersGrad) => Err("a sum of gradients is not one call"),
        (None, CallKind::Saved) => Err("it is a saved tensor, and no call"),
        (None, _) => Ok(()),
    }
}

/// How far apart the results of a unit are; unknown if that was measured on results of other calls.
fn difference(conclusion: &Conclusion) -> f64 {
    if conclusion.is_of_taker { 0.0 } else { conclusion.error.whole }
}

/// The units that made what differs among the inputs of a unit; of gradients, the backward calls of those who took what
/// its forward call gave.
fn producers(at: usize, units: &[CallEvidence], flow: &Flow) -> Vec<usize> {
    let differing =
        units[at].entries.iter().filter(|entry| entry.is_taken() && entry.state != Relation::Equal);
    let mut found: Vec<usize> = differing.flat_map(|entry| flow.makers(entry)).flatten().collect();
    if let Some(forward) = flow.forward.of(at) {
        let takers = flow.takers[forward].iter().map(|&(taker, _)| taker as usize);
        found.extend(takers.filter_map(|taker| flow.backward.of(taker)));
    }
    found.dedup();
    found
}
