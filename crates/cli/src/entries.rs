//! Entries of calls, for people and for programs.

use ulpscope_dump::{Content, Data, Entry, Role, TensorEntry};
use ulpscope_formats::json::{self, Json, Layout};
use ulpscope_report::{Cell, Record};

/// A value from a dump.
pub(crate) fn of_json(value: &Json) -> Cell {
    match value {
        Json::Null => Cell::Missing,
        Json::Bool(flag) => Cell::Flag(*flag),
        Json::Int(number) => Cell::Int(*number),
        Json::Float(number) => Cell::Number(*number),
        Json::Str(text) => Cell::text(text),
        Json::List(items) => Cell::List(items.iter().map(of_json).collect()),
        Json::Object(_) => {
            let mut text = Vec::new();
            // Writing to memory cannot fail.
            let _ = json::write(value, Layout::OneLine, &mut text);
            Cell::text(String::from_utf8_lossy(&text))
        }
    }
}

/// The kind and location of an entry, without its statistics.
pub(crate) fn of_entry(entry: &Entry) -> Record {
    let mut fields = vec![
        ("name", Cell::text(&entry.name)),
        ("role", Cell::text(entry.role.word())),
        ("path", Cell::text(&entry.path)),
    ];
    match &entry.content {
        Content::None => fields.push(("type", Cell::text("None"))),
        Content::Scalar { kind, value } => {
            fields.extend([("type", Cell::text(kind)), ("value", of_json(value))]);
        }
        Content::Other(value) => fields.extend([("type", Cell::text("other")), ("value", of_json(value))]),
        Content::Tensor(tensor) => {
            fields.extend([
                ("type", Cell::text("tensor")),
                ("dtype", dtype(tensor)),
                ("shape", shape(tensor)),
                ("data", Cell::text(data_word(&tensor.data))),
            ]);
            // Only our own dumps have it, for few entries.
            fields.extend(tensor.source.as_ref().map(|source| ("source", Cell::text(source))));
            fields.extend(tensor.recompute.then_some(("recompute", Cell::Flag(true))));
        }
    }
    Record::new(fields)
}

/// The dtype by its short name.
pub(crate) fn dtype(tensor: &TensorEntry) -> Cell {
    match tensor.dtype.strip_prefix("torch.").unwrap_or(&tensor.dtype) {
        "" => Cell::Missing,
        name => Cell::text(name),
    }
}

/// The dimensions.
pub(crate) fn shape(tensor: &TensorEntry) -> Cell {
    Cell::maybe(tensor.shape.as_ref(), |shape| {
        Cell::List(shape.iter().map(|&dim| Cell::count(dim)).collect())
    })
}

/// Where the elements are.
fn data_word(data: &Data) -> &'static str {
    match data {
        Data::None => "none",
        Data::File(_) | Data::Part(_) => "file",
        Data::Tensor(_) | Data::Assembled(_) => "whole",
        Data::Sample(_) => "sample",
        Data::Refused(_) => "refused",
    }
}

/// A call as a signature: `(float32[2, 3], dim=1) -> float32[2, 3]`.
pub(crate) fn signature(entries: &[Entry]) -> String {
    let side = |wanted: fn(Role) -> bool| -> Vec<String> {
        entries.iter().filter(|entry| wanted(entry.role)).map(brief).collect()
    };
    let inputs = side(|role| matches!(role, Role::Input | Role::Parameter));
    let outputs = side(|role| !matches!(role, Role::Input | Role::Parameter));
    match (inputs.as_slice(), outputs.as_slice()) {
        ([], []) => String::new(),
        ([], outputs) => outputs.join(", "),
        (inputs, []) => format!("({})", inputs.join(", ")),
        (inputs, outputs) => format!("({}) -> {}", inputs.join(", "), outputs.join(", ")),
    }
}

fn brief(entry: &Entry) -> String {
    let value = match &entry.content {
        Content::None => "None".to_owned(),
        Content::Scalar { kind, value } if kind == "str" => format!("\"{}\"", of_json(value)),
        Content::Scalar { value, .. } => of_json(value).to_string(),
        Content::Other(_) => "other".to_owned(),
        Content::Tensor(tensor) => format!("{}{}", dtype(tensor), shape(tensor)),
    };
    // The order shows positions, but not names.
    let named = entry.path.bytes().any(|byte| !byte.is_ascii_digit());
    if named { format!("{}={value}", entry.path) } else { value }
}
