//! Cells as the XML of a sheet.
//!
//! A text is in its own cell, not in a list of shared texts, which could only be written when all are known.
//! Characters that XML does not allow are written as in Excel, `_xFFFF_`. If a text looks like such an escape, its
//! first `_` is escaped. Control characters do not occur here: sheets escape them earlier.

use std::borrow::Cow;
use std::io::Write;

use ulpscope_tensor::python_float_repr;

use super::MAX_CELL_CHARACTERS;
use crate::sheet::value::{Value, flag};

/// Up to here a double represents every integer; larger ones are written as text.
const MAX_EXACT_INTEGER: u128 = 1 << 53;

/// Maximum characters that count for the width of a column.
pub(super) const WIDEST: usize = 60;

/// Smaller or larger numbers are written with an exponent.
const SMALLEST_PLAIN: f64 = 1e-5;
const LARGEST_PLAIN: f64 = 1e16;

/// A cell style, by its number in the list of styles.
#[derive(Clone, Copy)]
pub(super) struct Style(&'static str);

impl Style {
    pub(super) const PLAIN: Style = Style("");
    pub(super) const HEADER: Style = Style(" s=\"1\"");
    pub(super) const WARN: Style = Style(" s=\"2\"");
    pub(super) const BAD: Style = Style(" s=\"3\"");
}

/// Appends a cell. An empty one only has a fill.
pub(super) fn push_cell(out: &mut Vec<u8>, column: &str, row: &str, style: Style, value: Value<'_>) {
    let start = out.len();
    for piece in ["<c r=\"", column, row, "\"", style.0] {
        out.extend_from_slice(piece.as_bytes());
    }
    match value {
        Value::Text(text) if !text.is_empty() => push_text_content(out, &fit(&text)),
        Value::Missing | Value::Text(_) if style.0.is_empty() => out.truncate(start),
        Value::Missing | Value::Text(_) => out.extend_from_slice(b"/>"),
        Value::Flag(value) => {
            let digit = if value { b'1' } else { b'0' };
            out.extend_from_slice(b" t=\"b\"><v>");
            out.push(digit);
            out.extend_from_slice(b"</v></c>");
        }
        Value::Number(value) if value.is_finite() => {
            out.extend_from_slice(b"><v>");
            push_number(out, value);
            out.extend_from_slice(b"</v></c>");
        }
        Value::Int(value) if value.unsigned_abs() <= MAX_EXACT_INTEGER => {
            // Writing to memory does not fail.
            let _ = write!(out, "><v>{}</v></c>", value as i64);
        }
        Value::Number(value) => push_text_content(out, &python_float_repr(value)),
        Value::Int(value) => push_text_content(out, &value.to_string()),
    }
}

/// Appends the shortest digits that read back as the same double.
fn push_number(out: &mut Vec<u8>, value: f64) {
    let is_plain = value == 0.0 || (SMALLEST_PLAIN..LARGEST_PLAIN).contains(&value.abs());
    // Writing to memory does not fail.
    let _ = if is_plain { write!(out, "{value}") } else { write!(out, "{value:e}") };
}

fn push_text_content(out: &mut Vec<u8>, text: &str) {
    let is_blank = |character: char| matches!(character, ' ' | '\t' | '\n');
    let opening = if text.starts_with(is_blank) || text.ends_with(is_blank) {
        " t=\"inlineStr\"><is><t xml:space=\"preserve\">"
    } else {
        " t=\"inlineStr\"><is><t>"
    };
    out.extend_from_slice(opening.as_bytes());
    push_escaped(out, text);
    out.extend_from_slice(b"</t></is></c>");
}

/// Appends text as XML, with Excel's escapes for characters that XML does not allow.
pub(super) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for (place, &byte) in bytes.iter().enumerate() {
        if !IS_SPECIAL[usize::from(byte)] {
            continue;
        }
        let rest = &bytes[place..];
        let escape: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'"' => b"&quot;",
            b'_' if looks_escaped(rest) => b"_x005F_",
            _ => {
                if let Some((code, length)) = forbidden(rest) {
                    out.extend_from_slice(&bytes[done..place]);
                    // Writing to memory does not fail.
                    let _ = write!(out, "_x{code:04X}_");
                    done = place + length;
                }
                continue;
            }
        };
        out.extend_from_slice(&bytes[done..place]);
        out.extend_from_slice(escape);
        done = place + 1;
    }
    out.extend_from_slice(&bytes[done..]);
}

/// Bytes that may need an escape.
const IS_SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    special[b'&' as usize] = true;
    special[b'<' as usize] = true;
    special[b'>' as usize] = true;
    special[b'"' as usize] = true;
    special[b'_' as usize] = true;
    // The first byte of U+FFFE and U+FFFF.
    special[0xef] = true;
    special
};

/// The code and the length of a leading character that XML does not allow.
fn forbidden(bytes: &[u8]) -> Option<(u16, usize)> {
    match bytes {
        [0xef, 0xbf, 0xbe, ..] => Some((0xfffe, 3)),
        [0xef, 0xbf, 0xbf, ..] => Some((0xffff, 3)),
        _ => None,
    }
}

/// Whether a text begins like `_x0041_`, or will do so once the next character is escaped.
fn looks_escaped(bytes: &[u8]) -> bool {
    let [b'_', b'x', rest @ ..] = bytes else { return false };
    let Some((code, behind)) = rest.split_at_checked(4) else { return false };
    code.iter().all(u8::is_ascii_hexdigit) && (behind.starts_with(b"_") || forbidden(behind).is_some())
}

/// The text, shortened to the limit of a cell.
fn fit(text: &str) -> Cow<'_, str> {
    // UTF-8 never has fewer bytes than UTF-16 has units.
    if text.len() <= MAX_CELL_CHARACTERS {
        return Cow::Borrowed(text);
    }
    let length = text.encode_utf16().count();
    if length <= MAX_CELL_CHARACTERS {
        return Cow::Borrowed(text);
    }
    let mark = format!(" … [cut: {length} characters]");
    let mut room = MAX_CELL_CHARACTERS - mark.encode_utf16().count();
    let kept = text.chars().take_while(|character| {
        let fits = character.len_utf16() <= room;
        room = room.saturating_sub(character.len_utf16());
        fits
    });
    Cow::Owned(kept.chain(mark.chars()).collect())
}

/// Characters of the first line of a text, up to the limit.
pub(super) fn text_width(text: &str) -> usize {
    text.lines().next().map_or(0, |line| line.chars().take(WIDEST).count())
}

/// Characters of a value, up to the limit.
pub(super) fn value_width(value: &Value<'_>) -> usize {
    match value {
        Value::Missing => 0,
        Value::Text(text) => text_width(text),
        Value::Int(value) => value.to_string().len(),
        Value::Number(value) => python_float_repr(*value).len(),
        Value::Flag(value) => flag(*value).len(),
    }
}
