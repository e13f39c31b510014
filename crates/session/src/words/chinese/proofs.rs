//! What replay says of a call.

use ulpscope_compare::{Proof, ProofVerdict, ReplayedError, WrongSide};
use ulpscope_report::format_short;

use crate::words::larger_own_error;

/// The sentence; `call` is named where it is not the one that is explained.
pub(super) fn sentence(call: Option<&str>, proof: &Proof) -> String {
    let of = call.map(|call| format!("{call}：")).unwrap_or_default();
    match &proof.verdict {
        ProofVerdict::Proved(wrong) => {
            let wrong = match wrong {
                WrongSide::Target => "目标有错",
                WrongSide::Golden => "标杆有错",
                WrongSide::Both => "两侧都有错，或该调用是病态的",
            };
            format!("{of}重放已证实：{wrong}。{}", numbers(proof))
        }
        ProofVerdict::Refuted => format!("{of}重放已否定：两侧的结果都与各自的输入相符。{}", numbers(proof)),
        ProofVerdict::NotReplayable(why) if proof.own.iter().all(Option::is_none) => {
            format!("{of}重放无法证实：{why}。")
        }
        ProofVerdict::NotReplayable(why) => format!("{of}重放无法证实：{why}。{}", numbers(proof)),
    }
}

/// The own errors of both sides.
fn numbers(proof: &Proof) -> String {
    let sides = proof.own.iter().zip(["目标", "标杆"]);
    let sides: Vec<String> =
        sides.filter_map(|(own, side)| Some(format!("{side} {}", own_error(own.as_ref()?)))).collect();
    let factor = larger_own_error(proof).map(|(is_target, factor)| match is_target {
        true => format!("；目标是标杆的 {factor} 倍"),
        false => format!("；标杆是目标的 {factor} 倍"),
    });
    let factor = factor.unwrap_or_default();
    format!("相对于高精度计算的自身误差：{}{factor}。", sides.join("，"))
}

fn own_error(own: &ReplayedError) -> String {
    if own.floor > 0.0 || own.remark.is_empty() {
        format!("{}（舍入可解释 {}）", format_short(own.error), format_short(own.floor))
    } else {
        own.remark.clone()
    }
}
