//! The ledger of a run's capture, for people and for programs.

use serde_json::{Map, Value, json};
use ulpscope_dump::{Ledger, Rank};

/// A line about how a rank ended if it was killed, and one from its ledger if it has one.
pub(crate) fn lines(rank: &Rank) -> Vec<String> {
    let mut lines = Vec::new();
    if rank.is_journal() {
        lines.push(
            "       a journal: the run was killed before the step was over, or is still going".to_owned(),
        );
    }
    lines.extend(rank.ledger().map(|ledger| format!("       {}", in_words(&ledger))));
    lines
}

/// `120 calls seen: 100 recorded, 19 skipped (12 not selected, 7 metadata), 1 failed; ended early: …`
fn in_words(ledger: &Ledger) -> String {
    let plural = if ledger.seen == 1 { "" } else { "s" };
    let mut text = format!("{} call{plural} seen: {} recorded", ledger.seen, ledger.recorded);
    if !ledger.raised.is_empty() {
        text.push_str(&format!(", {} raised", ledger.raised_calls()));
    }
    if !ledger.skipped.is_empty() {
        let reasons: Vec<String> =
            ledger.skipped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        text.push_str(&format!(", {} skipped ({})", ledger.skipped_calls(), reasons.join(", ")));
    }
    if !ledger.failed.is_empty() {
        text.push_str(&format!(", {} failed", ledger.failed_calls()));
    }
    if !ledger.unread.is_empty() {
        text.push_str(&format!("; {} tensors could not be read", ledger.unread_tensors()));
    }
    if let Some(why) = &ledger.ended {
        text.push_str(&format!("; ended early: {why}"));
    }
    text
}

/// The ledger as its file has it.
pub(crate) fn to_json(ledger: &Ledger) -> Value {
    let counts = |counts: &[(String, u64)]| -> Map<String, Value> {
        counts.iter().map(|(reason, count)| (reason.clone(), json!(count))).collect()
    };
    json!({
        "seen": ledger.seen,
        "recorded": ledger.recorded,
        "raised": counts(&ledger.raised),
        "skipped": counts(&ledger.skipped),
        "failed": counts(&ledger.failed),
        "unread": counts(&ledger.unread),
        "notes": ledger.notes,
        "ended": ledger.ended,
    })
}
