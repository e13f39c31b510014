//! Activation checkpointing: forward calls made a second time, for the backward pass.

use std::collections::HashMap;

use ulpscope_dump::CallKind;

use super::backward::{backward_calls, first_backward};
use super::names::{NO_PARENT, SideNames};

/// Which calls recompute earlier ones for the backward pass. Such a call has no backward call, and the other side makes
/// it less often. If modules were recorded, it runs in the backward pass of one; else earlier calls of it have backward
/// calls, or it is among recomputed calls.
pub(super) fn recomputed(
    names: &SideNames,
    here: &HashMap<(u32, CallKind), u32>,
    there: &HashMap<(u32, CallKind), u32>,
) -> Vec<bool> {
    let backward_of = backward_calls(names);
    let mut recomputed = vec![false; names.len()];
    for call in first_backward(names)..names.len() {
        let count =
            |counts: &HashMap<_, u32>, kind| counts.get(&(names.key[call], kind)).copied().unwrap_or(0);
        let parent = names.parent[call];
        let in_backward = parent != NO_PARENT && parent & 1 == 1;
        let among = call > 0 && recomputed[call - 1];
        recomputed[call] = names.kind[call] == CallKind::Forward
            && backward_of[call].is_none()
            && count(there, CallKind::Forward) < count(here, CallKind::Forward)
            && (in_backward
                || count(there, CallKind::Forward) > 0 && (count(here, CallKind::Backward) > 0 || among));
    }
    recomputed
}

/// How often each API or module is called, by direction.
pub(super) fn counts(names: &SideNames) -> HashMap<(u32, CallKind), u32> {
    let mut counts = HashMap::new();
    for (&key, &kind) in names.key.iter().zip(&names.kind) {
        *counts.entry((key, kind)).or_default() += 1;
    }
    counts
}
