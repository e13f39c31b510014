//! Fields as tools write nearly all of them: text without escapes, a number, a word, or a list of sizes.
//!
//! A dump has tens of millions of them. They are read in one step each, without an event for every sign. Whatever else there
//! is, an error too, is left to the events.

use super::{Container, Event, Json, Next, Reader, Token};

/// Digits of a size in a list.
const MOST_DIGITS: usize = 18;

impl<'a> Reader<'a> {
    /// The next field of the object that is being read, which is not the first. Nothing is read if it is no plain one.
    pub(crate) fn plain_field(&mut self) -> Option<(&'a str, Json)> {
        if self.next != Next::CommaOrEnd || self.open.last() != Some(&Container::Object) {
            return None;
        }
        let start = self.at;
        let field = self.plain_field_here();
        if field.is_none() {
            (self.at, self.next) = (start, Next::CommaOrEnd);
        }
        field
    }

    fn plain_field_here(&mut self) -> Option<(&'a str, Json)> {
        self.pass(b',')?;
        self.skip_space();
        let key = self.plain_text()?;
        self.pass(b':')?;
        self.skip_space();
        let value = match self.bytes.get(self.at)? {
            b'"' => Json::Str(self.plain_text()?.to_owned()),
            b'-' | b'0'..=b'9' => match self.number().ok()? {
                Token::Number { text, integer } => match Event::from_number(text, integer)? {
                    Event::Int(number) => Json::Int(number),
                    Event::Float(number) => Json::Float(number),
                    _ => return None,
                },
                _ => return None,
            },
            b't' => self.plain_word(b"true", Json::Bool(true))?,
            b'f' => self.plain_word(b"false", Json::Bool(false))?,
            b'n' => self.plain_word(b"null", Json::Null)?,
            b'[' => self.sizes()?,
            _ => return None,
        };
        Some((key, value))
    }

    /// Goes past a sign, after any space.
    fn pass(&mut self, sign: u8) -> Option<()> {
        self.skip_space();
        (*self.bytes.get(self.at)? == sign).then(|| self.at += 1)
    }

    fn plain_word(&mut self, word: &[u8], value: Json) -> Option<Json> {
        self.bytes.get(self.at..)?.starts_with(word).then(|| self.at += word.len())?;
        Some(value)
    }

    /// Printable ASCII without escapes, in quotes.
    fn plain_text(&mut self) -> Option<&'a str> {
        let rest = self.bytes.get(self.at..)?.strip_prefix(b"\"")?;
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        let end = rest.iter().position(|&byte| !is_plain(byte))?;
        if rest[end] != b'"' {
            return None;
        }
        self.at += end + 2;
        str::from_utf8(&rest[..end]).ok()
    }

    /// A list of integers from 0 up.
    fn sizes(&mut self) -> Option<Json> {
        self.pass(b'[')?;
        let mut sizes = Vec::new();
        if self.pass(b']').is_some() {
            return Some(Json::List(sizes));
        }
        loop {
            self.skip_space();
            let rest = self.bytes.get(self.at..)?;
            let count = rest.iter().take(MOST_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
            let digits = &rest[..count];
            if !(1..=MOST_DIGITS).contains(&count) || count > 1 && digits[0] == b'0' {
                return None;
            }
            self.at += count;
            if let Event::Int(size) = Event::from_number(digits, true)? {
                sizes.push(Json::Int(size));
            }
            if self.pass(b']').is_some() {
                return Some(Json::List(sizes));
            }
            self.pass(b',')?;
        }
    }
}
