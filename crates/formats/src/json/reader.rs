//! The pull reader: returns one token at a time and copies no bytes.

mod plain;

use super::{Event, Json, MAX_DEPTH, skip, text};
use crate::budget::Budget;
use crate::error::{Error, Fault, Place};

/// Maximum letters of an unknown word in an error.
const LONGEST_WORD_SHOWN: usize = 20;

/// Reads a document event by event. Its memory is bounded by [`MAX_DEPTH`], whatever the size of the document.
/// Do not use it after an error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Open containers, outermost first; at most [`MAX_DEPTH`].
    open: Vec<Container>,
    next: Next,
    /// Line and byte of `bytes[0]` in the file, for readers of a part.
    origin: (u64, u64),
    /// How many containers may be open; at most [`MAX_DEPTH`].
    levels: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    List,
    Object,
}

/// What the grammar allows at the current position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
    End,
}

/// An event that is not decoded. Skipping needs no more.
enum Token<'a> {
    Ready(Event<'a>),
    Number { text: &'a [u8], integer: bool },
    Text { start: usize, raw: &'a [u8], escaped: bool, key: bool },
}

impl<'a> Reader<'a> {
    /// A reader at the start of a document.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader::within(bytes, 1, 0)
    }

    /// A reader of a part of a file; errors name places counted from the given line and byte.
    pub fn within(bytes: &'a [u8], line: u64, byte: u64) -> Reader<'a> {
        Reader { bytes, at: 0, open: Vec::new(), next: Next::Value, origin: (line, byte), levels: MAX_DEPTH }
    }

    /// The same reader, for text that will be nested in this many more containers and must stay readable there.
    pub fn leaving_room(self, levels: usize) -> Reader<'a> {
        Reader { levels: MAX_DEPTH.saturating_sub(levels), ..self }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// How many containers are open.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The next event, or nothing after the end of the document.
    pub fn event(&mut self) -> Result<Option<Event<'a>>, Error> {
        match self.token()? {
            Some(token) => self.decode(token).map(Some),
            None => Ok(None),
        }
    }

    /// The next event; an error if the document ends here.
    pub fn expect_event(&mut self) -> Result<Event<'a>, Error> {
        match self.event()? {
            Some(event) => Ok(event),
            None => Err(self.truncated("a value")),
        }
    }

    /// Skips one event without decoding it; false at the end of the document.
    pub fn skip_event(&mut self) -> Result<bool, Error> {
        self.token().map(|token| token.is_some())
    }

    /// Skips one whole value without decoding it. A value must follow.
    pub fn skip_value(&mut self) -> Result<(), Error> {
        if self.next == Next::Value
            && let Some(end) = skip::value(self.bytes, self.at)
        {
            self.at = end;
            self.next = self.after_value();
            return Ok(());
        }
        let depth = self.open.len();
        self.skip_event()?;
        while self.open.len() > depth {
            self.skip_event()?;
        }
        Ok(())
    }

    /// Reads one whole value as a tree.
    pub fn value(&mut self) -> Result<Json, Error> {
        let first = self.expect_event()?;
        self.value_from(first)
    }

    /// Reads the rest of a value after its first event. The size of the reader's text limits the memory of the tree.
    pub fn value_from(&mut self, first: Event<'a>) -> Result<Json, Error> {
        self.value_within(first, &self.budget())
    }

    /// The memory that values of this text may use.
    pub(crate) fn budget(&self) -> Budget {
        Budget::of_file(self.bytes.len())
    }

    /// Reads the rest of a value after its first event. Its tree is charged to `budget`.
    pub(crate) fn value_within(&mut self, first: Event<'a>, budget: &Budget) -> Result<Json, Error> {
        let start = self.at;
        let mut tree = super::tree::Builder::within(budget);
        let mut event = first;
        loop {
            if let Some(value) = tree.push(event).map_err(|fault| self.fault(start, fault))? {
                return Ok(value);
            }
            event = self.expect_event()?;
        }
    }

    /// Checks that only white space follows the document.
    pub fn end(&mut self) -> Result<(), Error> {
        match self.token()? {
            None => Ok(()),
            Some(_) => Err(self.malformed("nothing after the value")),
        }
    }

    /// An error at the current position.
    pub fn error(&self, fault: impl Into<Fault>) -> Error {
        self.fault(self.at, fault)
    }

    /// An error about a value of the wrong kind, just read.
    pub fn unexpected(&self, expected: impl Into<String>, found: &Event<'_>) -> Error {
        self.error(Fault::malformed(expected, found.describe()))
    }

    fn token(&mut self) -> Result<Option<Token<'a>>, Error> {
        loop {
            self.skip_space();
            let byte = self.bytes.get(self.at).copied();
            match (self.next, byte) {
                (Next::End, None) => return Ok(None),
                (Next::End, Some(_)) => return Err(self.malformed("nothing after the value")),
                (Next::CommaOrEnd, Some(b',')) => {
                    self.at += 1;
                    self.next = match self.open.last() {
                        Some(Container::Object) => Next::Key,
                        _ => Next::Value,
                    };
                }
                (Next::CommaOrEnd | Next::ValueOrEnd, Some(b']'))
                    if self.open.last() == Some(&Container::List) =>
                {
                    return Ok(Some(self.close(Event::ListEnd)));
                }
                (Next::CommaOrEnd | Next::KeyOrEnd, Some(b'}'))
                    if self.open.last() == Some(&Container::Object) =>
                {
                    return Ok(Some(self.close(Event::ObjectEnd)));
                }
                (Next::CommaOrEnd, _) => {
                    let end = if self.open.last() == Some(&Container::List) {
                        "\",\" or \"]\""
                    } else {
                        "\",\" or \"}\""
                    };
                    return Err(self.malformed(end));
                }
                (Next::Key | Next::KeyOrEnd, Some(b'"')) => return self.key().map(Some),
                (Next::Key, _) => return Err(self.malformed("a key in double quotes")),
                (Next::KeyOrEnd, _) => return Err(self.malformed("a key in double quotes or \"}\"")),
                (Next::Value | Next::ValueOrEnd, _) => return self.value_token(byte).map(Some),
            }
        }
    }

    fn value_token(&mut self, byte: Option<u8>) -> Result<Token<'a>, Error> {
        let token = match byte {
            Some(b'[') => return self.enter(Container::List, Event::ListStart),
            Some(b'{') => return self.enter(Container::Object, Event::ObjectStart),
            Some(b'"') => self.text(false)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'n') => self.word("null", Event::Null)?,
            Some(b't') => self.word("true", Event::Bool(true))?,
            Some(b'f') => self.word("false", Event::Bool(false))?,
            Some(b'N') => self.word("NaN", Event::Float(f64::NAN))?,
            Some(b'I') => self.word("Infinity", Event::Float(f64::INFINITY))?,
            _ if self.next == Next::ValueOrEnd => return Err(self.malformed("a value or \"]\"")),
            _ => return Err(self.malformed("a value")),
        };
        self.next = self.after_value();
        Ok(token)
    }

    fn after_value(&self) -> Next {
        if self.open.is_empty() { Next::End } else { Next::CommaOrEnd }
    }

    fn enter(&mut self, container: Container, event: Event<'a>) -> Result<Token<'a>, Error> {
        if self.open.len() >= self.levels {
            return Err(self.error(Fault::TooDeep { limit: self.levels }));
        }
        self.at += 1;
        self.open.push(container);
        self.next = if container == Container::List { Next::ValueOrEnd } else { Next::KeyOrEnd };
        Ok(Token::Ready(event))
    }

    fn close(&mut self, event: Event<'a>) -> Token<'a> {
        self.at += 1;
        self.open.pop();
        self.next = self.after_value();
        Token::Ready(event)
    }

    fn key(&mut self) -> Result<Token<'a>, Error> {
        let key = self.text(true)?;
        self.skip_space();
        if self.bytes.get(self.at) != Some(&b':') {
            return Err(self.malformed("\":\" after a key"));
        }
        self.at += 1;
        self.next = Next::Value;
        Ok(key)
    }

    fn text(&mut self, key: bool) -> Result<Token<'a>, Error> {
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            let stop = self.bytes.get(at..).unwrap_or_default().iter();
            match stop.clone().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ') {
                None => {
                    return Err(self.truncated("the closing quote of a string"));
                }
                Some(ahead) => at += ahead,
            }
            match self.bytes[at] {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    at += 2;
                }
                control => {
                    return Err(self.fault(
                        at,
                        Fault::malformed(
                            "control characters escaped in a string",
                            format!("byte 0x{control:02x}"),
                        ),
                    ));
                }
            }
        }
        self.at = at + 1;
        Ok(Token::Text { start, raw: &self.bytes[start..at], escaped, key })
    }

    fn number(&mut self) -> Result<Token<'a>, Error> {
        let start = self.at;
        let mut at = start + usize::from(self.bytes[start] == b'-');
        if at > start && self.bytes.get(at) == Some(&b'I') {
            self.at = at;
            return self.word("Infinity", Event::Float(f64::NEG_INFINITY));
        }
        let digits = |mut at: usize| {
            while self.bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let whole = digits(at);
        if whole == at {
            self.at = at;
            return Err(self.malformed("a digit"));
        }
        if self.bytes[at] == b'0' && whole > at + 1 {
            self.at = at + 1;
            return Err(self.malformed("no digit after a leading zero"));
        }
        at = whole;
        let mut integer = true;
        if self.bytes.get(at) == Some(&b'.') {
            integer = false;
            let fraction = digits(at + 1);
            if fraction == at + 1 {
                self.at = fraction;
                return Err(self.malformed("a digit after the decimal point"));
            }
            at = fraction;
        }
        if let Some(b'e' | b'E') = self.bytes.get(at) {
            integer = false;
            let signed = at + 1 + usize::from(matches!(self.bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(signed);
            if exponent == signed {
                self.at = exponent;
                return Err(self.malformed("a digit in the exponent"));
            }
            at = exponent;
        }
        self.at = at;
        Ok(Token::Number { text: &self.bytes[start..at], integer })
    }

    fn word(&mut self, word: &'static str, event: Event<'a>) -> Result<Token<'a>, Error> {
        let rest = &self.bytes[self.at..];
        if rest.starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(Token::Ready(event));
        }
        if word.as_bytes().starts_with(rest) {
            return Err(self.truncated(word));
        }
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).take(LONGEST_WORD_SHOWN);
        let found: String = letters.map(|&byte| char::from(byte)).collect();
        Err(self.error(Fault::malformed("a value", format!("the word {found}"))))
    }

    fn decode(&self, token: Token<'a>) -> Result<Event<'a>, Error> {
        match token {
            Token::Ready(event) => Ok(event),
            Token::Number { text, integer } => Event::from_number(text, integer).ok_or_else(|| {
                let found = format!("an integer of {} digits", text.len());
                self.fault(self.at - text.len(), Fault::malformed("an integer that a double can hold", found))
            }),
            Token::Text { start, raw, escaped, key } => {
                let text = text::decode(raw, escaped).map_err(|fault| {
                    self.fault(start + fault.at, Fault::malformed(fault.expected, fault.found))
                })?;
                Ok(if key { Event::Key(text) } else { Event::Str(text) })
            }
        }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn malformed(&self, expected: &str) -> Error {
        match self.bytes.get(self.at) {
            None => self.truncated(expected),
            Some(&byte) => self.error(Fault::malformed(expected, show(byte))),
        }
    }

    fn truncated(&self, expected: &str) -> Error {
        self.fault(self.bytes.len(), Fault::truncated(expected, "the end"))
    }

    /// Lines are counted only here, because errors are rare.
    fn fault(&self, at: usize, fault: impl Into<Fault>) -> Error {
        let (line, byte) = self.origin;
        let before = &self.bytes[..at.min(self.bytes.len())];
        let line = line + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
        Error::at(Place::Byte(byte + at as u64), fault).in_part(&Place::Line(line).to_string())
    }
}

fn show(byte: u8) -> String {
    if byte.is_ascii_graphic() { format!("'{}'", char::from(byte)) } else { format!("byte 0x{byte:02x}") }
}
