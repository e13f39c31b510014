//! What is to be thought of what was measured.

use ulpscope_dump::{Entry, Role};
use ulpscope_report::{Cell, Emphasis, format_number};

use super::measure::{Basis, Measured, Miss, State};
use crate::style::{Finding, FindingKind, Judged, Row, Verdict};

/// The verdict in a word, and what it counts as.
pub(super) fn verdict_of(state: &State) -> (&'static str, Verdict) {
    match state {
        State::Equal => ("equal", Verdict::Pass),
        State::Close(_) => ("close", Verdict::Pass),
        State::Far(_) | State::Different(_) => ("differs", Verdict::Fail),
        State::NonFinite(_) => ("not finite", Verdict::Fail),
        State::BothNan(_) => ("both NaN", Verdict::Warn),
        State::Unknown(_) => ("not compared", Verdict::NotCompared),
    }
}

/// The reason of a verdict, for a person. Of a miss it is the evidence: how it compares to the limit is known once
/// the calls before are.
pub(super) fn why(measured: &Measured) -> String {
    let reason = match &measured.state {
        State::Equal | State::Close(_) => String::new(),
        State::Far(_) => match &measured.comparison {
            Some(comparison) => {
                let distances = &comparison.distances;
                let (distance, error) = (format_number(distances.rel_l2), format_number(distances.max_abs));
                format!("relative distance {distance}, largest error {error}")
            }
            None => "by statistics".to_owned(),
        },
        State::Different(how) | State::Unknown(how) => how.clone(),
        State::NonFinite(0) => "NaN or infinite statistics on one side only".to_owned(),
        State::NonFinite(count) => format!("{count} elements are NaN or infinite on one side only"),
        State::BothNan(0) => "NaN among the statistics of both sides: nothing can be said".to_owned(),
        State::BothNan(count) => format!("{count} elements are NaN on both sides; all others agree"),
    };
    match &measured.reshaped {
        None => reason,
        Some(shapes) if reason.is_empty() => format!("{shapes}, compared in order"),
        Some(shapes) => format!("{reason}; {shapes}, compared in order"),
    }
}

/// What a failing entry says of its call.
pub(super) fn finding(row: usize, entry: &Entry, measured: &Measured, why: String) -> Finding {
    let made_here = entry.role == Role::Output;
    let kind = match (&measured.state, made_here) {
        (State::Different(_), _) if measured.basis != Basis::Digest && measured.comparison.is_none() => {
            FindingKind::DifferentProgram
        }
        (State::NonFinite(_), true) => FindingKind::NonFiniteBornHere,
        (_, true) => FindingKind::DivergedHere,
        (_, false) => FindingKind::OriginDiffers,
    };
    // What the dump does not hold cannot make one sure.
    let confidence = match measured.basis {
        Basis::Elements | Basis::Value => 0.95,
        Basis::Statistics => 0.7,
        Basis::Digest | Basis::Nothing => 0.5,
    };
    let needed = match measured.state {
        State::Far(Miss { times, .. }) => Some(times * measured.limit),
        _ => None,
    };
    Finding { row, needed, limit: measured.limit, kind, entry: entry.name.clone(), why, confidence }
}

/// Holds misses against the coarsest limit so far: what was rounded to bfloat16 once is no better for being float32
/// afterwards.
pub(super) fn settle(judged: &mut Judged, coarsest: f64) {
    let rows = &mut judged.rows;
    judged.findings.retain_mut(|finding| {
        let Some(needed) = finding.needed else { return true };
        let limit = finding.limit.max(coarsest);
        if needed <= limit {
            forgive(&mut rows[finding.row]);
            return false;
        }
        let times = needed / limit;
        finding.why = format!("{} × the limit: {}", format_number(times), finding.why);
        rows[finding.row].cells[WHY] = Cell::text(finding.why.as_str());
        // An error that barely passes the limit makes nobody sure.
        if times.is_finite() {
            finding.confidence *= times / (1.0 + times);
        }
        true
    });
}

/// Where the verdict stands in a row, and its reason.
const VERDICT: usize = 2;
const WHY: usize = 3;

/// Takes a failing verdict back: the row is within the limit of what went before.
fn forgive(row: &mut Row) {
    row.cells[VERDICT] = Cell::text("close");
    row.cells[WHY] = Cell::Missing;
    row.verdict = Verdict::Pass;
    row.emphasis = emphasis(row.verdict);
}

/// Colour for a verdict.
pub(super) fn emphasis(verdict: Verdict) -> Emphasis {
    match verdict {
        Verdict::Fail => Emphasis::Bad,
        Verdict::Warn => Emphasis::Warn,
        Verdict::Pass | Verdict::NotCompared => Emphasis::Plain,
    }
}
