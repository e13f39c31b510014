//! The origins of NaN and infinities as text, and as JSON in the layout of msprobe's `anomaly_analyze_{ns}.json`.

use serde_json::{Map, Value, json};
use ulpscope_compare::overflow::{DetectedOverflow, DetectedTensor, NonFiniteOrigin, OriginKind};
use ulpscope_formats::acl::StatusMeaning;
use ulpscope_report::{Cell, format_number};

use crate::words::Language;

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

/// What happened, in one sentence.
pub fn anomaly_sentence(origin: &NonFiniteOrigin) -> String {
    let (call, what) = (&origin.call, origin.what);
    match &origin.kind {
        OriginKind::Made => format!("{call} returns {what} from finite inputs"),
        OriginKind::MadeInPlace => {
            format!("{call} returns {what}; the input that it changes in place was recorded after the call")
        }
        OriginKind::NanOfInfinities => {
            format!("{call} returns NaN, and its inputs have infinities and no NaN")
        }
        OriginKind::Outside(source) => format!("{call} gets {what} from outside: {source}"),
        OriginKind::Unrecorded => format!("{call} gets {what}, which no recorded call returned"),
        OriginKind::ChangedMemory(source) => {
            format!(
                "{call} gets {what} in {source}: its memory was changed by something that was not recorded"
            )
        }
    }
}

/// What happened and in which step and rank, and below it where.
pub fn anomaly_lines(origin: &NonFiniteOrigin) -> Vec<String> {
    let mut lines = vec![format!("{}{}", place(origin.step, &origin.rank), anomaly_sentence(origin))];
    if origin.path.len() > 1 {
        lines.push(format!("  in {}", origin.path[..origin.path.len() - 1].join(" > ")));
    }
    lines.extend(origin.stack.first().map(|frame| format!("  at {}", frame.replace('\n', " "))));
    lines.extend(origin.received_by.iter().map(|receiver| format!("  received by {receiver}")));
    lines
}

fn place(step: Option<u64>, rank: &str) -> String {
    match (step, rank) {
        (Some(step), "" | "rank") => format!("step {step}: "),
        (Some(step), rank) => format!("step {step}, {rank}: "),
        (None, "" | "rank") => String::new(),
        (None, rank) => format!("{rank}: "),
    }
}

/// The key of the overflows that a device detected in the document.
pub const DEVICE_OVERFLOWS: &str = "device_overflows";

/// An overflow that a device detected, as JSON.
pub(crate) fn device_overflow(overflow: &DetectedOverflow) -> Value {
    let detected = &overflow.detected;
    let tensor = |tensor: &DetectedTensor| {
        let number = |value: Option<f64>| value.map(|value| Cell::Number(value).to_json());
        let stats = tensor.stats.as_ref();
        json!({
            "name": tensor.name,
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "max": number(stats.and_then(|stats| stats.max).map(|max| max.to_f64())),
            "min": number(stats.and_then(|stats| stats.min).map(|min| min.to_f64())),
            "mean": number(stats.and_then(|stats| stats.mean)),
            "nan": stats.map(|stats| stats.nan),
            "inf": stats.map(|stats| stats.infinite()),
        })
    };
    json!({
        "step": overflow.step,
        "rank": overflow.rank,
        "file": detected.file.display().to_string(),
        "timestamp": detected.timestamp,
        "unit": detected.unit,
        "status": detected.status,
        "meanings": detected.meanings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "task_id": detected.task_id,
        "stream_id": detected.stream_id,
        "op_name": overflow.call,
        "tensors": overflow.tensors.iter().map(tensor).collect::<Vec<_>>(),
    })
}

/// An overflow that a device detected: the operator, what happened, and the tensors.
pub(crate) fn device_overflow_lines(overflow: &DetectedOverflow, language: Language) -> Vec<String> {
    let detected = &overflow.detected;
    let place = place(overflow.step, &overflow.rank);
    let (task, stream) = (detected.task_id, detected.stream_id);
    let call = overflow.call.as_ref().map_or_else(
        || format!("the operator of task {task}, stream {stream} (its tensors were not dumped)"),
        |call| format!("{call} (task {task}, stream {stream})"),
    );
    let status: Vec<String> = detected.status.iter().map(|word| format!("0x{word:x}")).collect();
    let mut lines =
        vec![format!("{place}{call}: {} detected an overflow, status {}", detected.unit, status.join(" "))];
    let words = |meaning: &StatusMeaning| match language {
        Language::English => meaning.to_string(),
        Language::Chinese => meaning.chinese(),
    };
    lines.extend(detected.meanings.iter().map(|meaning| format!("  {}", words(meaning))));
    for tensor in &overflow.tensors {
        let mut words = format!("  {} {} {:?}", tensor.name, tensor.dtype, tensor.shape);
        if let Some(stats) = &tensor.stats {
            let extreme = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_number);
            let (max, min) = (stats.max.map(|max| max.to_f64()), stats.min.map(|min| min.to_f64()));
            words.push_str(&format!(
                ": max {}, min {}, mean {}, {} NaN, {} infinite",
                extreme(max),
                extreme(min),
                extreme(stats.mean),
                stats.nan,
                stats.infinite()
            ));
        }
        lines.push(words);
    }
    lines.push(format!("  op-debug file: {}", detected.file.display()));
    lines
}
