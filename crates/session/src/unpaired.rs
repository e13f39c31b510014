//! Calls, and entries of calls, that only one side has: how many, and of which operations.

use std::collections::HashMap;

use ulpscope_compare::{Partnerless, Side};
use ulpscope_dump::{CallKind, parse_key};

use crate::Compared;
use crate::statement::{Statement, UnpairedCount};

/// Operations that are named.
const SHOWN: usize = 3;

/// A sentence for each side, with the operations that occur most.
pub(super) fn by_operation<S>(compared: &Compared<S>) -> Vec<Statement> {
    let sides = [Side::Target, Side::Golden].into_iter().filter_map(|side| {
        let count = count(compared, side);
        if count == UnpairedCount::default() {
            return None;
        }
        let mut operations: Vec<(String, u64)> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for lone in of(compared, side) {
            let base = parse_key(&lone.name).0;
            let at = *known.entry(base).or_insert(operations.len());
            match operations.get_mut(at) {
                Some((_, count)) => *count += 1,
                None => operations.push((base.to_owned(), 1)),
            }
        }
        let has_more = operations.len() > SHOWN;
        // Stable: among equals, in the order of the run.
        operations.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        operations.truncate(SHOWN);
        Some(Statement::OnlyIn { side, count, operations, has_more })
    });
    sides.collect()
}

/// How many only that side has.
pub(super) fn count<S>(compared: &Compared<S>, side: Side) -> UnpairedCount {
    let mut count = UnpairedCount::default();
    of(compared, side).for_each(|lone| match parse_key(&lone.name).2 {
        CallKind::Saved => count.entries += 1,
        _ => count.calls += 1,
    });
    count
}

fn of<S>(compared: &Compared<S>, side: Side) -> impl Iterator<Item = &Partnerless> {
    compared.outcomes().flat_map(|outcome| &outcome.partnerless).filter(move |lone| lone.side == side)
}
