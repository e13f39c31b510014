//! The manifest of a comparison: the verdict, the explanation, and what the page holds.

use serde_json::{Map, Value as Json, json};
use ulpscope_compare::{COLUMNS, PROOF_COLUMNS};
use ulpscope_dump::{CallKind, parse_key};
use ulpscope_report::escape;
use ulpscope_session::Language;
use ulpscope_session::explanation::{Explanation, Headline};

use super::rank_page::{RankPage, row_of};
use crate::result::is_text;
use crate::rows::{CHUNK_ROWS, ColumnNames};
use crate::words::{Noun, ScreenWords};

/// Changes with every incompatible change of the data.
pub(crate) const SCHEMA: &str = "ulpscope.page/1";

/// Columns of the native style that the table shows at first. The class of a call is its mark.
const SHOWN: [&str; 11] = [
    "call",
    "entry",
    "verdict",
    "rel_l2",
    "expected",
    "max_abs",
    "max_ulp",
    "cosine",
    "target_dtype",
    "target_shape",
    "why",
];

/// Columns of older tools that the table hides at first, besides those of one side.
const HIDDEN_OF_OLDER: [&str; 4] = ["BENCH MD5", "Requires_grad Consistent", "NPU_Stack_Info", "Data_name"];

/// Whether the table shows a column of an older tool at first: the name, the numbers and the verdict.
fn is_shown_of_older(name: &str) -> bool {
    let is_of_side = name.starts_with("NPU ") || name.starts_with("Bench ");
    name == "NPU Name" || !is_of_side && !HIDDEN_OF_OLDER.contains(&name)
}

/// Notes in a page.
const MAX_NOTES: usize = 200;

/// The pairs of ranks of a result.
pub(super) fn ranks_of(document: &Json) -> &[Json] {
    document["ranks"].as_array().map_or(&[], Vec::as_slice)
}

/// The manifest, except for what depends on the parts.
pub(super) fn manifest(
    document: &Json,
    pages: &[RankPage],
    columns: &ColumnNames,
    language: Option<Language>,
) -> Json {
    let is_native = document["style"] == "native";
    let ranks = ranks_of(document);
    let several = pages.len() > 1;
    let is_saved = |page: &RankPage| page.calls.iter().all(|call| call.place.pass == "saved");
    let has_calls = pages.iter().any(|page| !page.calls.is_empty());
    let stored = document["language"].as_str().and_then(|code| code.parse::<Language>().ok());
    let language = language.or(stored).unwrap_or_default();
    let explanation = serde_json::from_value::<Explanation>(document["statements"].clone()).ok();
    let sections = sections(document, explanation.as_ref(), language);
    let headline = explanation.as_ref().and_then(|explanation| explanation.headline(language.words()));
    let headline = headline.unwrap_or_else(|| stored_headline(document));
    let is_tensors = has_calls && pages.iter().all(is_saved);
    let names = pages.iter().flat_map(|page| page.calls.iter().map(|call| call.name.as_str()));
    let noun = match is_tensors {
        true => Noun::of_saved(document["target"].as_str().unwrap_or_default(), names),
        false => Noun::Call,
    };
    let words = ScreenWords::of(language);
    let classes = class_counts(&document["summary"]["classes"]);
    json!({
        "schema": SCHEMA,
        "ulpscope": env!("CARGO_PKG_VERSION"),
        "kind": if is_tensors { "tensors" } else { "comparison" },
        "noun": noun.word(),
        "words": words.to_json(noun, language),
        "language": language.code(),
        "target": text(&document["target"]),
        "golden": text(&document["golden"]),
        "noise": document["noise"].as_str(),
        "style": text(&document["style"]),
        "headline": { "answer": document["agreement"], "sentence": headline.sentence, "more": headline.more },
        "sections": sections,
        "first": first(document, pages, ranks),
        "divergence_count": ranks.iter().filter_map(|rank| rank["divergence_count"].as_u64()).sum::<u64>(),
        "findings": [],
        "finding_count": 0,
        "counts": counts(&document["summary"]),
        "classes": classes,
        "ranks": pages.iter().zip(ranks).map(|(page, rank)| page.manifest(rank, several)).collect::<Vec<Json>>(),
        "columns": column_list(columns, is_native, is_tensors),
        "chunk_rows": CHUNK_ROWS,
        "error_label": if is_native { words.relative_error } else { "1 - cosine" },
        "notes": notes(document, ranks),
        "view_command": null,
    })
}

/// Rows by verdict.
pub(super) fn counts(of: &Json) -> Json {
    let names = ["rows", "passed", "warned", "failed", "not_compared"];
    let counted = names.into_iter().filter(|name| of[*name].is_u64());
    Json::Object(counted.map(|name| (name.to_owned(), of[name].clone())).collect::<Map<_, _>>())
}

/// Calls by class; none, if calls have no classes.
pub(super) fn class_counts(of: &Json) -> Option<Map<String, Json>> {
    let classes = of.as_object()?.iter().filter(|(_, calls)| calls.is_u64());
    Some(classes.map(|(class, calls)| (class.clone(), calls.clone())).collect())
}

/// The explanation in words; as stored, if its statements are of a different version.
fn sections(document: &Json, explanation: Option<&Explanation>, language: Language) -> Vec<Json> {
    let Some(explanation) = explanation else {
        let text = document["explanation"].as_str().unwrap_or_default();
        let line = |line: &str| json!({ "text": escape::terminal(line.trim()), "verbatim": false });
        let lines: Vec<Json> = text.lines().map(line).collect();
        return if lines.is_empty() {
            Vec::new()
        } else {
            vec![json!({ "key": "explanation", "heading": "", "lines": lines })]
        };
    };
    let sections = explanation.sections(language.words()).into_iter().map(|section| {
        let line = |(text, verbatim): (String, bool)| json!({ "text": text, "verbatim": verbatim });
        json!({
            "key": section.heading,
            "heading": section.title.trim_end_matches([':', '：']),
            "lines": section.lines.into_iter().map(line).collect::<Vec<Json>>(),
        })
    });
    sections.collect()
}

/// The first sentence of an explanation that was stored as text, or the reason of the verdict: lines that are not indented
/// are headings.
fn stored_headline(document: &Json) -> Headline {
    let explanation = document["explanation"].as_str().unwrap_or_default();
    let said = explanation.lines().find(|line| line.starts_with(' ')).map(str::trim);
    let sentence = said.or(document["reason"].as_str()).unwrap_or_default();
    Headline { sentence: escape::terminal(sentence).into_owned(), more: Vec::new() }
}

/// The rank of the first divergence.
pub(super) fn rank_of_first(document: &Json, ranks: &[Json]) -> Option<usize> {
    let first = &document["first_divergence"];
    let is_of = |rank: &Json| {
        rank["step"] == first["step"]
            && rank["target"] == first["rank"]
            && rank["first_divergence"]["call"] == first["call"]
    };
    if !first.is_object() {
        return None;
    }
    // Where some ranks are shown alone, that of the whole comparison may be in a different one.
    let has_own = |rank: &Json| rank["first_divergence"].is_object();
    ranks.iter().position(is_of).or_else(|| ranks.iter().position(has_own))
}

fn first(document: &Json, pages: &[RankPage], ranks: &[Json]) -> Json {
    let Some(rank) = rank_of_first(document, ranks) else { return Json::Null };
    let first = &ranks[rank]["first_divergence"];
    let mut value = divergence(first, rank, &pages[rank]);
    let proof = &first["proof"];
    value["golden"] = json!(first["golden_call"].as_str());
    value["golden_code"] = json!(first["golden_code"].as_str());
    // The rules of older tools judge rows, and know of no direction.
    let direction = match parse_key(name_of(first)).2 {
        CallKind::Backward | CallKind::ParametersGrad => "backward",
        _ => text(&first["direction"]),
    };
    value["direction"] = json!(direction);
    value["inputs"] = measure(&first["arguments"]);
    value["proof"] = match proof["verdict"].as_str() {
        None => Json::Null,
        Some(verdict) => {
            let (side, why) = (proof["wrong_side"].as_str(), proof["why"].as_str());
            json!({ "verdict": verdict, "wrong_side": side, "why": why })
        }
    };
    value
}

/// A text of the document, whatever is there.
fn text(value: &Json) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number of the document, or the text that stands for one.
fn measure(value: &Json) -> Json {
    if value.is_number() || value.is_string() { value.clone() } else { Json::Null }
}

/// The name of the call of a divergence. A file that is one tensor has no call; its entry has the name.
fn name_of(divergence: &Json) -> &str {
    let name = text(&divergence["call"]);
    if name.is_empty() { text(&divergence["entry"]) } else { name }
}

/// The number of the call of a divergence.
pub(super) fn call_of_divergence(divergence: &Json, page: &RankPage) -> Option<usize> {
    if !divergence.is_object() {
        return None;
    }
    let row = row_of(divergence);
    // Sheets of some older tools have no numbers of calls: there, the row says which it is.
    let at_row = || row.filter(|_| divergence["kind"] == "failed").and_then(|row| page.call_at(row));
    page.find(name_of(divergence), row).or_else(at_row)
}

/// A divergence of a rank.
fn divergence(of: &Json, rank: usize, page: &RankPage) -> Json {
    let row = row_of(of);
    let call = call_of_divergence(of, page);
    let row = row.filter(|&row| call.is_some() && page.call_at(row) == call);
    let error = if of["distance"].is_null() { &of["error"] } else { &of["distance"] };
    json!({
        "rank": rank,
        "call": call,
        "row": row,
        "name": name_of(of),
        "module": of["module"].as_str(),
        "code": of["code"].as_str(),
        "entry": text(&of["entry"]),
        "kind": text(&of["kind"]),
        "why": text(&of["why"]),
        "confidence": of["confidence"].as_f64().unwrap_or_default(),
        "error": measure(error),
        "expected": measure(&of["floor"]),
        "downstream": of["downstream"].as_u64().unwrap_or_default(),
    })
}

/// Every divergence that the result lists.
pub(super) fn divergences(document: &Json, pages: &[RankPage]) -> Vec<Json> {
    let ranks = ranks_of(document);
    let mut all = Vec::new();
    for (number, (of_rank, page)) in ranks.iter().zip(pages).enumerate() {
        let listed = of_rank["divergences"].as_array().into_iter().flatten().filter(|one| one.is_object());
        all.extend(listed.map(|one| divergence(one, number, page)));
    }
    all
}

/// `is_tensors`: whether each row is one tensor, whose entry has no name of its own.
fn column_list(columns: &ColumnNames, is_native: bool, is_tensors: bool) -> Vec<Json> {
    let known = || COLUMNS.iter().chain(&PROOF_COLUMNS);
    let column = |(number, name): (usize, &String)| {
        let meaning = known().find(|(known, _)| known == name).map(|(_, meaning)| *meaning);
        let is_number = columns.numbers[number] && !(is_native && is_text(name));
        let is_shown = if is_native { SHOWN.contains(&name.as_str()) } else { is_shown_of_older(name) };
        let is_shown = is_shown && !(is_native && is_tensors && name == "entry");
        json!({
            "name": name,
            "meaning": meaning.filter(|_| is_native).unwrap_or_default(),
            "type": if is_number { "number" } else { "text" },
            "shown": is_shown,
        })
    };
    columns.names.iter().enumerate().map(column).collect()
}

/// Everything to know of how it was done, each once.
fn notes(document: &Json, ranks: &[Json]) -> Vec<String> {
    let lists = [&document["lone_ranks"], &document["notes"], &document["problems"]];
    let of_ranks = ranks.iter().flat_map(|rank| [&rank["error"], &rank["notes"], &rank["problems"]]);
    let mut all: Vec<String> = Vec::new();
    for list in lists.into_iter().chain(of_ranks) {
        let texts = list.as_array().into_iter().flatten().chain(list.is_string().then_some(list));
        for text in texts.filter_map(Json::as_str) {
            let text = escape::terminal(text).into_owned();
            if all.len() < MAX_NOTES && !all.contains(&text) {
                all.push(text);
            }
        }
    }
    all
}
