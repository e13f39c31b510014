//! The origins of NaN and infinities as text, and as JSON in the layout of msprobe's `anomaly_analyze_{ns}.json`.

use serde_json::{Map, Value, json};
use ulpscope_compare::overflow::{NonFiniteOrigin, OriginKind};

/// The document: a list of calls for each rank that has any, `{"rank_0": [{"op_name": …}]}`. With several steps, the
/// keys begin with the step.
pub fn anomaly_document(origins: &[NonFiniteOrigin]) -> Value {
    let several = origins.windows(2).any(|pair| pair[0].step != pair[1].step);
    let mut ranks: Map<String, Value> = Map::new();
    for origin in origins {
        let number = origin.rank_number.map_or_else(|| "0".to_owned(), |number| number.to_string());
        let step = origin.step.filter(|_| several).map(|step| format!("step_{step}_")).unwrap_or_default();
        let list = ranks.entry(format!("{step}rank_{number}")).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(node(origin));
        }
    }
    Value::Object(ranks)
}

fn node(origin: &NonFiniteOrigin) -> Value {
    let entries = origin.entries.iter().map(|entry| {
        let role = if entry.is_result { "output" } else { "input" };
        let about =
            json!({ "role": role, "dtype": entry.dtype, "shape": entry.shape, "not_finite": entry.what });
        (entry.name.clone(), about)
    });
    json!({
        "op_name": origin.call,
        "data_info": entries.collect::<Map<_, _>>(),
        "construct_info": origin.path,
        "stack_info": origin.stack,
        "kind": origin.kind.word(),
        "step": origin.step,
        "received_by": origin.received_by,
    })
}

/// What happened, in one sentence, and below it where.
pub fn anomaly_lines(origin: &NonFiniteOrigin) -> Vec<String> {
    let place = match (origin.step, origin.rank.as_str()) {
        (Some(step), "" | "rank") => format!("step {step}: "),
        (Some(step), rank) => format!("step {step}, {rank}: "),
        (None, "" | "rank") => String::new(),
        (None, rank) => format!("{rank}: "),
    };
    let (call, what) = (&origin.call, origin.what);
    let sentence = match &origin.kind {
        OriginKind::Made => format!("{call} returns {what} from finite inputs"),
        OriginKind::NanOfInfinities => {
            format!("{call} returns NaN, and its inputs have infinities and no NaN")
        }
        OriginKind::Outside(source) => format!("{call} gets {what} from outside: {source}"),
        OriginKind::Unrecorded => format!("{call} gets {what}, which no recorded call returned"),
    };
    let mut lines = vec![format!("{place}{sentence}")];
    if origin.path.len() > 1 {
        lines.push(format!("  in {}", origin.path[..origin.path.len() - 1].join(" > ")));
    }
    lines.extend(origin.stack.first().map(|frame| format!("  at {}", frame.replace('\n', " "))));
    lines.extend(origin.received_by.iter().map(|receiver| format!("  received by {receiver}")));
    lines
}
