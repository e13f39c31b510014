//! Reports as JSON, for programs.
//!
//! Strict JSON has no NaN and no infinity. A float that is not finite is written as one of the strings `"NaN"`,
//! `"Infinity"`, `"-Infinity"`, which JavaScript's `Number()` and Python's `float()` both convert back.
//! Other floats are written with as many digits as they need, a complex number as `[real, imaginary]`, a missing
//! value as `null`, a position as its row-major number. Characters that a terminal would act on are written as JSON
//! escapes, so that a document is safe to print.

use serde_json::{Map, Value};

use crate::cell::{Cell, Record};
use crate::escape;
use crate::table::Table;

/// The value as one line of JSON.
pub fn line(value: &Value) -> String {
    escape::json(&value.to_string()).into_owned()
}

/// The value as an indented document that ends with a newline.
pub fn document(value: &Value) -> String {
    escape::json(&format!("{value:#}\n")).into_owned()
}

impl Cell {
    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Cell::Missing => Value::Null,
            Cell::Text(text) => text.as_str().into(),
            Cell::Int(value) => integer(*value),
            Cell::Number(value) | Cell::Exact(value) | Cell::Share(value) => number(*value),
            Cell::ExactSingle(value) => number((*value).into()),
            Cell::Complex(re, im) => Value::Array(vec![number(*re), number(*im)]),
            Cell::Flag(value) => (*value).into(),
            Cell::List(items) => items.iter().map(Cell::to_json).collect(),
            Cell::Index { flat, .. } => (*flat).into(),
            Cell::Record(record) => record.to_json(),
        }
    }
}

impl Record {
    /// One JSON object, keys in the record's order.
    pub fn to_json(&self) -> Value {
        object(self.fields.iter().map(|(name, cell)| ((*name).to_owned(), cell.to_json())))
    }
}

impl Table {
    /// A list with one JSON object per row, keyed by the columns' names.
    pub fn to_json(&self) -> Value {
        let row_object = |cells: &[Cell]| {
            object(self.columns.iter().zip(cells).map(|(column, cell)| (column.name.clone(), cell.to_json())))
        };
        self.rows.iter().map(|row| row_object(&row.cells)).collect()
    }
}

fn object(fields: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Object(fields.collect::<Map<_, _>>())
}

fn integer(value: i128) -> Value {
    // No dtype is wider than 64 bits; a wider number from elsewhere keeps its digits as text.
    i64::try_from(value)
        .map(Value::from)
        .or_else(|_| u64::try_from(value).map(Value::from))
        .unwrap_or_else(|_| value.to_string().into())
}

/// A float as JSON.
pub fn number(value: f64) -> Value {
    if value.is_nan() {
        "NaN".into()
    } else if value == f64::INFINITY {
        "Infinity".into()
    } else if value == f64::NEG_INFINITY {
        "-Infinity".into()
    } else {
        value.into()
    }
}
