//! Backward calls go with their forward calls.
//!
//! A backward call has the name of its forward call, so the pairs of the forward pass give those of the backward
//! pass. That is surer than the order of backward calls, which the autograd engine chooses. The order decides only
//! where the forward call is not known: renumbered after activation checkpointing, or not recorded.

use ulpscope_dump::CallKind;

use super::How;
use super::links::Links;
use super::names::{Names, SideNames};

/// Pairs backward calls whose forward calls are paired; then, of those pairs that the order of calls suggests,
/// the ones that no pair of forward calls contradicts.
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
    for &(target, golden) in suggested {
        if !contradicted(names, links, target, golden) {
            links.join(target, golden, names.how(target, golden, How::Aligned));
        }
    }
}

/// Whether the forward calls of two backward calls have partners, hence others than each other.
pub(super) fn contradicted(names: &Names, links: &Links, target: usize, golden: usize) -> bool {
    let ours = names.target.forward(target).is_some_and(|forward| links.golden(forward).is_some());
    let theirs = names.golden.forward(golden).is_some_and(|forward| links.target(forward).is_some());
    ours && theirs
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
