//! The text form of protobuf messages: `op { name: "x" shape { dim: 2 } }`.
//!
//! A colon before `{` is optional, lists may be `[a, b]`, messages may be in `< >`, and commas and semicolons may follow
//! a field. Texts have C's escapes and need not be UTF-8.

use std::borrow::Cow;

use ulpscope_formats::{Bytes, Error, Fault, Place};

use crate::fields::{Field, Fields, MAX_DEPTH, PORTION};

pub(crate) struct TextFields<'a> {
    file: &'a Bytes,
    text: &'a [u8],
    at: usize,
    released: usize,
    depth: usize,
    /// The field whose list is being read.
    list: Option<&'a str>,
}

impl<'a> TextFields<'a> {
    pub(crate) fn new(file: &'a Bytes) -> TextFields<'a> {
        TextFields { file, text: file, at: 0, released: 0, depth: 0, list: None }
    }

    fn error(&self, expected: &str) -> Error {
        let rest = &self.text[self.at.min(self.text.len())..];
        let found = match rest {
            [] => "the end of the file".to_owned(),
            rest => format!("{:?}", rest[..rest.len().min(12)].escape_ascii().to_string()),
        };
        Error::at(Place::Byte(self.at as u64), Fault::malformed(expected, found))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips white space, comments, and what may separate fields.
    fn blank(&mut self, separators: bool) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b',' | b';' if separators => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }

    fn word(&mut self, expected: &str) -> Result<&'a str, Error> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-+./[]".contains(byte);
        let start = self.at;
        let rest = &self.text[start..];
        // A list ends with a bracket, which is no part of its last item.
        let end = |byte: &u8| !is_part(byte) || self.list.is_some() && *byte == b']';
        self.at += rest.iter().position(end).unwrap_or(rest.len());
        let word = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        if word.is_empty() { Err(self.error(expected)) } else { Ok(word) }
    }

    /// A text in quotes; several after each other are one.
    fn quoted(&mut self) -> Result<Cow<'a, str>, Error> {
        let mut whole = self.one_quoted()?;
        loop {
            self.blank(false);
            match self.peek() {
                Some(b'"' | b'\'') => whole.to_mut().push_str(&self.one_quoted()?),
                _ => return Ok(whole),
            }
        }
    }

    fn one_quoted(&mut self) -> Result<Cow<'a, str>, Error> {
        let quote = self.text[self.at];
        let start = self.at + 1;
        let mut end = start;
        let mut is_plain = true;
        loop {
            match self.text.get(end) {
                None => {
                    self.at = end;
                    return Err(self.error("the end of a text"));
                }
                Some(&byte) if byte == quote => break,
                Some(b'\\') => {
                    is_plain = false;
                    end += 2;
                }
                Some(_) => end += 1,
            }
        }
        self.at = end + 1;
        let raw = &self.text[start..end];
        Ok(if is_plain { String::from_utf8_lossy(raw) } else { Cow::Owned(unescaped(raw)) })
    }

    fn value(&mut self, name: &'a str) -> Result<Field<'a>, Error> {
        let text = match self.peek() {
            Some(b'"' | b'\'') => self.quoted()?,
            _ => Cow::Borrowed(self.word("a value")?),
        };
        Ok(Field::Value(Cow::Borrowed(name), text))
    }

    fn start(&mut self, name: &'a str) -> Result<Field<'a>, Error> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::at(Place::Byte(self.at as u64), Fault::TooDeep { limit: MAX_DEPTH }));
        }
        Ok(Field::Start(Cow::Borrowed(name)))
    }
}

impl<'a> Fields<'a> for TextFields<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, Error> {
        // An empty list has no field: a file may have any number of them in a row.
        loop {
            if self.at - self.released > PORTION {
                self.file.release(self.released..self.at);
                self.released = self.at;
            }
            self.blank(true);
            if let Some(name) = self.list {
                match self.peek() {
                    Some(b']') => {
                        self.at += 1;
                        self.list = None;
                        self.blank(true);
                    }
                    Some(b'{' | b'<') => return Err(self.error("plain values in a list")),
                    _ => return self.value(name).map(Some),
                }
            }
            match self.peek() {
                None if self.depth > 0 => return Err(self.error("the end of a message")),
                None => return Ok(None),
                Some(b'}' | b'>') if self.depth > 0 => {
                    self.at += 1;
                    self.depth -= 1;
                    return Ok(Some(Field::End));
                }
                Some(_) => {}
            }
            let name = self.word("the name of a field")?;
            self.blank(false);
            let has_colon = self.peek() == Some(b':');
            if has_colon {
                self.at += 1;
                self.blank(false);
            }
            match self.peek() {
                Some(b'{' | b'<') => return self.start(name).map(Some),
                Some(b'[') if has_colon => {
                    self.at += 1;
                    self.list = Some(name);
                }
                _ if has_colon => return self.value(name).map(Some),
                _ => return Err(self.error("a colon or a message")),
            }
        }
    }
}

/// A text without C's escapes. Bytes that are not UTF-8 become replacement characters.
fn unescaped(raw: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = |most: usize, base: u32| {
            let is_digit = |byte: &&u8| char::from(**byte).is_digit(base);
            let count = after.iter().take(most).take_while(is_digit).count();
            let text = std::str::from_utf8(&after[..count]).unwrap_or_default();
            u32::from_str_radix(text, base).ok().map(|value| (value as u8, &after[count..]))
        };
        let Some((&escape, beyond)) = after.split_first() else { break };
        if let Some((value, left)) = digits(3, 8) {
            bytes.push(value);
            rest = left;
            continue;
        }
        rest = beyond;
        bytes.push(match escape {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
