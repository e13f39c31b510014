//! The manifest of the page of one run.

use std::path::Path;

use serde_json::{Value as Json, json};
use ulpscope_dump::{AFTER_LAST_STEP, Rank, RankPlace, Step};
use ulpscope_report::{escape, format_count};
use ulpscope_session::Language;

use super::MAX_FINDINGS;
use super::columns::COLUMNS;
use super::findings::{FINDINGS, RunFinding};
use super::rank_reading::{RankReading, RunCall};
use crate::comparison::SCHEMA;
use crate::first_screen::ChartPoint;
use crate::rows::{CHUNK_ROWS, ColumnNames};
use crate::words::{Noun, ScreenWords};

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
    let first = gravest(&reading.calls);
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

/// The first call with the gravest finding, which is also the first in the list.
fn gravest(calls: &[RunCall]) -> Option<usize> {
    let found = calls.iter().enumerate().filter_map(|(at, call)| Some((call.finding?, at)));
    found.min().map(|(_, at)| at)
}

/// Norms by order of execution, for the first screen.
pub(super) fn chart(calls: &[RunCall]) -> Vec<ChartPoint> {
    let first = gravest(calls);
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

/// What a run is, besides its numbers.
pub(super) struct RunAbout<'a> {
    pub(super) path: &'a Path,
    pub(super) noun: Noun,
    pub(super) language: Language,
    /// Tensors of floats of which it is not known whether all elements are finite.
    pub(super) unmeasured: u64,
}

/// The manifest, except for what depends on the parts.
pub(super) fn manifest(
    about: &RunAbout<'_>,
    ranks: Vec<Json>,
    columns: &ColumnNames,
    findings: &[RunFinding],
) -> Json {
    let words = ScreenWords::of(about.language);
    let calls: u64 = ranks.iter().filter_map(|rank| rank["calls"].as_u64()).sum();
    let shown = findings.iter().take(SAID).map(|finding| {
        let label = ranks[finding.rank]["label"].as_str().unwrap_or_default();
        let place = if label.is_empty() { String::new() } else { format!("{label}: ") };
        json!({ "text": format!("{place}{}", escape::terminal(&finding.text)), "verbatim": false })
    });
    let mut lines: Vec<Json> = shown.collect();
    if lines.is_empty() {
        lines.push(json!({ "text": words.nothing_found, "verbatim": false }));
    }
    if about.unmeasured > 0 {
        let text = words.unmeasured.replace("{count}", &format_count(about.unmeasured));
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
        "noun": about.noun.word(),
        "language": about.language.code(),
        "words": words.to_json(about.noun, about.language),
        "target": escape::terminal(&about.path.display().to_string()),
        "golden": null,
        "noise": null,
        "style": "native",
        "headline": { "answer": "run", "sentence": sentence(calls, &ranks, findings, about), "more": [] },
        "sections": [{ "key": "findings", "heading": words.findings_heading, "lines": lines }],
        "first": null,
        "divergences": 0,
        "divergence_count": 0,
        "findings": findings.iter().take(MAX_FINDINGS).map(RunFinding::to_json).collect::<Vec<Json>>(),
        "finding_count": findings.len(),
        "classes": null,
        "columns": columns.collect::<Vec<Json>>(),
        "chunk_rows": CHUNK_ROWS,
        "error_label": words.norm,
        "view_command": null,
        "ranks": ranks,
    })
}

/// What was recorded, and how much of it is conspicuous.
fn sentence(calls: u64, ranks: &[Json], findings: &[RunFinding], about: &RunAbout<'_>) -> String {
    let words = ScreenWords::of(about.language);
    let [one, many] = words.noun(about.noun);
    let what = words.counted.replace("{nouns}", if calls == 1 { one } else { many });
    let mut recorded = what.replace("{count}", &format_count(calls));
    if ranks.len() > 1 {
        let has_ranks = ranks.iter().any(|rank| rank["rank"] != ranks[0]["rank"]);
        let places = if has_ranks { words.in_ranks } else { words.in_steps };
        recorded += &places.replace("{count}", &format_count(ranks.len() as u64));
    }
    let counted: Vec<String> = FINDINGS
        .into_iter()
        .filter_map(|kind| {
            let count = findings.iter().filter(|finding| finding.kind == kind).count();
            (count > 0).then(|| format!("{} × {}", format_count(count as u64), words.class(kind.word())))
        })
        .collect();
    let found = match counted.is_empty() {
        true if about.unmeasured > 0 => words.nothing_measured.to_owned(),
        true => words.nothing.to_owned(),
        false => words.something.replace("{count}", &counted.join(words.comma)),
    };
    recorded + &found
}
