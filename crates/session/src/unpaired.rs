//! Calls, and entries of calls, that only one side has: how many, and of what.

use std::collections::HashMap;

use ulpscope_compare::{Partnerless, Side};
use ulpscope_dump::{CallKind, parse_key};

use crate::Compared;

/// Operations that are named.
const SHOWN: usize = 3;

/// How many there are on each side: `target only: 126 calls; golden only: 1 call and 2 entries`. Nothing where everything
/// has a counterpart.
pub(super) fn counted<S>(compared: &Compared<S>) -> Option<String> {
    let sides = [Side::Target, Side::Golden].into_iter().filter_map(|side| {
        let words = number_words(of(compared, side))?;
        Some(format!("{} only: {words}", side.word()))
    });
    let sides: Vec<String> = sides.collect();
    (!sides.is_empty()).then(|| sides.join("; "))
}

/// A sentence for each side, with the operations that occur most.
pub(super) fn by_operation<S>(compared: &Compared<S>) -> Vec<String> {
    let sides = [Side::Target, Side::Golden].into_iter().filter_map(|side| {
        let words = number_words(of(compared, side))?;
        let mut operations: Vec<(&str, usize)> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for lone in of(compared, side) {
            let base = parse_key(&lone.name).0;
            let at = *known.entry(base).or_insert(operations.len());
            match operations.get_mut(at) {
                Some((_, count)) => *count += 1,
                None => operations.push((base, 1)),
            }
        }
        let more = if operations.len() > SHOWN { ", …" } else { "" };
        // Stable: among equals, in the order of the run.
        operations.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown = operations.iter().take(SHOWN).map(|(base, count)| match count {
            1 => (*base).to_owned(),
            count => format!("{count} of {base}"),
        });
        let shown = shown.collect::<Vec<String>>().join(", ");
        Some(format!("Only in the {}, so not compared: {words} ({shown}{more}).", side.word()))
    });
    sides.collect()
}

fn of<S>(compared: &Compared<S>, side: Side) -> impl Iterator<Item = &Partnerless> {
    compared.outcomes().flat_map(|outcome| &outcome.partnerless).filter(move |lone| lone.side == side)
}

fn number_words<'a>(lone: impl Iterator<Item = &'a Partnerless>) -> Option<String> {
    let (mut calls, mut entries) = (0, 0);
    lone.for_each(|lone| match parse_key(&lone.name).2 {
        CallKind::Saved => entries += 1,
        _ => calls += 1,
    });
    let words = [(calls, "call", "calls"), (entries, "entry", "entries")];
    let words = words.into_iter().filter(|(count, _, _)| *count > 0);
    let words = words.map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(" and "))
}
