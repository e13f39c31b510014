//! Reads the usual lines of a run at the speed of skipping them.
//!
//! A training step waits for this. Nearly every line has its keys in the usual order, without spaces between them
//! and without escapes in names, and needs only a comparison for each key. Any other line is left to
//! [`super::line`], which reads it or reports what is wrong with it.

use std::borrow::Cow;

use ulpscope_formats::json;

use super::line::{Line, MAX_NAME_BYTES, ReadCall, Span};
use super::scan::Trust;

/// Digits of a number that always fits.
const MAX_DIGITS: usize = 18;

/// Reads a line at offset `start` of the file, if it has the usual form.
pub(super) fn read(text: &[u8], start: u64, trust: Trust) -> Option<Line<'_>> {
    let mut cursor = Cursor { text, at: 0, start, trust };
    let line = if cursor.takes(b"{\"call\":") {
        let name_at = cursor.name()?;
        let id = cursor.field(b",\"id\":", Cursor::number)?;
        let stack = cursor.field(b",\"stack\":", Cursor::number)?;
        let parent = cursor.field(b",\"parent\":", Cursor::name_or_null)?.flatten();
        let data = cursor.field(b",\"data\":", Cursor::last_value)?;
        let quoted = cursor.text_of(name_at);
        let name = Cow::Borrowed(std::str::from_utf8(&quoted[1..quoted.len() - 1]).ok()?);
        Line::Call(ReadCall { name, name_at, id, stack, parent, data })
    } else if cursor.takes(b"{\"end\":") {
        let id = cursor.number()?;
        let last = cursor.takes(b",\"last\":true");
        Line::End { id, last, data: cursor.field(b",\"data\":", Cursor::last_value)? }
    } else if cursor.takes(b"{\"more\":") {
        Line::More { id: cursor.number()?, data: cursor.field(b",\"data\":", Cursor::last_value)? }
    } else {
        return None;
    };
    (cursor.takes(b"}") && cursor.at == text.len()).then_some(line)
}

/// The position in a line.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// The offset of the line in the file.
    start: u64,
    trust: Trust,
}

impl<'a> Cursor<'a> {
    /// Skips `expected` and returns true, if it comes next.
    fn takes(&mut self, expected: &[u8]) -> bool {
        let next = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(expected));
        if next {
            self.at += expected.len();
        }
        next
    }

    /// The value after a key, if the key comes next. Nothing at all if the value is unusual.
    fn field<T>(&mut self, key: &[u8], read: impl Fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.takes(key) { read(self).map(Some) } else { Some(None) }
    }

    fn number(&mut self) -> Option<u64> {
        let rest = self.text.get(self.at..)?;
        let digits = rest.iter().take(MAX_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > MAX_DIGITS || (rest[0] == b'0' && digits > 1) {
            return None;
        }
        self.at += digits;
        Some(rest[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
    }

    fn value(&mut self) -> Option<Span> {
        let start = self.at;
        if self.text.get(start)?.is_ascii_whitespace() {
            return None;
        }
        self.at = json::end_of_value(self.text, start)?;
        let length = u32::try_from(self.at - start).ok()?;
        Some(Span { start: self.start + start as u64, length })
    }

    /// The value that fills the rest of the line except for its closing bracket.
    fn last_value(&mut self) -> Option<Span> {
        if self.trust == Trust::Foreign {
            return self.value();
        }
        let start = std::mem::replace(&mut self.at, self.text.len().checked_sub(1)?);
        let length = u32::try_from(self.at.checked_sub(start)?).ok()?;
        Some(Span { start: self.start + start as u64, length })
    }

    /// Text without escapes.
    fn name(&mut self) -> Option<Span> {
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        let span = self.value()?;
        let quoted = self.text_of(span);
        let plain = !quoted.contains(&b'\\') && std::str::from_utf8(quoted).is_ok();
        (plain && u64::from(span.length) <= MAX_NAME_BYTES).then_some(span)
    }

    fn name_or_null(&mut self) -> Option<Option<Span>> {
        if self.takes(b"null") { Some(None) } else { self.name().map(Some) }
    }

    fn text_of(&self, span: Span) -> &'a [u8] {
        let start = (span.start - self.start) as usize;
        &self.text[start..start + span.length as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::line;
    use super::*;

    const LINES: [&str; 8] = [
        r#"{"call":"Functional.linear.0.forward","id":5,"stack":12,"parent":"Module.fc","data":{"input_args":[{"a":-1e5}]}}"#,
        r#"{"call":"é","id":0,"parent":null}"#,
        r#"{"call":"x","data":[NaN,"}"]}"#,
        r#"{"call":"x"}"#,
        r#"{"end":5,"last":true,"data":{"output":[null]}}"#,
        r#"{"end":123456789012345678}"#,
        r#"{"more":9,"data":{}}"#,
        r#"{"end":5,"data":7}"#,
    ];

    /// Bytes that change the structure of a line.
    const REPLACEMENTS: &[u8] = b"\"[]{},:\\ 09-.en\x00\x1f\xff";

    /// Whether it was read; then the full reader must return the same.
    fn same(text: &[u8]) -> bool {
        let quick = read(text, 7, Trust::Foreign).map(|line| format!("{line:?}"));
        let Some(quick) = &quick else { return false };
        let careful = line::read(text, 1, 7).map(|line| format!("{line:?}"));
        assert_eq!(careful.ok().as_ref(), Some(quick), "{}", text.escape_ascii());
        true
    }

    #[test]
    fn whatever_is_read_is_what_the_careful_reader_reads() {
        for text in LINES.map(str::as_bytes) {
            assert!(same(text), "{}", text.escape_ascii());
            let read = |trust| format!("{:?}", read(text, 7, trust));
            assert_eq!(read(Trust::Own), read(Trust::Foreign));
            for at in 0..text.len() {
                assert!(!same(&text[..at]));
                for &byte in REPLACEMENTS {
                    let mut other = text.to_vec();
                    other[at] = byte;
                    same(&other);
                    other.insert(at, byte);
                    same(&other);
                }
            }
        }
    }
}
