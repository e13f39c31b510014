//! An entry of one side, as JSON.

use serde_json::{Map, Value as Json, json};
use ulpscope_dump::{Content, Entry};
use ulpscope_formats::json::{self as formats_json, Layout};
use ulpscope_kernels::{SUMMARY_KEYS, Stats};
use ulpscope_report::json::number;
use ulpscope_tensor::Scalar;

use super::said;

/// Characters of a plain value that are shown.
const MAX_VALUE: usize = 2000;

/// An entry. Statistics are measured where its elements are there, else as recorded.
pub(super) fn document(entry: &Entry, measured: Option<&Stats>) -> Json {
    let (dtype, shape, value, source, digest) = match &entry.content {
        Content::None => ("None".to_owned(), None, None, None, None),
        Content::Scalar { kind, value } => (kind.clone(), None, Some(text(value)), None, None),
        Content::Other(value) => ("object".to_owned(), None, Some(text(value)), None, None),
        Content::Tensor(tensor) => (
            tensor.dtype.strip_prefix("torch.").unwrap_or(&tensor.dtype).to_owned(),
            tensor.shape.clone(),
            None,
            tensor.source.as_deref().map(said),
            tensor.digest.as_deref().map(said),
        ),
    };
    let stats = match (&entry.content, measured) {
        (_, Some(stats)) => measured_stats(stats),
        (Content::Tensor(tensor), None) => {
            let summaries = SUMMARY_KEYS.iter().zip(&tensor.stats);
            let summaries = summaries.map(|(key, value)| (key.to_lowercase(), value));
            let further = tensor.further.iter().map(|(statistic, value)| (statistic.name.to_owned(), value));
            let recorded =
                summaries.chain(further).filter_map(|(name, value)| Some((name, recorded(value)?)));
            recorded.collect()
        }
        _ => Map::new(),
    };
    json!({
        "name": said(&entry.name),
        "dtype": said(&dtype),
        "shape": shape,
        "value": value,
        "source": source,
        "stats": stats,
        "digest": digest,
    })
}

/// A recorded statistic: a number, or nothing.
fn recorded(value: &formats_json::Json) -> Option<Json> {
    match value {
        formats_json::Json::Int(value) => Some(number(*value as f64)),
        formats_json::Json::Float(value) => Some(number(*value)),
        formats_json::Json::Bool(value) => Some(json!(u8::from(*value))),
        formats_json::Json::Str(value) => value.parse().ok().map(number),
        _ => None,
    }
}

fn measured_stats(stats: &Stats) -> Map<String, Json> {
    let scalar = |value: Option<Scalar>| value.map(|value| number(value.to_f64()));
    let count = |count: u64| Some(json!(count));
    let fields = [
        ("max", scalar(stats.max)),
        ("min", scalar(stats.min)),
        ("mean", stats.mean.map(number)),
        ("norm", Some(number(stats.norm))),
        ("nan", count(stats.nan)),
        ("pos_inf", count(stats.pos_inf)),
        ("neg_inf", count(stats.neg_inf)),
        ("zeros", count(stats.zeros)),
        ("subnormals", count(stats.subnormals)),
        ("finite_max", scalar(stats.finite_max)),
        ("finite_min", scalar(stats.finite_min)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A plain value as text.
fn text(value: &formats_json::Json) -> String {
    if let formats_json::Json::Str(text) = value {
        return shortened(text);
    }
    let mut bytes = Vec::new();
    match formats_json::write(value, Layout::OneLine, &mut bytes) {
        Ok(()) => shortened(&String::from_utf8_lossy(&bytes)),
        Err(_) => String::new(),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", said(&text[..end])),
        None => said(text),
    }
}
