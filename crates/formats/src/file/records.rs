//! Reads whole files of records as plain values. For large files use [`crate::pkl_lines`] or [`crate::msprobe`]:
//! they keep one record at a time in memory.

use std::io::Write;

use ulpscope_tensor::{Scalar, View};

use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::json::{self, Json, Reader};
use crate::msprobe;
use crate::pkl_lines::{self, Kind, Line, LineWriter, Values};
use crate::value::Value;

/// A JSON document, unchanged.
pub(super) fn read_json(bytes: &Bytes) -> Result<Value, Error> {
    json::read(bytes).map(value_of)
}

/// Name → tensor if the lines contain every element; otherwise the list of lines, unchanged. A line that
/// cannot be read says why. The other lines are still read.
pub(super) fn read_lines(bytes: &Bytes) -> Result<Value, Error> {
    if let Some(Kind::HooksFull | Kind::HooksOverflow) = pkl_lines::kind(bytes) {
        return pkl_lines::to_value(bytes);
    }
    let mut lines = Vec::new();
    let mut at = 0;
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if !line.trim_ascii().is_empty() {
            let mut reader = Reader::within(line, index as u64 + 1, at);
            let read = reader.value().and_then(|value| reader.end().map(|()| value));
            lines.push(read.map_or_else(|error| Value::Unread(error.to_string()), value_of));
        }
        at += line.len() as u64 + 1;
    }
    Ok(Value::List(lines))
}

/// A value without tensors as an indented document.
pub(super) fn write_json(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    json::write(&json_of(value)?, msprobe::LAYOUT, out)
}

/// Tensors as torch_npu.hooks writes them, every element in the line; or a list without tensors, one line per item.
pub(super) fn write_lines(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    let tensors = value.tensors();
    let mut writer = LineWriter::new(out);
    if tensors.is_empty() {
        let Value::List(items) = value else {
            return Err(Error::whole(Fault::malformed("tensors, or a list of records", "neither")));
        };
        for item in items {
            writer.line(&Line::Other(json_of(item)?))?;
        }
    }
    for (name, tensor) in tensors {
        let view = tensor.view();
        writer.line(&Line::HooksTensor {
            values: values_of(&view).map_err(|error| error.in_part(&name))?,
            name: if name.is_empty() { "tensor".to_owned() } else { name },
            dtype: format!("torch.{}", view.dtype()),
            shape: view.shape().iter().map(|&dim| dim as u64).collect(),
        })?;
    }
    writer.finish()
}

fn values_of(view: &View<'_>) -> Result<Values, Error> {
    let elements = (0..view.len()).map(|index| view.get(index));
    if view.dtype().is_float() {
        return Ok(Values::Floats(elements.map(Scalar::to_f64).collect()));
    }
    let items = elements.map(|element| match element {
        Scalar::Int(number) => Ok(Json::Int(number)),
        Scalar::Bool(flag) => Ok(Json::Int(flag.into())),
        _ => Err(Error::whole(Fault::Unsupported(format!("a line has no way to write {}", view.dtype())))),
    });
    items.collect::<Result<_, _>>().map(Values::Mixed)
}

/// Depth is bounded by [`json::MAX_DEPTH`].
fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(flag) => Value::Bool(flag),
        Json::Int(number) => Value::Int(number),
        Json::Float(number) => Value::Float(number),
        Json::Str(text) => Value::Str(text),
        Json::List(items) => Value::List(items.into_iter().map(value_of).collect()),
        Json::Object(pairs) => {
            Value::Dict(pairs.into_iter().map(|(key, value)| (Value::Str(key), value_of(value))).collect())
        }
    }
}

fn json_of(value: &Value) -> Result<Json, Error> {
    let list = |items: &[Value]| items.iter().map(json_of).collect::<Result<_, _>>().map(Json::List);
    let no_place = |what: &str| Error::whole(Fault::Unsupported(format!("JSON has no place for {what}")));
    match value {
        Value::None => Ok(Json::Null),
        Value::Bool(flag) => Ok(Json::Bool(*flag)),
        Value::Int(number) => Ok(Json::Int(*number)),
        Value::Float(number) => Ok(Json::Float(*number)),
        Value::Str(text) => Ok(Json::Str(text.clone())),
        Value::List(items) | Value::Tuple(items) => list(items),
        Value::Dict(pairs) => {
            let pair = |(key, value): &(Value, Value)| match key {
                Value::Str(key) => Ok((key.clone(), json_of(value).map_err(|error| error.in_part(key))?)),
                _ => Err(no_place("a key that is not text")),
            };
            pairs.iter().map(pair).collect::<Result<_, _>>().map(Json::Object)
        }
        Value::Tensor(_) => Err(no_place("a tensor")),
        Value::Bytes(_) => Err(no_place("raw bytes")),
        Value::Opaque(what) | Value::Unread(what) => Err(no_place(what)),
    }
}
