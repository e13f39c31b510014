//! The fields of a line of a dump, as the table shows them.

use ulpscope_dump::{Content, Entry, Frame};
use ulpscope_formats::json::Json;
use ulpscope_report::Cell;

use super::super::python_text;

/// The text for a missing value.
pub(super) const NAN: &str = "Nan";

/// The dtype, as the tool prints it.
pub(super) fn dtype(entry: &Entry) -> String {
    match &entry.content {
        Content::Tensor(tensor) => tensor.dtype.clone(),
        Content::Scalar { kind, .. } => format!("<class '{kind}'>"),
        Content::None | Content::Other(_) => String::new(),
    }
}

/// The shape, as the tool prints it.
pub(super) fn shape(entry: &Entry) -> String {
    match &entry.content {
        Content::Tensor(tensor) => python_text::sizes(tensor.shape.as_deref().unwrap_or_default()),
        _ => "[]".to_owned(),
    }
}

/// Max, min, mean and norm. For a scalar, all are its value.
pub(super) fn stats(entry: &Entry) -> [Json; 4] {
    match &entry.content {
        Content::Tensor(tensor) => tensor.stats.clone(),
        Content::Scalar { value, .. } => std::array::from_fn(|_| value.clone()),
        Content::None | Content::Other(_) => std::array::from_fn(|_| Json::Null),
    }
}

/// The digest. Scalars have none: the line has an empty list instead.
pub(super) fn digest(entry: &Entry) -> &str {
    match &entry.content {
        Content::Tensor(tensor) => tensor.digest.as_deref().unwrap_or("[]"),
        _ => "[]",
    }
}

/// A value in a table of 6.0. Spreadsheets have no cell type for non-finite values: these are text, with a tab at the
/// end, so that `-inf` does not become a formula.
pub(super) fn cell_of_6(value: &Json) -> Cell {
    match value {
        Json::Null => Cell::Missing,
        Json::Float(number) => number_of_6(*number),
        Json::Int(number) => Cell::Int(*number),
        Json::Bool(flag) => Cell::Flag(*flag),
        other => Cell::Text(python_text::text(other)),
    }
}

/// A number in a table of 6.0; see [`cell_of_6`].
pub(super) fn number_of_6(number: f64) -> Cell {
    match number {
        _ if number.is_finite() => Cell::Exact(number),
        _ if number.is_nan() => Cell::text("nan\t"),
        _ if number > 0.0 => Cell::text("inf\t"),
        _ => Cell::text("-inf\t"),
    }
}

/// The value if Python takes it for a number, which includes booleans.
pub(super) fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Bool(flag) => Some(f64::from(u8::from(*flag))),
        other => other.as_f64(),
    }
}

/// A stack as Python prints its list of lists.
pub(super) fn stack(frames: &[Frame]) -> String {
    let text = |text: &str| Json::Str(text.to_owned());
    let frame = |frame: &Frame| {
        let code = frame.code.as_deref().map_or(Json::Null, text);
        Json::List(vec![text(&frame.file), text(&frame.line), text(&frame.function), code])
    };
    python_text::repr(&Json::List(frames.iter().map(frame).collect()))
}
