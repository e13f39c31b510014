//! `dump.json` and `debug.json`: a header about the run, then every call in order.

use std::io::Write;
use std::ops::Range;

use super::item::Item;
use super::{LAYOUT, body};
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::json::{Event, Json, Reader, Writer};

/// Maximum number of keys beside `data`. The tools write four.
const MAX_HEADER_KEYS: usize = 1024;

/// One entry of `data`: a call, a module's gradients, or a variable saved by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `Functional.linear.0.forward`, `Module.fc.Linear.forward.0`, …
    pub key: String,
    /// A dictionary of sections for a call; in `debug.json`, the saved value.
    pub body: Item,
}

impl Call {
    /// The body at a place that [`DumpJson::next_place`] returned.
    pub fn body_at(bytes: &Bytes, place: Range<usize>) -> Result<Item, Error> {
        let text = bytes.get(place.clone()).unwrap_or_default();
        body::read(text).map(Ok).unwrap_or_else(|| {
            // Lines are counted only here, where there may be an error to report with its position in the file.
            let before = bytes.get(..place.start).unwrap_or_default();
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
            Reader::within(text, line, place.start as u64).value().map(Item::from_json)
        })
    }

    /// The sections (`input_args`, `input_kwargs`, `output`, `parameters`, `input`, or the names of parameters)
    /// in file order; none if the body is not a dictionary.
    pub fn sections(&self) -> &[(String, Item)] {
        match &self.body {
            Item::Dict(sections) => sections,
            _ => &[],
        }
    }

    /// A section by name.
    pub fn section(&self, name: &str) -> Option<&Item> {
        self.sections().iter().rev().find(|(section, _)| section == name).map(|(_, item)| item)
    }
}

/// Reads a dump call by call, in file order. Only one call is in memory.
///
/// The iterator returns every complete call. If the file is truncated or malformed, it then returns one error and
/// ends.
#[derive(Debug)]
pub struct DumpJson<'a> {
    reader: Reader<'a>,
    /// Top-level keys before `data`.
    before: Vec<(String, Json)>,
    /// Top-level keys after it.
    after: Vec<(String, Json)>,
    /// Whether `after` was read ahead of time because there was nothing before `data`.
    looked_ahead: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Calls,
    Done,
}

impl<'a> DumpJson<'a> {
    /// Reads the start of a dump, up to the calls. If `task` is not before them, the file is scanned once to find the
    /// keys after them.
    pub fn new(bytes: &'a Bytes) -> Result<DumpJson<'a>, Error> {
        let mut reader = Reader::new(bytes);
        match reader.expect_event()? {
            Event::ObjectStart => {}
            other => return Err(reader.unexpected("an object", &other)),
        }
        let mut before = Vec::new();
        let has_data = read_header(&mut reader, &mut before)?;
        if !has_data {
            return Err(reader.error(Fault::malformed("a key \"data\"", "the end of the object")));
        }
        match reader.expect_event()? {
            Event::ObjectStart => {}
            other => return Err(reader.unexpected("an object of calls after the key \"data\"", &other)),
        }
        let mut dump =
            DumpJson { reader, before, after: Vec::new(), looked_ahead: false, state: State::Calls };
        if dump.header("task").is_none() {
            dump.look_ahead();
        }
        Ok(dump)
    }

    /// Finds the keys after the calls. Errors are left to the iterator, which reports them when it reaches them.
    fn look_ahead(&mut self) {
        let mut ahead = self.reader.clone();
        let depth = ahead.depth();
        while ahead.depth() >= depth {
            match ahead.skip_event() {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            }
        }
        let mut after = Vec::new();
        if matches!(read_header(&mut ahead, &mut after), Ok(false)) {
            self.after = after;
            self.looked_ahead = true;
        }
    }

    /// The value of a top-level key, before or after the calls. Keys after the calls are known once the calls have
    /// been read, or from the start if `task` is one of them.
    pub fn header(&self, key: &str) -> Option<&Json> {
        let keys = self.after.iter().rev().chain(self.before.iter().rev());
        keys.filter(|(name, _)| name == key).map(|(_, value)| value).next()
    }

    /// `statistics`, `tensor`, …
    pub fn task(&self) -> Option<&str> {
        self.header("task").and_then(Json::as_str)
    }

    /// `L0`, `L1`, `mix`, `debug`.
    pub fn level(&self) -> Option<&str> {
        self.header("level").and_then(Json::as_str)
    }

    /// `pytorch`, `mindspore`; absent up to 1.1.
    pub fn framework(&self) -> Option<&str> {
        self.header("framework").and_then(Json::as_str)
    }

    /// Where the run stored its tensor files: a path of the machine that ran it. It is a hint and must not be
    /// followed.
    pub fn dump_data_dir(&self) -> Option<&str> {
        self.header("dump_data_dir").and_then(Json::as_str)
    }

    /// Top-level keys before the calls, in order.
    pub fn before(&self) -> &[(String, Json)] {
        &self.before
    }

    /// Top-level keys after the calls, in order; complete once the iterator has ended.
    pub fn after(&self) -> &[(String, Json)] {
        &self.after
    }

    /// Skips the next call and returns its key and the place of its body in the file, for
    /// [`Call::body_at`]. Only the key is decoded, so that a dump of any size can be indexed.
    pub fn next_place(&mut self) -> Option<Result<(String, Range<usize>), Error>> {
        if self.state == State::Done {
            return None;
        }
        let place = self.read_place().transpose();
        if !matches!(place, Some(Ok(_))) {
            self.state = State::Done;
        }
        place
    }

    fn read_place(&mut self) -> Result<Option<(String, Range<usize>)>, Error> {
        let Some(key) = self.read_key()? else { return Ok(None) };
        let start = self.reader.position();
        self.reader.skip_value()?;
        Ok(Some((key, start..self.reader.position())))
    }

    fn read_call(&mut self) -> Result<Option<Call>, Error> {
        let Some(key) = self.read_key()? else { return Ok(None) };
        let body = self.reader.value().map_err(|error| error.in_part(&key))?;
        Ok(Some(Call { key, body: Item::from_json(body) }))
    }

    /// The key of the next call, or nothing once the calls and everything after them have been read.
    fn read_key(&mut self) -> Result<Option<String>, Error> {
        if let Event::Key(key) = self.reader.expect_event()? {
            return Ok(Some(key.into_owned()));
        }
        let mut after = Vec::new();
        if read_header(&mut self.reader, &mut after)? {
            return Err(self.reader.error(Fault::malformed("one key \"data\"", "a second")));
        }
        self.reader.end()?;
        if !self.looked_ahead {
            self.after = after;
        }
        Ok(None)
    }
}

impl Iterator for DumpJson<'_> {
    type Item = Result<Call, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Done {
            return None;
        }
        let call = self.read_call().transpose();
        if !matches!(call, Some(Ok(_))) {
            self.state = State::Done;
        }
        call
    }
}

/// Reads the keys of the top-level object up to `data` (returns true) or to its end (returns false).
fn read_header(reader: &mut Reader<'_>, keys: &mut Vec<(String, Json)>) -> Result<bool, Error> {
    loop {
        match reader.expect_event()? {
            Event::Key(key) if key == "data" => return Ok(true),
            Event::Key(key) => {
                let key = key.into_owned();
                if keys.len() == MAX_HEADER_KEYS {
                    return Err(reader.error(Fault::TooLarge {
                        what: "the number of keys beside \"data\"",
                        limit: MAX_HEADER_KEYS as u64,
                        found: MAX_HEADER_KEYS as u64 + 1,
                    }));
                }
                let value = reader.value().map_err(|error| error.in_part(&key))?;
                keys.push((key, value));
            }
            _ => return Ok(false),
        }
    }
}

/// Writes a dump call by call. Call [`DumpWriter::finish`] at the end.
pub struct DumpWriter<'w> {
    json: Writer<'w>,
}

impl<'w> DumpWriter<'w> {
    /// Starts a dump with its top-level keys.
    pub fn new(out: &'w mut dyn Write, before: &[(String, Json)]) -> Result<DumpWriter<'w>, Error> {
        let mut json = Writer::new(out, LAYOUT);
        json.start_object()?;
        for (key, value) in before {
            json.key(key)?;
            json.json(value)?;
        }
        json.key("data")?;
        json.start_object()?;
        Ok(DumpWriter { json })
    }

    /// Writes one call.
    pub fn call(&mut self, call: &Call) -> Result<(), Error> {
        self.json.key(&call.key)?;
        call.body
            .write(&mut self.json)
            .map_err(|error| Error { place: Place::Part(shortened(&call.key)), ..error })
    }

    /// Ends the dump, with the top-level keys after the calls, if any.
    pub fn finish(mut self, after: &[(String, Json)]) -> Result<(), Error> {
        self.json.end()?;
        for (key, value) in after {
            self.json.key(key)?;
            self.json.json(value)?;
        }
        self.json.end()?;
        self.json.finish()
    }
}
