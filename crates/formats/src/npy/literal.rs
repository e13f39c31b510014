//! The subset of Python literals that a `.npy` header uses.
//!
//! Spacing, order, quotes and trailing commas are free, and Python 2's `3L` is an integer. Everything else is strict,
//! and every error has its byte offset.

use std::fmt;

use crate::error::{Error, Fault, Place};

/// Nesting of tuples and lists. NumPy uses a level or two per structured type within a structured type.
const MAX_DEPTH: usize = 32;

/// The longest text. Keys and codes have a few letters; only field names of structured types may have more.
const MAX_TEXT: usize = 256;

/// A Python literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    Str(String),
    Int(i128),
    Bool(bool),
    None,
    Tuple(Vec<Literal>),
    List(Vec<Literal>),
}

/// A literal and its byte offset in the file.
pub(super) struct Item {
    pub literal: Literal,
    pub at: u64,
}

/// Parses `{key: value, ...}` with text keys and only blanks around it. `base` is the byte offset of `text` in the
/// file.
pub(super) fn parse_dict(text: &[u8], base: u64) -> Result<Vec<(String, Item)>, Error> {
    let mut parser = Parser { text, at: 0, base };
    let mut pairs = Vec::new();
    parser.expect(b'{', "'{' at the start of the header")?;
    while !parser.take(b'}') {
        let key_at = parser.place();
        let Literal::Str(key) = parser.literal(0)? else {
            return Err(Error::at(key_at, Fault::malformed("a quoted header key", "another kind of value")));
        };
        parser.expect(b':', "':' after a header key")?;
        parser.skip_blanks();
        let at = parser.base + parser.at as u64;
        pairs.push((key, Item { literal: parser.literal(0)?, at }));
        if !parser.take(b',') {
            parser.expect(b'}', "',' or '}' after a header value")?;
            break;
        }
    }
    match parser.peek() {
        None => Ok(pairs),
        Some(_) => Err(parser.malformed("only blanks after the header's '}'")),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    base: u64,
}

impl Parser<'_> {
    fn literal(&mut self, depth: usize) -> Result<Literal, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::at(self.place(), Fault::TooDeep { limit: MAX_DEPTH }));
        }
        match self.peek() {
            Some(b'(') => self.sequence(b')', depth),
            Some(b'[') => self.sequence(b']', depth),
            Some(b'\'' | b'"') => self.string(),
            Some(b'u') if matches!(self.text.get(self.at + 1), Some(b'\'' | b'"')) => {
                self.at += 1;
                self.string()
            }
            Some(b'-' | b'0'..=b'9') => self.integer(),
            Some(b'A'..=b'Z' | b'a'..=b'z') => self.word(),
            _ => Err(self.malformed("a string, a number, True, False, a tuple or a list")),
        }
    }

    /// A tuple or a list. `(x)` is `x`, as in Python.
    fn sequence(&mut self, close: u8, depth: usize) -> Result<Literal, Error> {
        self.at += 1;
        let mut items = Vec::new();
        let mut comma = false;
        while !self.take(close) {
            items.push(self.literal(depth + 1)?);
            if self.take(b',') {
                comma = true;
            } else {
                let expected = if close == b')' { "',' or ')' in a tuple" } else { "',' or ']' in a list" };
                self.expect(close, expected)?;
                break;
            }
        }
        if close == b']' {
            return Ok(Literal::List(items));
        }
        match items.pop() {
            Some(only) if items.is_empty() && !comma => Ok(only),
            last => {
                items.extend(last);
                Ok(Literal::Tuple(items))
            }
        }
    }

    /// A quoted string. Escapes are not decoded: only field names have any, and those are only shown.
    fn string(&mut self) -> Result<Literal, Error> {
        let quote = self.text[self.at];
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.text.get(end) {
                Some(b'\\') => end += 2,
                Some(&byte) if byte == quote => break,
                Some(_) => end += 1,
                None => {
                    let fault = Fault::malformed("a closing quote", "the end of the header");
                    return Err(Error::at(self.place(), fault));
                }
            }
        }
        if end - start > MAX_TEXT {
            let (limit, found) = (MAX_TEXT as u64, (end - start) as u64);
            return Err(Error::at(self.place(), Fault::TooLarge { what: "length of a text", limit, found }));
        }
        self.at = end + 1;
        Ok(Literal::Str(String::from_utf8_lossy(&self.text[start..end]).into_owned()))
    }

    fn integer(&mut self) -> Result<Literal, Error> {
        let place = self.place();
        let rest = &self.text[self.at..];
        let sign = usize::from(rest[0] == b'-');
        let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = String::from_utf8_lossy(&rest[..sign + digits]);
        // `3L`: how Python 2 wrote a long.
        let suffix = usize::from(matches!(rest.get(sign + digits), Some(b'L' | b'l')));
        self.at += sign + digits + suffix;
        text.parse().map(Literal::Int).map_err(|_| {
            let found = format!("{digits} digits");
            Error::at(place, Fault::malformed("an integer of 1 to 38 digits", found))
        })
    }

    fn word(&mut self) -> Result<Literal, Error> {
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let literal = match &rest[..length] {
            b"True" => Literal::Bool(true),
            b"False" => Literal::Bool(false),
            b"None" => Literal::None,
            _ => return Err(self.malformed("True, False or None")),
        };
        self.at += length;
        Ok(literal)
    }

    fn skip_blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_blanks();
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Result<(), Error> {
        if self.take(byte) { Ok(()) } else { Err(self.malformed(expected)) }
    }

    fn place(&mut self) -> Place {
        self.skip_blanks();
        Place::Byte(self.base + self.at as u64)
    }

    fn malformed(&mut self, expected: &str) -> Error {
        const SHOWN: usize = 16;
        let place = self.place();
        let rest = &self.text[self.at..];
        let found = match rest {
            [] => "the end of the header".to_owned(),
            // Python's quotes need no escape within ours.
            _ => format!("\"{}\"", rest[..rest.len().min(SHOWN)].escape_ascii()).replace("\\'", "'"),
        };
        Error::at(place, Fault::malformed(expected, found))
    }
}

/// As Python would write it; long sequences are cut short.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let (open, items, close) = match self {
            Literal::Str(text) => return write!(f, "'{text}'"),
            Literal::Int(number) => return write!(f, "{number}"),
            Literal::Bool(true) => return f.write_str("True"),
            Literal::Bool(false) => return f.write_str("False"),
            Literal::None => return f.write_str("None"),
            Literal::Tuple(items) => ("(", items, if items.len() == 1 { ",)" } else { ")" }),
            Literal::List(items) => ("[", items, "]"),
        };
        f.write_str(open)?;
        for (index, item) in items.iter().take(SHOWN).enumerate() {
            write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
        }
        write!(f, "{}{close}", if items.len() > SHOWN { ", ..." } else { "" })
    }
}
