//! Values as Python prints them: the older tools fill their tables with `str()` of their values.

use std::fmt::Write;

use ulpscope_formats::json::{Json, python_float_repr};

/// `str()` of a value of a dump: text as it stands, everything else like [`repr`].
pub fn text(value: &Json) -> String {
    match value {
        Json::Str(text) => text.clone(),
        other => repr(other),
    }
}

/// `repr()` of a value of a dump.
pub fn repr(value: &Json) -> String {
    let mut out = String::new();
    push_repr(value, &mut out);
    out
}

/// Appends [`repr`]. Its depth is that of the JSON, which has a limit.
fn push_repr(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("None"),
        Json::Bool(flag) => out.push_str(truth(*flag)),
        Json::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Json::Float(number) => out.push_str(&python_float_repr(*number)),
        Json::Str(text) => push_quoted(text, out),
        Json::List(items) => push_list(items, out, push_repr),
        Json::Object(pairs) => {
            out.push('{');
            for (index, (key, value)) in pairs.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                push_quoted(key, out);
                out.push_str(": ");
                push_repr(value, out);
            }
            out.push('}');
        }
    }
}

/// `str()` of a list of integers: `[2, 8, 96]`.
pub(crate) fn sizes(sizes: &[u64]) -> String {
    let mut out = String::new();
    push_list(sizes, &mut out, |size, out| {
        let _ = write!(out, "{size}");
    });
    out
}

/// `str()` of a list of texts.
pub(crate) fn texts<T: AsRef<str>>(texts: &[T]) -> String {
    let mut out = String::new();
    push_list(texts, &mut out, |text, out| push_quoted(text.as_ref(), out));
    out
}

/// `str()` of a truth value.
pub(crate) fn truth(flag: bool) -> &'static str {
    if flag { "True" } else { "False" }
}

/// `str(type(value))` of what Python's JSON reader makes of a value.
pub(crate) fn class(value: &Json) -> &'static str {
    match value {
        Json::Null => "<class 'NoneType'>",
        Json::Bool(_) => "<class 'bool'>",
        Json::Int(_) => "<class 'int'>",
        Json::Float(_) => "<class 'float'>",
        Json::Str(_) => "<class 'str'>",
        Json::List(_) => "<class 'list'>",
        Json::Object(_) => "<class 'dict'>",
    }
}

/// `float('{:.12f}'.format(value))`: how the older tools round what they measured.
pub(crate) fn twelve_decimals(value: f64) -> f64 {
    format!("{value:.12}").parse().unwrap_or(value)
}

fn push_list<T>(items: &[T], out: &mut String, mut push: impl FnMut(&T, &mut String)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        push(item, out);
    }
    out.push(']');
}

/// `repr()` of a text: single quotes, unless only those are in it.
fn push_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    // Stacks are most of the text of a result, and few of their characters need an escape.
    let plain = |c: char| matches!(c, ' '..='~') && c != '\\' && c != quote;
    let mut rest = text;
    while let Some(at) = rest.find(|c| !plain(c)) {
        out.push_str(&rest[..at]);
        let mut behind = rest[at..].chars();
        if let Some(c) = behind.next() {
            push_escaped(c, quote, out);
        }
        rest = behind.as_str();
    }
    out.push_str(rest);
    out.push(quote);
}

/// Appends a character of a quoted text that may need an escape.
fn push_escaped(c: char, quote: char, out: &mut String) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        c if printable(c) => out.push(c),
        c => {
            let code = u32::from(c);
            let _ = match code {
                0..=0xff => write!(out, "\\x{code:02x}"),
                0x100..=0xffff => write!(out, "\\u{code:04x}"),
                _ => write!(out, "\\U{code:08x}"),
            };
        }
    }
}

/// Whether Python shows a character as itself: no control, format or private one, and no blank but the space.
fn printable(c: char) -> bool {
    let hidden = c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..);
    !hidden
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn quotes_follow_python() {
        assert_eq!(texts(&["a", "it's", "\"q\" it's", "a\nb\\"]), r#"['a', "it's", '"q" it\'s', 'a\nb\\']"#);
        assert_eq!(
            texts(&["\u{7f}\u{a0}é\u{200b}\u{1f600}\u{e0001}"]),
            "['\\x7f\\xa0é\\u200b😀\\U000e0001']"
        );
    }

    #[test]
    fn values_look_like_pythons() {
        let value = Json::List(vec![Json::Int(1), Json::Null, Json::Bool(true), Json::Float(1e-5)]);
        assert_eq!(text(&value), "[1, None, True, 1e-05]");
        assert_eq!(text(&Json::Str("cpu".to_owned())), "cpu");
        assert_eq!(sizes(&[]), "[]");
        assert_eq!(twelve_decimals(0.123_456_789_012_345_6), 0.123_456_789_012);
        assert!(twelve_decimals(f64::INFINITY).is_infinite());
    }
}
