//! What replay says of a call, in one line with the numbers of both sides.

use ulpscope_compare::{Proof, ProofVerdict, ReplayedError, WrongSide};
use ulpscope_report::format_short;

use crate::words::larger_own_error;

/// The sentence; `call` is named where it is not the one that is explained.
pub(super) fn sentence(call: Option<&str>, proof: &Proof) -> String {
    let said = verdict(proof);
    match call {
        Some(call) => format!("{call}: {said}"),
        None => said,
    }
}

fn verdict(proof: &Proof) -> String {
    match &proof.verdict {
        ProofVerdict::Proved(wrong) => {
            let wrong = match wrong {
                WrongSide::Target => "the target is wrong",
                WrongSide::Golden => "the golden is wrong",
                WrongSide::Both => "both are wrong, or the call is ill-conditioned",
            };
            format!("Proved by replay: {wrong}. {}", numbers(proof))
        }
        ProofVerdict::Refuted => {
            format!("Refuted by replay: each side is right for its own inputs. {}", numbers(proof))
        }
        ProofVerdict::NotReplayable(why) if proof.own.iter().all(Option::is_none) => {
            format!("Not proved by replay: {why}.")
        }
        ProofVerdict::NotReplayable(why) => format!("Not proved by replay: {why}. {}", numbers(proof)),
    }
}

/// The own errors of both sides.
fn numbers(proof: &Proof) -> String {
    let sides = proof.own.iter().zip(["target", "golden"]);
    let sides: Vec<String> =
        sides.filter_map(|(own, side)| Some(format!("{side} {}", own_error(own.as_ref()?)))).collect();
    let factor = larger_own_error(proof);
    let factor = factor.map(|(is_target, factor)| match is_target {
        true => format!("; the target's is {factor} × the golden's"),
        false => format!("; the golden's is {factor} × the target's"),
    });
    let factor = factor.unwrap_or_default();
    format!("Own error against raised precision: {}{factor}.", sides.join(", "))
}

fn own_error(own: &ReplayedError) -> String {
    if own.floor > 0.0 || own.remark.is_empty() {
        format!("{} (rounding explains {})", format_short(own.error), format_short(own.floor))
    } else {
        own.remark.clone()
    }
}
