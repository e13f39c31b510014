//! Plain values and objects: equal, or not.

use ulpscope_dump::Content;
use ulpscope_formats::json::Json;

use crate::fact::{Fact, Plain};
use crate::native::evidence::measure::State;

/// Plain values: equal or not.
pub(in crate::native) fn compare_values(target: &Content, golden: &Content) -> State {
    match (target, golden) {
        (Content::None, Content::None) => State::Equal,
        (Content::Scalar { kind, value }, Content::Scalar { kind: other_kind, value: other }) => {
            // Their text stands for something else: equal text of another kind is a coincidence.
            let is_described = |kind: &str| kind == "bytes" || kind == "object";
            let may_be_equal = kind == other_kind || !is_described(kind) && !is_described(other_kind);
            if may_be_equal && (value == other || numbers_equal(value, other)) {
                State::Equal
            } else if kind == "torch.device" && other_kind == "torch.device" {
                State::Unknown(Fact::Devices)
            } else {
                State::Differs(Fact::Values { target: plain(target), golden: plain(golden) })
            }
        }
        // Groups, streams, memory formats: numbers of another run.
        (Content::Other(one), Content::Other(other)) if one == other => State::Equal,
        (Content::Other(_), Content::Other(_)) => State::Unknown(Fact::Objects),
        (one, other) => State::Unlike(Fact::Kinds { target: plain(one), golden: plain(other) }),
    }
}

/// Whether an integer and a float, or two NaN, are the same number. Integers are compared exactly: a float has no room for the last
/// digits of a large one, such as a seed.
fn numbers_equal(one: &Json, other: &Json) -> bool {
    if matches!((one, other), (Json::Int(_), Json::Int(_))) {
        return one == other;
    }
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other || (one.is_nan() && other.is_nan()),
        _ => false,
    }
}

/// What stands in an entry.
pub(in crate::native) fn plain(content: &Content) -> Plain {
    match content {
        Content::None => Plain::None,
        Content::Tensor(tensor) => Plain::Tensor(tensor.dtype.clone()),
        Content::Scalar { kind, value } => Plain::Scalar { kind: kind.clone(), json: shown(value) },
        Content::Other(_) => Plain::Object,
    }
}

/// Whether a plain value is an infinite number.
pub(in crate::native) fn is_infinite(content: &Content) -> bool {
    matches!(content, Content::Scalar { value, .. } if value.as_f64().is_some_and(f64::is_infinite))
}

/// A value short enough for a cell.
fn shown(value: &Json) -> String {
    const SHOWN: usize = 80;
    let mut text = Vec::new();
    let written = ulpscope_formats::json::write(value, ulpscope_formats::json::Layout::OneLine, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    match (written, text.char_indices().nth(SHOWN)) {
        (Ok(()), None) => text,
        (Ok(()), Some((end, _))) => format!("{}…", &text[..end]),
        (Err(_), _) => value.describe(),
    }
}
