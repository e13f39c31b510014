//! Reads a journal line by line and builds its outline.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::path::Path;

use ulpscope_formats::json::{self, Json};
use ulpscope_formats::{Bytes, Error, Fault, Place as FilePlace};

use super::line::{self, Line, ReadCall, Span};
use super::outline::{Call, MAX_CALLS, NONE, Outline, Place};
use super::{MARK, VERSION, has_mark, quick};
use crate::key::parse_key;
use crate::ledger::MAX_LEDGER_BYTES;

/// Longest header.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Bytes of a journal per call, and the maximum number of calls, to allocate memory in advance.
const BYTES_PER_CALL: usize = 1 << 10;
const MAX_ROOM: usize = 1 << 14;

/// Bytes read before their memory is returned to the system.
const RELEASE_BYTES: usize = 64 << 20;

/// Who wrote a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// This process, just now: its values are trusted.
    Own,
    /// Anyone: every value is checked.
    Foreign,
}

/// Outlines a journal. An error means that it is not a journal; everything else is a problem.
pub(super) fn scan(journal: &Bytes, path: &Path, trust: Trust) -> Result<Outline, Error> {
    Scan::of(path, trust).run(journal).map_err(|error| error.in_file(path))
}

struct Scan<'p> {
    path: &'p Path,
    trust: Trust,
    outline: Outline,
    /// The number of the line.
    line: u64,
    /// Calls that neither ended nor raised, by their ids.
    open: HashMap<u64, u32>,
    last_id: Option<u64>,
    /// The numbers of stacks by their ids.
    stacks: HashMap<u64, u32>,
    /// Only the hashes of names: among a million calls two hashes of 64 bits are equal once in thirty million
    /// journals.
    names: HashSet<u64>,
    hasher: RandomState,
}

impl<'p> Scan<'p> {
    fn of(path: &'p Path, trust: Trust) -> Scan<'p> {
        Scan {
            path,
            trust,
            outline: Outline::default(),
            line: 0,
            open: HashMap::new(),
            last_id: None,
            stacks: HashMap::new(),
            names: HashSet::new(),
            hasher: RandomState::new(),
        }
    }

    fn run(mut self, journal: &Bytes) -> Result<Outline, Error> {
        let written = without_zeros(journal);
        self.make_room((written / BYTES_PER_CALL).min(MAX_ROOM));
        let (mut at, mut released) = (0, 0);
        while at < written {
            let (end, whole) = match newline(&journal[..written], at) {
                Some(end) => (end, true),
                None => (written, false),
            };
            self.line += 1;
            let text = &journal[at..end];
            let taken = match self.line {
                1 if !whole && is_torn_header(text) => {
                    Err(Error::whole(Fault::truncated("a line that says what was recorded", "the end")))
                }
                1 => {
                    self.outline.header = Some(header(text)?);
                    Ok(())
                }
                _ if text.trim_ascii().is_empty() => Ok(()),
                line => match quick::read(text, at as u64, self.trust) {
                    Some(line) => self.take(line, journal),
                    None => line::read(text, line, at as u64).and_then(|line| self.take(line, journal)),
                },
            };
            match taken {
                Ok(()) => {}
                Err(_) if !whole => {
                    let bytes = end - at;
                    self.outline.torn = Some(format!("line {}, which ends after {bytes} bytes", self.line));
                }
                Err(error) => self.outline.problems.add(&error.in_file(self.path)),
            }
            if self.outline.calls.len() > MAX_CALLS || self.outline.parts.len() >= NONE as usize {
                let what = "the number of calls and their parts";
                return Err(Error::whole(Fault::TooLarge {
                    what,
                    limit: MAX_CALLS as u64,
                    found: self.outline.parts.len().max(self.outline.calls.len()) as u64,
                }));
            }
            at = end + 1;
            if at - released >= RELEASE_BYTES {
                journal.release(released..at.min(journal.len()));
                released = at;
            }
        }
        if self.line == 0 {
            self.outline.torn.get_or_insert_with(|| "line 1, of which nothing is there".to_owned());
        }
        self.outline.running = self.open.into_values().collect();
        self.outline.running.sort_unstable();
        Ok(self.outline)
    }

    fn make_room(&mut self, calls: usize) {
        self.names.reserve(calls);
        self.outline.calls.reserve(calls);
        self.outline.places.reserve(calls);
        self.outline.parts.reserve(2 * calls);
    }

    fn take(&mut self, line: Line<'_>, journal: &[u8]) -> Result<(), Error> {
        match line {
            Line::Stack { id, frames } => {
                self.stacks.insert(id, self.outline.stacks.len() as u32);
                self.outline.stacks.push(frames);
            }
            Line::Call(call) => self.begin(&call, journal)?,
            Line::More { id, data } => {
                let call = self.running(id)?;
                self.add(call, data, journal)?;
            }
            Line::End { id, last, data } => {
                let call = self.running(id)?;
                self.over(id, call, last);
                self.add(call, data, journal)?;
            }
            Line::Raised { id, last } => {
                let call = self.running(id)?;
                self.over(id, call, last);
            }
            Line::Ledger { ledger: span, .. } if u64::from(span.length) > MAX_LEDGER_BYTES => {
                let (limit, found) = (MAX_LEDGER_BYTES, span.length.into());
                return Err(self.here(Fault::TooLarge { what: "a ledger", limit, found }));
            }
            Line::Ledger { ledger: span, .. } if !span.of(journal).starts_with(b"{") => {
                return Err(self.here(Fault::malformed("an object", "another value")));
            }
            Line::Ledger { ledger, over } => {
                self.outline.ledger = Some(ledger);
                self.outline.is_over |= over;
            }
        }
        Ok(())
    }

    fn begin(&mut self, call: &ReadCall<'_>, journal: &[u8]) -> Result<(), Error> {
        let first = call.data.map(|data| data.of(journal));
        if call.id.is_some() && first.is_some_and(|data| !data.starts_with(b"{")) {
            return Err(self.here(Fault::malformed("an object of sections", "another value")));
        }
        if let Some(id) = call.id
            && self.last_id.is_some_and(|last| id <= last)
        {
            let last = self.last_id.unwrap_or_default();
            return Err(self.here(Fault::malformed(format!("an id above {last}"), id.to_string())));
        }
        if !self.names.insert(self.hasher.hash_one(call.name_at.of(journal))) {
            return Err(self
                .here(Fault::malformed("a name that is new", format!("{} again", line::shown(&call.name)))));
        }
        let stack = match call.stack {
            None => NONE,
            Some(id) => self.stacks.get(&id).copied().unwrap_or_else(|| {
                let unknown = Fault::malformed("a stack that is known", id.to_string());
                self.outline.problems.add(&self.here(unknown).in_file(self.path));
                NONE
            }),
        };
        let number = self.outline.calls.len();
        self.outline.calls.push(Call {
            name: call.name_at,
            parent: call.parent.unwrap_or(Span { start: 0, length: 0 }),
            stack,
            parts: (NONE, NONE),
            kind: parse_key(&call.name).2,
            moved: false,
        });
        self.outline.places.push(Place::first(number));
        if let Some(data) = call.data {
            self.outline.add_part(number, data);
        }
        if let Some(id) = call.id {
            self.last_id = Some(id);
            self.open.insert(id, number as u32);
        }
        Ok(())
    }

    fn add(&mut self, call: usize, data: Option<Span>, journal: &[u8]) -> Result<(), Error> {
        let Some(data) = data else { return Ok(()) };
        if !data.of(journal).starts_with(b"{") {
            return Err(self.here(Fault::malformed("an object of sections", "another value")));
        }
        self.outline.add_part(call, data);
        Ok(())
    }

    fn running(&self, id: u64) -> Result<usize, Error> {
        let call = self.open.get(&id).map(|&call| call as usize);
        call.ok_or_else(|| self.here(Fault::malformed("the id of a call that is running", id.to_string())))
    }

    fn over(&mut self, id: u64, call: usize, last: bool) {
        self.open.remove(&id);
        if last {
            self.outline.calls[call].moved = true;
            self.outline.places.push(Place::moved(call));
        }
    }

    fn here(&self, fault: Fault) -> Error {
        Error::at(FilePlace::Line(self.line), fault)
    }
}

/// Whether an incomplete first line is the start of a header.
fn is_torn_header(text: &[u8]) -> bool {
    text.len() as u64 <= MAX_HEADER_BYTES && has_mark(text) && json::read(text).is_err()
}

/// The content of the first line.
fn header(text: &[u8]) -> Result<Json, Error> {
    if !text.starts_with(MARK) {
        let shown = &text[..text.len().min(MARK.len())];
        let expected = format!("a journal, which begins with {}", MARK.escape_ascii());
        return Err(Error::whole(Fault::malformed(expected, format!("\"{}\"", shown.escape_ascii()))));
    }
    if text.len() as u64 > MAX_HEADER_BYTES {
        let (limit, found) = (MAX_HEADER_BYTES, text.len() as u64);
        return Err(Error::at(FilePlace::Line(1), Fault::TooLarge { what: "the first line", limit, found }));
    }
    let header = json::read(text)?;
    match header.get("ulpscope") {
        Some(Json::Int(VERSION)) => Ok(header),
        other => {
            let found = other.map(Json::describe).unwrap_or_default();
            let expected =
                format!("a journal of version {VERSION} (a newer Ulpscope may be able to read it)");
            Err(Error::at(FilePlace::Line(1), Fault::malformed(expected, found)))
        }
    }
}

/// The number of bytes before the zeros at the end: a journal has space for the next lines.
fn without_zeros(bytes: &[u8]) -> usize {
    let eights = bytes.rchunks_exact(8).take_while(|eight| **eight == [0; 8]).count();
    let rest = &bytes[..bytes.len() - 8 * eights];
    rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// The position of the next newline. Data lines are long, so it checks blocks of bytes with a few instructions each.
fn newline(bytes: &[u8], at: usize) -> Option<usize> {
    const BLOCK: usize = 64;
    let (blocks, _) = bytes.get(at..)?.as_chunks::<BLOCK>();
    let has_newline = |block: &[u8; BLOCK]| block.iter().fold(false, |has, &byte| has | (byte == b'\n'));
    let from = at + BLOCK * blocks.iter().take_while(|block| !has_newline(block)).count();
    bytes[from..].iter().position(|&byte| byte == b'\n').map(|ahead| from + ahead)
}
