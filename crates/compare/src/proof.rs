//! Replay as proof: the own error of a call, measured, decides whether the call introduced what two runs differ by.
//!
//! ```text
//! blamed call ──► Prover: the same call in raised precision, from its recorded inputs, on each side
//!                    └──► ReplayedError, or why not ──► Proof: proved, refuted, or not replayable
//! ```
//! Only torch can make a call again, so the [`Prover`] comes from outside. What its numbers mean is decided here.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use ulpscope_dump::Rank;

use crate::finding::DetectedCause;
use crate::native::thresholds::proofs::EXPLAINS;
use crate::standards::CheckStatus;

/// Makes recorded calls again.
pub trait Prover: Sync {
    /// Makes a call of a rank again, in raised precision and from its recorded inputs, and measures how far its recorded
    /// results are from that; of a backward call, its gradients. An error says why it cannot be made again.
    fn replay(&self, rank: &Arc<Rank>, call: usize) -> Result<ReplayedError, String>;
}

/// A prover, and the ranks whose calls it makes again: the target's and the golden's.
#[derive(Clone, Copy)]
pub struct Proving<'a> {
    /// Makes the calls.
    pub prover: &'a dyn Prover,
    /// Target and golden.
    pub ranks: [&'a Arc<Rank>; 2],
}

impl fmt::Debug for Proving<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proving").field("ranks", &self.ranks.map(|rank| &rank.path)).finish_non_exhaustive()
    }
}

/// The own error of a call, at the result that shows it most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayedError {
    /// The error relative to the reference.
    #[serde(with = "crate::number")]
    pub error: f64,
    /// What rounding explains of it.
    #[serde(with = "crate::number")]
    pub floor: f64,
    /// How many times what rounding explains: of the whole result, or of its worst element.
    #[serde(with = "crate::number")]
    pub ratio: f64,
    /// Whether it is too large.
    pub status: CheckStatus,
    /// What is said of it besides; empty if nothing is.
    pub remark: String,
}

impl ReplayedError {
    fn is_wrong(&self) -> bool {
        self.status == CheckStatus::Error
    }

    /// Whether it is large enough for a difference of this size.
    fn explains(&self, difference: f64) -> bool {
        // NaN, shapes and exact values that differ have no size.
        !self.ratio.is_finite() || !self.error.is_finite() || EXPLAINS.get() * self.error >= difference
    }
}

/// What replay says of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The outcome.
    pub verdict: ProofVerdict,
    /// The own errors of the target and the golden, where they were measured.
    pub own: [Option<ReplayedError>; 2],
}

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofVerdict {
    /// The recorded result is not what the recorded inputs give.
    Proved(WrongSide),
    /// Both recorded results are what their inputs give: the difference came with the inputs.
    Refuted,
    /// Replay cannot decide: why.
    NotReplayable(String),
}

impl ProofVerdict {
    /// Its name in files.
    pub fn words(&self) -> &'static str {
        match self {
            ProofVerdict::Proved(_) => "proved",
            ProofVerdict::Refuted => "refuted",
            ProofVerdict::NotReplayable(_) => "not replayable",
        }
    }
}

/// Who is far from the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WrongSide {
    /// The target alone.
    Target,
    /// The golden alone.
    Golden,
    /// Both.
    Both,
}

impl WrongSide {
    /// Its name in files.
    pub fn word(self) -> &'static str {
        match self {
            WrongSide::Target => "target",
            WrongSide::Golden => "golden",
            WrongSide::Both => "both",
        }
    }
}

/// What was measured of a call: of each side that makes it, its own error or why there is none.
pub(crate) type OwnErrors = [Option<Result<ReplayedError, String>>; 2];

/// The side that is wrong, if it is one alone.
pub(crate) fn only_wrong_side(own: &OwnErrors) -> Option<WrongSide> {
    let is_sound =
        |side: &Option<Result<ReplayedError, String>>| matches!(side, Some(Ok(own)) if !own.is_wrong());
    let is_wrong =
        |side: &Option<Result<ReplayedError, String>>| matches!(side, Some(Ok(own)) if own.is_wrong());
    match own {
        [target, golden] if is_wrong(target) && is_sound(golden) => Some(WrongSide::Target),
        [target, golden] if is_sound(target) && is_wrong(golden) => Some(WrongSide::Golden),
        _ => None,
    }
}

impl Proof {
    /// Decides a finding by what was measured of its call. `difference` is how far the two sides are apart at its
    /// results, relative.
    pub(crate) fn of(cause: DetectedCause, difference: f64, own: &OwnErrors) -> Proof {
        let measured = own.each_ref().map(|side| side.as_ref().and_then(|side| side.as_ref().ok()));
        let is_wrong = measured.map(|own| own.is_some_and(|own| own.is_wrong() && own.explains(difference)));
        let unknown = own.iter().zip(["target", "golden"]).find_map(|(side, name)| match side {
            Some(Err(why)) => Some(format!("{name}: {why}")),
            _ => None,
        });
        let verdict = match (is_wrong, unknown) {
            ([true, true], _) => ProofVerdict::Proved(WrongSide::Both),
            ([true, false], _) => ProofVerdict::Proved(WrongSide::Target),
            ([false, true], _) => ProofVerdict::Proved(WrongSide::Golden),
            (_, Some(why)) => ProofVerdict::NotReplayable(why),
            _ => undecided(cause).map_or(ProofVerdict::Refuted, not_replayable),
        };
        Proof { verdict, own: measured.map(|own| own.cloned()) }
    }

    /// Of a finding that no replay can decide.
    pub(crate) fn impossible(why: &str) -> Proof {
        Proof { verdict: not_replayable(why), own: [None, None] }
    }
}

fn not_replayable(why: &str) -> ProofVerdict {
    ProofVerdict::NotReplayable(why.to_owned())
}

/// Why a cause says nothing of what a call computes, so that replay has nothing to measure.
pub(crate) fn not_computed(cause: DetectedCause) -> Option<&'static str> {
    match cause {
        DetectedCause::Origin => Some("no call computed what differs: it is given to the run"),
        DetectedCause::Between => Some("what changed the tensor was not recorded"),
        DetectedCause::Wiring => Some("the two runs take an argument from different calls"),
        DetectedCause::Left | DetectedCause::Updates => {
            Some("no single call computes what a step leaves in a parameter")
        }
        DetectedCause::Region => Some("the two programs compute it by different calls"),
        DetectedCause::Cut | DetectedCause::ArgumentInBackward => {
            Some("what the two sides do differently shows in other calls")
        }
        DetectedCause::Made
        | DetectedCause::Argument
        | DetectedCause::Lone
        | DetectedCause::Cast
        | DetectedCause::Shape
        | DetectedCause::NonFinite
        | DetectedCause::BothBroken
        | DetectedCause::Draw => None,
    }
}

/// Why a finding stands although each side is right for its own inputs; `None` if that refutes it.
fn undecided(cause: DetectedCause) -> Option<&'static str> {
    match cause {
        DetectedCause::Made => None,
        DetectedCause::Argument => Some("each side is right for its own arguments, which differ"),
        DetectedCause::Lone => Some("the call is right; only one side makes it"),
        DetectedCause::Cast => Some("each side is right for its own dtype"),
        DetectedCause::Shape => Some("each side is right for its own shapes"),
        DetectedCause::Draw => Some("each side is right for what it drew"),
        DetectedCause::NonFinite | DetectedCause::BothBroken => {
            Some("in raised precision the result leaves the range of its dtype too")
        }
        DetectedCause::Origin
        | DetectedCause::Between
        | DetectedCause::Wiring
        | DetectedCause::Left
        | DetectedCause::Updates
        | DetectedCause::Region
        | DetectedCause::Cut
        | DetectedCause::ArgumentInBackward => Some("replay does not decide it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(error: f64, ratio: f64) -> Option<Result<ReplayedError, String>> {
        let status = if ratio > 3.0 { CheckStatus::Error } else { CheckStatus::Pass };
        Some(Ok(ReplayedError { error, floor: 1e-7, ratio, status, remark: String::new() }))
    }

    fn made(difference: f64, own: OwnErrors) -> ProofVerdict {
        Proof::of(DetectedCause::Made, difference, &own).verdict
    }

    #[test]
    fn who_is_far_from_the_reference_is_wrong() {
        let (far, near) = (|| own(0.1, 1e6), || own(1e-7, 1.0));
        assert_eq!(made(0.1, [far(), near()]), ProofVerdict::Proved(WrongSide::Target));
        assert_eq!(made(0.1, [near(), far()]), ProofVerdict::Proved(WrongSide::Golden));
        assert_eq!(made(0.1, [far(), far()]), ProofVerdict::Proved(WrongSide::Both));
        assert_eq!(made(0.1, [near(), near()]), ProofVerdict::Refuted);
    }

    #[test]
    fn an_own_error_much_smaller_than_the_difference_proves_nothing() {
        let slightly_off = own(1e-5, 20.0);
        assert_eq!(made(0.1, [slightly_off.clone(), own(1e-7, 1.0)]), ProofVerdict::Refuted);
        assert_eq!(made(2e-5, [slightly_off, own(1e-7, 1.0)]), ProofVerdict::Proved(WrongSide::Target));
        assert_eq!(made(0.1, [own(1e-5, f64::INFINITY), None]), ProofVerdict::Proved(WrongSide::Target));
    }

    #[test]
    fn a_side_that_cannot_be_replayed_refutes_nothing() {
        let unknown = || Some(Err("a module".to_owned()));
        let why = ProofVerdict::NotReplayable("golden: a module".to_owned());
        assert_eq!(made(0.1, [own(1e-7, 1.0), unknown()]), why);
        assert_eq!(made(0.1, [own(0.1, 1e6), unknown()]), ProofVerdict::Proved(WrongSide::Target));
    }

    #[test]
    fn different_arguments_are_never_refuted() {
        let near = || own(1e-7, 1.0);
        for cause in [DetectedCause::Argument, DetectedCause::Cast, DetectedCause::Lone] {
            let found = Proof::of(cause, 0.1, &[near(), near()]).verdict;
            assert!(matches!(found, ProofVerdict::NotReplayable(_)), "{cause:?}: {found:?}");
        }
    }
}
