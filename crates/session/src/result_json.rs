//! `result.json`: the result of a comparison, for programs. docs/result-json.md describes it.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use ulpscope_compare::{
    ClassCounts, Counts, Divergence, Matching, Partnerless, Proof, ProofVerdict, RankOutcome, RankResult,
    Row, Share, Side,
};

use crate::deviating::{deviating, ranks_unlike_others};
use crate::explanation::explain;
use crate::{Compared, StyleName, advisor, region};

/// Changes with every incompatible change of the file.
const SCHEMA: &str = "ulpscope.compare/1";

/// The data of one pair of ranks besides its outcome.
#[derive(Debug, Default)]
pub struct RankExtras<'a> {
    /// The headings of its rows.
    pub columns: &'a [String],
    /// The first differing rows.
    pub rows: &'a [Row],
    /// The files with all rows.
    pub files: &'a [PathBuf],
}

/// The whole document. `extras` returns the data of each rank.
pub fn document<'a, S>(compared: &'a Compared<S>, extras: impl Fn(usize, &'a S) -> RankExtras<'a>) -> Value {
    let request = &compared.request;
    let explanation = explain(compared);
    let ranks = compared.ranks.iter().enumerate();
    let ranks = ranks.map(|(number, rank)| rank_value(request.style, rank, number, &extras));
    json!({
        "schema": SCHEMA,
        "ulpscope": env!("CARGO_PKG_VERSION"),
        "ok": compared.agreement.is_agree(),
        "agreement": compared.agreement.answer().word(),
        "reason": compared.agreement.to_string(),
        "style": request.style.to_string(),
        "match": match (request.matching, request.style) {
            (Some(matching), _) => matching.to_string(),
            (None, StyleName::Native) => Matching::default().to_string(),
            (None, _) => "style".to_owned(),
        },
        "target": request.target.display().to_string(),
        "golden": request.golden.display().to_string(),
        "directory": std::env::current_dir().ok().map(|path| path.display().to_string()),
        "target_data": request.target_data.as_ref().map(|path| path.display().to_string()),
        "golden_data": request.golden_data.as_ref().map(|path| path.display().to_string()),
        "explanation": explanation.text(request.language.words()),
        "language": request.language.code(),
        "statements": explanation,
        "noise": request.noise.as_ref().map(|path| path.display().to_string()),
        "summary": summary_value(compared),
        "first_divergence": compared.first_divergence().map(|(rank, first)| {
            let mut value = divergence_value(first);
            value.insert("step".to_owned(), json!(rank.step));
            value.insert("rank".to_owned(), json!(rank.target));
            Value::Object(value)
        }),
        "ranks": ranks.collect::<Vec<Value>>(),
        "deviating_ranks": ranks_unlike_others(&deviating(compared)),
        "lone_ranks": compared.lone_ranks,
        "problems": compared.problems.listed(),
        "notes": compared.notes,
        "seconds": compared.seconds,
    })
}

/// The numbers over all ranks.
pub fn summary_value<S>(compared: &Compared<S>) -> Value {
    let mut summary = counts_map(&compared.counts());
    let paired = compared.paired();
    let calls = paired.iter().map(|way| (way.how.to_owned(), json!(way.calls))).collect::<Map<_, _>>();
    let rows = paired.iter().map(|way| (way.how.to_owned(), json!(way.rows))).collect::<Map<_, _>>();
    summary.insert(
        "failing_calls".to_owned(),
        json!(compared.outcomes().map(|one| one.failing_calls).sum::<u64>()),
    );
    summary.insert("paired".to_owned(), Value::Object(calls));
    summary.insert("paired_rows".to_owned(), Value::Object(rows));
    summary.insert("only_in_target".to_owned(), json!(compared.only_in(Side::Target)));
    summary.insert("only_in_golden".to_owned(), json!(compared.only_in(Side::Golden)));
    summary.insert("problems".to_owned(), json!(compared.problem_count()));
    summary.insert(
        "bytes".to_owned(),
        json!(compared.outcomes().fold(0u64, |sum, one| sum.saturating_add(one.bytes))),
    );
    summary.insert("ranks".to_owned(), json!(compared.ranks.len()));
    summary.insert("classes".to_owned(), json!(compared.classes().as_ref().map(classes_map)));
    Value::Object(summary)
}

/// Calls by class, each by its name.
fn classes_map(classes: &ClassCounts) -> Map<String, Value> {
    classes.iter().map(|(class, calls)| (class.words().to_owned(), json!(calls))).collect()
}

fn counts_map(counts: &Counts) -> Map<String, Value> {
    let fields = [
        ("rows", counts.rows),
        ("passed", counts.passed),
        ("warned", counts.warned),
        ("failed", counts.failed),
        ("not_compared", counts.not_compared),
    ];
    fields.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect()
}

/// A divergence.
pub fn divergence_value(first: &Divergence) -> Map<String, Value> {
    let value = json!({
        "call": first.call,
        "golden_call": first.golden_call,
        "region": region::of(first),
        "module": first.module,
        "code": first.code,
        "inner_code": first.inner_code,
        "golden_code": first.golden_code,
        "golden_inner_code": first.golden_inner_code,
        "kind": first.finding.kind.words(),
        "entry": first.finding.entry,
        "source": first.shown.source,
        "why": first.why(),
        "confidence": first.finding.confidence,
        "line": first.line,
        "stack": first.stack,
        "direction": if first.finding.in_backward { "backward" } else { "forward" },
        "error": first.finding.measure.map(|measure| measure.error),
        "floor": first.finding.measure.map(|measure| measure.floor),
        "arguments": first.finding.measure.map(|measure| measure.arguments),
        "distance": first.finding.measure.and_then(|measure| measure.distance),
        "downstream": first.finding.downstream,
        "proof": first.finding.proof.as_ref().map(proof_value),
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// What replay says of a finding.
fn proof_value(proof: &Proof) -> Value {
    let wrong = match &proof.verdict {
        ProofVerdict::Proved(wrong) => Some(wrong.word()),
        ProofVerdict::Refuted | ProofVerdict::NotReplayable(_) => None,
    };
    let why = match &proof.verdict {
        ProofVerdict::NotReplayable(why) => Some(why),
        ProofVerdict::Proved(_) | ProofVerdict::Refuted => None,
    };
    json!({
        "verdict": proof.verdict.words(),
        "wrong_side": wrong,
        "why": why,
        "target": proof.own[0],
        "golden": proof.own[1],
    })
}

fn rank_value<'a, S>(
    style: StyleName,
    rank: &'a RankResult<S>,
    number: usize,
    extras: &impl Fn(usize, &'a S) -> RankExtras<'a>,
) -> Value {
    let mut value = json!({ "step": rank.step, "target": rank.target, "golden": rank.golden });
    let Value::Object(fields) = &mut value else { return value };
    match &rank.result {
        Err(error) => {
            fields.insert("error".to_owned(), json!(error.to_string()));
        }
        Ok((outcome, sink)) => {
            fields.insert("error".to_owned(), Value::Null);
            fields.extend(outcome_map(outcome));
            fields.insert("advice".to_owned(), json!(advisor::fields(style, outcome)));
            let extras = extras(number, sink);
            let files: Vec<String> = extras.files.iter().map(|file| file.display().to_string()).collect();
            fields.insert("files".to_owned(), json!(files));
            let rows = extras.rows.iter().map(|row| row_value(extras.columns, row));
            fields.insert("rows_to_look_at".to_owned(), rows.collect());
        }
    }
    value
}

fn outcome_map(outcome: &RankOutcome) -> Map<String, Value> {
    let mut fields = counts_map(&outcome.counts);
    let lone =
        |lone: &Partnerless| json!({ "side": lone.side.word(), "name": lone.name, "reason": lone.reason });
    let failing = outcome.failing.iter().map(|call| json!({ "call": call.name, "rows": call.rows }));
    let divergences: Vec<Map<String, Value>> = outcome.divergences.iter().map(divergence_value).collect();
    fields.insert("bytes".to_owned(), json!(outcome.bytes));
    fields.insert("first_divergence".to_owned(), json!(divergences.first()));
    fields.insert("divergences".to_owned(), json!(divergences));
    let refuted: Vec<Map<String, Value>> = outcome.refuted.iter().map(divergence_value).collect();
    fields.insert("refuted".to_owned(), json!(refuted));
    fields.insert("divergence_count".to_owned(), json!(outcome.divergence_count));
    fields.insert("classes".to_owned(), json!(outcome.classes.as_ref().map(classes_map)));
    let share = |share: Share| json!({ "differ": share.differ, "of": share.of });
    let origins = outcome
        .origins
        .map(|counts| json!({ "parameters": share(counts.parameters), "buffers": share(counts.buffers) }));
    fields.insert("origins".to_owned(), json!(origins));
    fields.insert("failing_calls".to_owned(), json!(outcome.failing_calls));
    fields.insert("failing".to_owned(), failing.collect());
    fields.insert("partnerless".to_owned(), outcome.partnerless.iter().map(lone).collect());
    fields.insert("undecided".to_owned(), json!(outcome.undecided));
    fields.insert(
        "notes".to_owned(),
        json!(outcome.notes.iter().map(ToString::to_string).collect::<Vec<String>>()),
    );
    fields.insert("problem_count".to_owned(), json!(outcome.problems.count()));
    fields.insert("problems".to_owned(), json!(outcome.problems.listed()));
    fields
}

/// A row by the names of its columns.
pub fn row_value(columns: &[String], row: &Row) -> Value {
    let cells = columns.iter().zip(&row.cells).map(|(column, cell)| (column.clone(), cell.to_json()));
    Value::Object(cells.collect())
}
