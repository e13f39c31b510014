//! Backward calls are paired like their forward calls.
//!
//! A backward call has the name of its forward call, so the pairs of the forward pass determine those of the backward
//! pass. That is more reliable than the order of backward calls, which the autograd engine chooses. The order decides
//! only if the forward call is unknown: renumbered after activation checkpointing, or not recorded.

use ulpscope_dump::CallKind;

use super::How;
use super::links::Links;
use super::names::{Names, SideNames};

/// Pairs backward calls whose forward calls are paired; then those of the `suggested` pairs (by order) with an unknown
/// forward call: not recorded, or recomputed and renumbered.
pub(super) fn follow(names: &Names, suggested: &[(usize, usize)], links: &mut Links) {
    let backward_of = backward_calls(&names.golden);
    for target in 0..names.target.len() {
        if let Some(forward) = names.target.forward(target)
            && let Some((partner, _)) = links.golden(forward)
            && let Some(golden) = backward_of[partner]
        {
            links.join(target, golden as usize, names.how(target, golden as usize, How::Aligned));
        }
    }
    let (ours, theirs) = (first_backward(&names.target), first_backward(&names.golden));
    for &(target, golden) in suggested {
        let unknown_here = names
            .target
            .forward(target)
            .is_none_or(|forward| forward > ours && links.golden(forward).is_none());
        let unknown_there = names
            .golden
            .forward(golden)
            .is_none_or(|forward| forward > theirs && links.target(forward).is_none());
        if unknown_here || unknown_there {
            links.join(target, golden, names.how(target, golden, How::Aligned));
        }
    }
}

/// Where backward begins. A later unpaired forward call may be the recomputation of an earlier one.
pub(super) fn first_backward(side: &SideNames) -> usize {
    side.kind.iter().position(|&kind| kind == CallKind::Backward).unwrap_or(side.len())
}

/// The backward call of each forward call.
pub(super) fn backward_calls(side: &SideNames) -> Vec<Option<u32>> {
    let mut calls = vec![None; side.len()];
    for call in (0..side.len()).filter(|&call| side.kind[call] == CallKind::Backward) {
        if let Some(forward) = side.forward(call) {
            calls[forward].get_or_insert(call as u32);
        }
    }
    calls
}
