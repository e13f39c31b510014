//! Some steps and ranks of a result. The verdict and the explanation are still those of the whole comparison, and the
//! page says so.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use ulpscope_dump::Select;

use crate::error::PageError;

/// Counts of rows in a summary, which are sums over its ranks.
const COUNTS: [&str; 5] = ["rows", "passed", "warned", "failed", "not_compared"];

/// Removes the other ranks from the document of a result. Returns what to know of it.
pub(crate) fn narrow(path: &Path, document: &mut Json, select: &Select) -> Result<Vec<String>, PageError> {
    if select.steps.is_empty() && select.ranks.is_empty() {
        return Ok(Vec::new());
    }
    let all = document["ranks"].as_array().cloned().unwrap_or_default();
    check("step", &select.steps, all.iter().filter_map(step), path)?;
    let of_steps = || all.iter().filter(|rank| is_chosen(&select.steps, step(rank)));
    check("rank", &select.ranks, of_steps().filter_map(number), path)?;
    let chosen: Vec<Json> =
        of_steps().filter(|rank| is_chosen(&select.ranks, number(rank))).cloned().collect();
    if chosen.len() == all.len() {
        return Ok(Vec::new());
    }
    let mut note = format!(
        "This page shows {} of {} pairs of ranks. The verdict and its explanation are those of the whole comparison.",
        chosen.len(),
        all.len()
    );
    let first = &document["first_divergence"];
    let is_of_first = |rank: &Json| rank["step"] == first["step"] && rank["target"] == first["rank"];
    if let Some(call) = first["call"].as_str().filter(|_| !chosen.iter().any(is_of_first)) {
        let step = first["step"].as_u64().map(|step| format!("step {step}, ")).unwrap_or_default();
        let rank = first["rank"].as_str().unwrap_or_default();
        note += &format!(" Its first divergence, {call}, is in {step}{rank}, which is not shown.");
    }
    for name in COUNTS {
        let sum: u64 = chosen.iter().filter_map(|rank| rank[name].as_u64()).sum();
        document["summary"][name] = json!(sum);
    }
    if document["summary"]["classes"].is_object() {
        document["summary"]["classes"] = classes(&chosen);
    }
    document["ranks"] = Json::Array(chosen);
    Ok(vec![note])
}

/// Calls by class, over ranks.
fn classes(ranks: &[Json]) -> Json {
    let mut sums: Map<String, Json> = Map::new();
    for (class, calls) in ranks.iter().filter_map(|rank| rank["classes"].as_object()).flatten() {
        let sum = sums.get(class).and_then(Json::as_u64).unwrap_or(0) + calls.as_u64().unwrap_or(0);
        sums.insert(class.clone(), json!(sum));
    }
    Json::Object(sums)
}

fn step(rank: &Json) -> Option<u64> {
    rank["step"].as_u64()
}

/// The number of a rank, from the name of its folder.
fn number(rank: &Json) -> Option<u64> {
    rank["target"].as_str()?.strip_prefix("rank")?.parse().ok()
}

fn is_chosen(numbers: &[u64], number: Option<u64>) -> bool {
    numbers.is_empty() || number.is_some_and(|number| numbers.contains(&number))
}

/// Fails for a number that does not exist.
fn check(
    what: &str,
    wanted: &[u64],
    present: impl Iterator<Item = u64>,
    path: &Path,
) -> Result<(), PageError> {
    let present: BTreeSet<u64> = present.collect();
    let Some(number) = wanted.iter().find(|number| !present.contains(number)) else { return Ok(()) };
    let listed: Vec<String> = present.iter().map(u64::to_string).collect();
    let found = match listed.as_slice() {
        [] => format!("no {what} with a number"),
        [one] => format!("only {what} {one}"),
        all => format!("{what}s {}", all.join(", ")),
    };
    Err(PageError::Selection { path: path.to_owned(), expected: format!("{what} {number}"), found })
}
