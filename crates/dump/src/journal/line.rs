//! One line of a journal: its content, and the ranges of the parts that are copied unchanged.

use std::borrow::Cow;

use ulpscope_formats::json::{Event, Reader};
use ulpscope_formats::{Error, Fault};

/// Longest name of a call.
pub(super) const MAX_NAME_BYTES: u64 = 1 << 16;

/// Maximum characters of a name in a message.
const SHOWN_NAME: usize = 200;

/// A name, shortened for a message.
pub(super) fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A range of a journal: one whole JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) length: u32,
}

impl Span {
    /// The text.
    pub(super) fn of(self, journal: &[u8]) -> &[u8] {
        let start = self.start as usize;
        journal.get(start..start + self.length as usize).unwrap_or_default()
    }
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// A stack.
    Stack {
        id: u64,
        frames: Span,
    },
    Call(ReadCall<'a>),
    /// More sections of a call.
    More {
        id: u64,
        data: Option<Span>,
    },
    /// The last sections of a call, which has returned; `last`: it is ordered by its end.
    End {
        id: u64,
        last: bool,
        data: Option<Span>,
    },
    /// A call raised an error.
    Raised {
        id: u64,
        last: bool,
    },
    /// What was recorded so far; `over`: the step has ended.
    Ledger {
        ledger: Span,
        over: bool,
    },
}

/// The beginning of a call.
#[derive(Debug)]
pub(super) struct ReadCall<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) name_at: Span,
    /// Nothing if this is the only line of the call.
    pub(super) id: Option<u64>,
    pub(super) stack: Option<u64>,
    pub(super) parent: Option<Span>,
    pub(super) data: Option<Span>,
}

/// Reads a line, given its number and offset. Every value in it is checked to be complete.
pub(super) fn read(text: &[u8], number: u64, start: u64) -> Result<Line<'_>, Error> {
    // Sections are one level deeper in a dump.json.
    let reader = Reader::within(text, number, start).leaving_room(1);
    let mut fields = Fields {
        text,
        start,
        reader,
        id: None,
        stack: None,
        parent: None,
        data: None,
        frames: None,
        last: false,
        over: false,
    };
    let kind = fields.first_key()?;
    let line = match kind.as_ref() {
        "stack" => {
            let id = fields.number()?;
            fields.rest()?;
            fields.frames.map(|frames| Line::Stack { id, frames })
        }
        "call" => {
            let (name, name_at) = fields.name()?;
            fields.rest()?;
            let Fields { id, stack, parent, data, .. } = fields;
            return Ok(Line::Call(ReadCall { name, name_at, id, stack, parent, data }));
        }
        "more" => {
            let id = fields.number()?;
            fields.rest()?;
            Some(Line::More { id, data: fields.data })
        }
        "end" => {
            let id = fields.number()?;
            fields.rest()?;
            Some(Line::End { id, last: fields.last, data: fields.data })
        }
        "raised" => {
            let id = fields.number()?;
            fields.rest()?;
            Some(Line::Raised { id, last: fields.last })
        }
        "ledger" => {
            let ledger = fields.span()?;
            fields.rest()?;
            Some(Line::Ledger { ledger, over: fields.over })
        }
        _ => {
            let expected =
                "a line that begins with \"stack\", \"call\", \"more\", \"end\", \"raised\" or \"ledger\"";
            return Err(fields.reader.unexpected(expected, &Event::Key(kind)));
        }
    };
    line.ok_or_else(|| fields.reader.error(Fault::malformed("\"frames\"", "a stack without them")))
}

/// The fields after the first, in any order; unknown ones are skipped.
struct Fields<'a> {
    text: &'a [u8],
    /// The offset of the line in the file.
    start: u64,
    reader: Reader<'a>,
    id: Option<u64>,
    stack: Option<u64>,
    parent: Option<Span>,
    data: Option<Span>,
    frames: Option<Span>,
    last: bool,
    over: bool,
}

impl<'a> Fields<'a> {
    fn first_key(&mut self) -> Result<Cow<'a, str>, Error> {
        match self.reader.expect_event()? {
            Event::ObjectStart => {}
            other => return Err(self.reader.unexpected("an object", &other)),
        }
        match self.reader.expect_event()? {
            Event::Key(key) => Ok(key),
            other => Err(self.reader.unexpected("a key that names the kind of the line", &other)),
        }
    }

    fn rest(&mut self) -> Result<(), Error> {
        loop {
            let key = match self.reader.expect_event()? {
                Event::Key(key) => key,
                _ => return self.reader.end(),
            };
            match key.as_ref() {
                "data" => self.data = Some(self.span()?),
                "id" => self.id = Some(self.number()?),
                "stack" => self.stack = self.number_or_null()?,
                "parent" => self.parent = self.parent()?,
                "frames" => self.frames = Some(self.frames()?),
                "last" => self.last = self.flag()?,
                "over" => self.over = self.flag()?,
                _ => self.reader.skip_value()?,
            }
        }
    }

    fn number(&mut self) -> Result<u64, Error> {
        self.number_or_null()?.ok_or_else(|| self.reader.unexpected("an integer from 0 up", &Event::Null))
    }

    fn number_or_null(&mut self) -> Result<Option<u64>, Error> {
        let event = self.reader.expect_event()?;
        let number = match &event {
            Event::Null => return Ok(None),
            Event::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        number.map(Some).ok_or_else(|| self.reader.unexpected("an integer from 0 up", &event))
    }

    fn flag(&mut self) -> Result<bool, Error> {
        match self.reader.expect_event()? {
            Event::Bool(flag) => Ok(flag),
            other => Err(self.reader.unexpected("true or false", &other)),
        }
    }

    fn name(&mut self) -> Result<(Cow<'a, str>, Span), Error> {
        let start = self.reader.position();
        let event = self.reader.expect_event()?;
        let span = self.span_from(start)?;
        let Event::Str(name) = event else {
            return Err(self.reader.unexpected("the name of a call", &event));
        };
        if u64::from(span.length) > MAX_NAME_BYTES {
            let (limit, found) = (MAX_NAME_BYTES, span.length.into());
            return Err(self.reader.error(Fault::TooLarge { what: "the name of a call", limit, found }));
        }
        Ok((name, span))
    }

    fn parent(&mut self) -> Result<Option<Span>, Error> {
        let start = self.reader.position();
        match self.reader.expect_event()? {
            Event::Null => Ok(None),
            Event::Str(_) => self.span_from(start).map(Some),
            other => Err(self.reader.unexpected("the name of a call, or null", &other)),
        }
    }

    /// A list of texts. A single item of another kind would make the whole stack.json unreadable.
    fn frames(&mut self) -> Result<Span, Error> {
        let start = self.reader.position();
        match self.reader.expect_event()? {
            Event::ListStart => {}
            other => return Err(self.reader.unexpected("a list of stack lines", &other)),
        }
        loop {
            match self.reader.expect_event()? {
                Event::Str(_) => {}
                Event::ListEnd => return self.span_from(start),
                other => return Err(self.reader.unexpected("a line of text", &other)),
            }
        }
    }

    /// Skips a value.
    fn span(&mut self) -> Result<Span, Error> {
        let start = self.reader.position();
        self.reader.skip_value()?;
        self.span_from(start)
    }

    /// The value that was just skipped. It began at `start` or after spaces there.
    fn span_from(&self, start: usize) -> Result<Span, Error> {
        let end = self.reader.position();
        let text = self.text.get(start..end).unwrap_or_default().trim_ascii_start();
        let length = text.len() as u64;
        let too_large = Fault::TooLarge { what: "a single value", limit: u32::MAX.into(), found: length };
        match u32::try_from(length) {
            Ok(short) => Ok(Span { start: self.start + end as u64 - length, length: short }),
            Err(_) => Err(self.reader.error(too_large)),
        }
    }
}
