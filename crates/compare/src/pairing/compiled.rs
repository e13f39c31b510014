//! Calls inside a module that the other side ran as a compiled region, at the level of modules: it recorded the module,
//! and nothing inside. At other levels the region is a call of its own, in the place of those inside.

use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Rank};

/// How a ledger begins its note about such regions.
const NOTE: &str = "a compiled region was entered";

/// Whether each call of a side is inside such a module, given the counterparts of the side's calls.
pub(super) fn inside(rank: &Rank, other: &Rank, counterpart: impl Fn(usize) -> Option<usize>) -> Vec<bool> {
    let count = rank.calls().len();
    let notes = other.ledger().map(|ledger| ledger.notes).unwrap_or_default();
    if other.level.as_deref() != Some("L0") || !notes.iter().any(|note| note.starts_with(NOTE)) {
        return vec![false; count];
    }
    let mut has_inner = vec![false; other.calls().len()];
    for parent in (0..has_inner.len()).filter_map(|call| other.parent_call(call)) {
        has_inner[parent] = true;
    }
    let is_region = |call: usize| {
        let is_module = ApiName::of(rank.base(rank.calls()[call].base)).is_module();
        is_module && counterpart(call).is_some_and(|other| !has_inner[other])
    };
    let is_inside = |call: usize| {
        let above = std::iter::successors(rank.parent_call(call), |&module| rank.parent_call(module));
        let is_seen = rank.calls()[call].kind == CallKind::ParametersGrad;
        !is_seen && counterpart(call).is_none() && above.take(count).any(is_region)
    };
    (0..count).map(is_inside).collect()
}
