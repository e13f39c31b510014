//! Converts a cell to one of the few kinds of values that a spreadsheet has.
//!
//! A table in a terminal is rounded for people. A sheet is also read by programs, so numbers keep every digit and
//! a share stays a number between 0 and 1. Other kinds become the text that Python would print.
//! Invisible characters are [escaped](escape) in all kinds of sheets.

use std::borrow::Cow;
use std::fmt::Write;

use ulpscope_tensor::python_float_repr;

use crate::cell::Cell;
use crate::escape;
use crate::number::format_shortest_f32;

/// A cell of a sheet.
pub(crate) enum Value<'a> {
    Missing,
    Text(Cow<'a, str>),
    Int(i128),
    Number(f64),
    Flag(bool),
}

impl<'a> Value<'a> {
    /// The value of a cell. A complex number becomes `(1.0-2.0j)`, a list or position `[2, 8, 96]`, a record JSON.
    pub(crate) fn of(cell: &'a Cell) -> Value<'a> {
        match cell {
            Cell::Missing => Value::Missing,
            Cell::Text(text) => Value::Text(escape::sheet(text)),
            Cell::Int(value) => Value::Int(*value),
            Cell::Number(value) | Cell::Exact(value) | Cell::Share(value) => Value::Number(*value),
            Cell::ExactSingle(value) => Value::Number(decimal(*value)),
            Cell::Flag(value) => Value::Flag(*value),
            Cell::Complex(..) | Cell::List(_) | Cell::Index { .. } | Cell::Record(_) => {
                let mut text = String::new();
                push_python(cell, &mut text);
                let escaped = match escape::sheet(&text) {
                    Cow::Borrowed(_) => None,
                    Cow::Owned(escaped) => Some(escaped),
                };
                Value::Text(Cow::Owned(escaped.unwrap_or(text)))
            }
        }
    }
}

/// `True` or `False`.
pub(crate) fn flag(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// The double that prints with the same digits: 0.1 stays `0.1`, not `0.10000000149011612`.
fn decimal(value: f32) -> f64 {
    format_shortest_f32(value).parse().unwrap_or(f64::from(value))
}

fn push_python(cell: &Cell, out: &mut String) {
    match cell {
        Cell::Missing => out.push_str("None"),
        Cell::Text(text) => push_quoted(text, out),
        Cell::Int(value) => push_int(*value, out),
        Cell::Number(value) | Cell::Exact(value) | Cell::Share(value) => {
            out.push_str(&python_float_repr(*value));
        }
        Cell::ExactSingle(value) => out.push_str(&python_float_repr(decimal(*value))),
        Cell::Complex(re, im) => {
            let sign = if im.is_sign_negative() && !im.is_nan() { "" } else { "+" };
            let _ = write!(out, "({}{sign}{}j)", python_float_repr(*re), python_float_repr(*im));
        }
        Cell::Flag(value) => out.push_str(flag(*value)),
        Cell::List(items) => push_list(items, out, push_python),
        Cell::Index { coordinates, .. } => {
            push_list(coordinates, out, |coordinate, out| out.push_str(&coordinate.to_string()));
        }
        Cell::Record(record) => out.push_str(&record.to_json().to_string()),
    }
}

/// The digits of an integer. Sizes are written by the million, and formatting them takes several times as long.
fn push_int(value: i128, out: &mut String) {
    let Ok(mut rest) = u64::try_from(value) else {
        let _ = write!(out, "{value}");
        return;
    };
    // The largest has twenty digits.
    let mut digits = [b'0'; 20];
    let mut first = digits.len() - 1;
    loop {
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
        first -= 1;
    }
    digits[first..].iter().for_each(|&digit| out.push(char::from(digit)));
}

fn push_list<T>(items: &[T], out: &mut String, push: impl Fn(&T, &mut String)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push(item, out);
    }
    out.push(']');
}

fn push_quoted(text: &str, out: &mut String) {
    out.push('\'');
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_size_have_their_digits() {
        let large = i128::from(u64::MAX);
        for value in [0, 9, 10, 1024, large, large + 1, -1, i128::MIN, i128::MAX] {
            let mut text = String::new();
            push_int(value, &mut text);
            assert_eq!(text, value.to_string());
        }
    }
}
