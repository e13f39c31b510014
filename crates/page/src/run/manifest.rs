//! The manifest of the page of one run.

use std::path::Path;

use serde_json::{Value as Json, json};
use ulpscope_dump::{AFTER_LAST_STEP, Rank, RankPlace, Step};
use ulpscope_report::escape;

use super::MAX_FINDINGS;
use super::columns::COLUMNS;
use super::findings::{FINDINGS, RunFinding, RunFindingKind};
use super::rank_reading::{RankReading, RunCall};
use crate::comparison::SCHEMA;
use crate::first_screen::ChartPoint;
use crate::rows::{CHUNK_ROWS, ColumnNames};

/// Columns that the table shows at first.
const SHOWN: [&str; 10] = ["call", "entry", "dtype", "shape", "max", "min", "mean", "norm", "nan", "inf"];

/// Findings in words on the first screen.
const SAID: usize = 10;

fn label(step: &Step, place: &RankPlace, several: bool) -> String {
    if !several {
        return String::new();
    }
    let step = match step.number {
        Some(number) => format!("step{number} "),
        None if step.is_after_last => format!("{AFTER_LAST_STEP} "),
        None => String::new(),
    };
    let label = format!("{step}{}", place.name);
    escape::terminal(label.strip_suffix(" rank").unwrap_or(&label).trim_end()).into_owned()
}

/// A rank that cannot be read.
pub(super) fn unread_rank(step: &Step, place: &RankPlace, several: bool, error: &str) -> Json {
    json!({
        "label": label(step, place, several),
        "step": step.number,
        "rank": escape::terminal(&place.name),
        "error": escape::terminal(error),
        "rows": 0,
        "calls": 0,
        "counts": { "rows": 0 },
        "classes": null,
        "has_flow": false,
        "regions": 0,
        "first_call": null,
        "notes": [],
    })
}

/// A rank.
pub(super) fn rank(
    step: &Step,
    place: &RankPlace,
    several: bool,
    rank: &Rank,
    reading: &RankReading,
    has_flow: bool,
) -> Json {
    let bad = |call: &RunCall| call.finding.is_some_and(RunFindingKind::is_bad);
    let first = reading.calls.iter().position(bad);
    let first = first.or_else(|| reading.calls.iter().position(|call| call.finding.is_some()));
    let notes: Vec<String> = [rank.describe()]
        .iter()
        .chain(rank.notes())
        .map(|note| escape::terminal(note).into_owned())
        .collect();
    json!({
        "label": label(step, place, several),
        "step": step.number,
        "rank": escape::terminal(&place.name),
        "error": null,
        "rows": reading.rows,
        "calls": reading.calls.len(),
        "counts": { "rows": reading.rows },
        "classes": null,
        "has_flow": has_flow,
        "regions": 0,
        "first_call": first,
        "notes": notes,
    })
}

/// Norms by order of execution, for the first screen.
pub(super) fn chart(calls: &[RunCall]) -> Vec<ChartPoint> {
    let first = calls.iter().position(|call| call.finding.is_some_and(RunFindingKind::is_bad));
    let point = |(at, call): (usize, &RunCall)| {
        Some(ChartPoint {
            at: at as u64,
            error: call.shown().norm.filter(|norm| !norm.is_nan())?,
            expected: None,
            is_backward: matches!(call.place.pass, "backward" | "parameters_grad"),
            is_first: first == Some(at),
        })
    };
    calls.iter().enumerate().filter_map(point).collect()
}

/// The manifest, except for what depends on the parts.
pub(super) fn manifest(
    path: &Path,
    ranks: Vec<Json>,
    columns: &ColumnNames,
    findings: &[RunFinding],
    is_saved: bool,
) -> Json {
    let calls: u64 = ranks.iter().filter_map(|rank| rank["calls"].as_u64()).sum();
    let shown = findings.iter().take(SAID).map(|finding| {
        let label = ranks[finding.rank]["label"].as_str().unwrap_or_default();
        let place = if label.is_empty() { String::new() } else { format!("{label}: ") };
        json!({ "text": format!("{place}{}", escape::terminal(&finding.text)), "verbatim": false })
    });
    let mut lines: Vec<Json> = shown.collect();
    if lines.is_empty() {
        let text = "No NaN or infinity, no values close to overflow, no dead or saturated layers, and no gradients that \
                    stand out were found.";
        lines.push(json!({ "text": text, "verbatim": false }));
    }
    let columns = columns.names.iter().enumerate().map(|(number, name)| {
        let meaning = COLUMNS.iter().find(|(known, _)| known == name).map_or("", |(_, meaning)| *meaning);
        let is_number = columns.numbers[number];
        json!({
            "name": name,
            "meaning": meaning,
            "type": if is_number { "number" } else { "text" },
            "shown": SHOWN.contains(&name.as_str()),
        })
    });
    json!({
        "schema": SCHEMA,
        "ulpscope": env!("CARGO_PKG_VERSION"),
        "kind": "run",
        "language": "en",
        "target": escape::terminal(&path.display().to_string()),
        "golden": null,
        "noise": null,
        "style": "native",
        "headline": { "answer": "run", "sentence": sentence(calls, ranks.len(), findings, is_saved) },
        "sections": [{ "key": "findings", "heading": "Findings", "lines": lines }],
        "first": null,
        "divergences": 0,
        "divergence_count": 0,
        "findings": findings.iter().take(MAX_FINDINGS).map(RunFinding::to_json).collect::<Vec<Json>>(),
        "finding_count": findings.len(),
        "classes": null,
        "columns": columns.collect::<Vec<Json>>(),
        "chunk_rows": CHUNK_ROWS,
        "error_label": "norm",
        "view_command": null,
        "ranks": ranks,
    })
}

/// What was recorded, and how much of it is conspicuous.
fn sentence(calls: u64, ranks: usize, findings: &[RunFinding], is_saved: bool) -> String {
    let what = if is_saved { "tensors" } else { "calls" };
    let calls = grouped(calls);
    let recorded = match ranks {
        1 => format!("{calls} {what}"),
        _ => format!("{calls} {what} in {ranks} steps and ranks"),
    };
    let counted: Vec<String> = FINDINGS
        .into_iter()
        .filter_map(|kind| {
            let count = findings.iter().filter(|finding| finding.kind == kind).count();
            (count > 0).then(|| format!("{} × {}", grouped(count as u64), kind.word()))
        })
        .collect();
    if counted.is_empty() {
        format!("{recorded}; nothing conspicuous was found.")
    } else {
        format!("{recorded}; found: {}.", counted.join(", "))
    }
}

/// A count with its thousands grouped.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
