//! Reads lines from bytes, one at a time.

use std::ops::Range;

use super::line::{Frame, Line, Payload, Shape, Values};
use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place};
use crate::json::tree::{ITEM_SIZE, TREE};
use crate::json::{Event, Json, Reader};

/// The longest line that is read. The tools refuse whole files larger than this.
pub const MAX_LINE_BYTES: u64 = 1 << 30;

/// The longest list of a known form.
pub(super) const MAX_ELEMENTS: usize = 6;

/// Reads the lines of a file. Each has its number, from 1. A bad line is an error, and the next line is tried.
/// Only one line is in memory.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    number: u64,
    /// The byte of `bytes[0]` in the file.
    origin: u64,
}

impl<'a> Lines<'a> {
    /// The lines of a file.
    pub fn new(bytes: &'a Bytes) -> Lines<'a> {
        Lines { bytes, at: 0, number: 0, origin: 0 }
    }

    /// The lines of a part of a file; errors name places counted from the given line and byte.
    pub fn within(bytes: &'a [u8], line: u64, byte: u64) -> Lines<'a> {
        Lines { bytes, at: 0, number: line.saturating_sub(1), origin: byte }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The number of the line just read.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Skips to the next line that is not blank, and returns its place without the line end.
    pub fn next_place(&mut self) -> Option<Range<usize>> {
        loop {
            let start = self.at;
            let rest = self.bytes.get(start..).filter(|rest| !rest.is_empty())?;
            let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            self.at = start + length + 1;
            self.number += 1;
            if !rest[..length].trim_ascii().is_empty() {
                return Some(start..start + length);
            }
        }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<(u64, Line), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.next_place()?;
        let start = self.origin + place.start as u64;
        let text = &self.bytes[place];
        if text.len() as u64 > MAX_LINE_BYTES {
            let fault = Fault::TooLarge { what: "a line", limit: MAX_LINE_BYTES, found: text.len() as u64 };
            return Some(Err(Error::at(Place::Line(self.number), fault)));
        }
        Some(read_line(Reader::within(text, self.number, start)).map(|line| (self.number, line)))
    }
}

/// One element of a line: lists of numbers use a narrow type, everything else is small.
enum Element {
    List(Values),
    Value(Json),
}

impl Element {
    /// The memory of its numbers if each becomes a separate value.
    fn size_as_json(&self) -> usize {
        match self {
            Element::List(Values::Mixed(_)) | Element::Value(_) => 0,
            Element::List(values) => values.len().saturating_mul(ITEM_SIZE),
        }
    }

    fn into_json(self) -> Json {
        match self {
            Element::List(values) => Json::List(values.into_json()),
            Element::Value(value) => value,
        }
    }
}

fn read_line(mut reader: Reader<'_>) -> Result<Line, Error> {
    let whole = reader.clone();
    match reader.expect_event()? {
        Event::ListStart => {}
        other => return Err(reader.unexpected("a list", &other)),
    }
    let budget = reader.budget();
    let mut elements = Vec::with_capacity(MAX_ELEMENTS);
    loop {
        match reader.expect_event()? {
            Event::ListEnd => break,
            Event::ListStart => elements.push(Element::List(read_values(&mut reader, &budget)?)),
            event => elements.push(Element::Value(reader.value_within(event, &budget)?)),
        }
        if elements.len() > MAX_ELEMENTS {
            return read_other(whole);
        }
    }
    reader.end()?;
    let charged = |fault: Fault| reader.error(fault);
    if let [.., Element::List(stats)] = elements.as_slice()
        && elements.len() == MAX_ELEMENTS
    {
        budget.charge(TREE, stats.len().saturating_mul(ITEM_SIZE)).map_err(charged)?;
    }
    recognise(elements).or_else(|elements| {
        let size = elements.iter().map(Element::size_as_json).fold(0, usize::saturating_add);
        budget.charge(TREE, size).map_err(charged)?;
        Ok(Line::Other(Json::List(elements.into_iter().map(Element::into_json).collect())))
    })
}

fn read_other(mut reader: Reader<'_>) -> Result<Line, Error> {
    let value = reader.value()?;
    reader.end()?;
    Ok(Line::Other(value))
}

/// The items of a list after its opening bracket.
fn read_values(reader: &mut Reader<'_>, budget: &Budget) -> Result<Values, Error> {
    let mut values = Values::Floats(Vec::new());
    loop {
        let event = reader.expect_event()?;
        match (&mut values, event) {
            (_, Event::ListEnd) => return Ok(values),
            (Values::Floats(floats), Event::Float(number)) => floats.push(number),
            (Values::Floats(floats), Event::Int(number))
                if floats.is_empty() && i64::try_from(number).is_ok() =>
            {
                values = Values::Ints(vec![number as i64]);
            }
            (Values::Ints(ints), Event::Int(number)) if i64::try_from(number).is_ok() => {
                ints.push(number as i64);
            }
            (_, event) => {
                let numbers = if matches!(values, Values::Mixed(_)) { 0 } else { values.len() };
                budget
                    .charge(TREE, numbers.saturating_mul(ITEM_SIZE))
                    .and_then(|()| budget.charge_push(TREE, values.len(), ITEM_SIZE))
                    .map_err(|fault| reader.error(fault))?;
                let mut items = values.into_json();
                items.push(reader.value_within(event, budget)?);
                values = Values::Mixed(items);
            }
        }
    }
}

/// Finds the known form of a list. A list of no known form is returned unchanged.
fn recognise(mut elements: Vec<Element>) -> Result<Line, Vec<Element>> {
    match elements.as_mut_slice() {
        [Element::Value(Json::Str(name)), second] => {
            if let Some(line) = recognise_pair(name, second) {
                return Ok(line);
            }
        }
        [
            Element::Value(Json::Str(name)),
            Element::List(values),
            Element::Value(Json::Str(dtype)),
            Element::List(shape),
        ] => {
            if let Some(shape) = dims(shape) {
                let values = std::mem::replace(values, Values::Floats(Vec::new()));
                let (name, dtype) = (std::mem::take(name), std::mem::take(dtype));
                return Ok(Line::HooksTensor { name, values, dtype, shape });
            }
        }
        [
            Element::Value(Json::Str(name)),
            Element::Value(Json::Int(dump_step)),
            third,
            Element::Value(Json::Str(dtype)),
            shape,
            Element::List(stats),
        ] => {
            // The payload is moved out last: after that the list cannot be returned unchanged.
            if let Some(shape) = entry_shape(shape)
                && let Some(payload) = payload(third)
            {
                return Ok(Line::PtdbgEntry {
                    name: std::mem::take(name),
                    dump_step: *dump_step,
                    payload,
                    dtype: std::mem::take(dtype),
                    shape,
                    stats: std::mem::replace(stats, Values::Floats(Vec::new())).into_json(),
                });
            }
        }
        _ => {}
    }
    Err(elements)
}

/// A line of two elements: a stack, a frame of one, or an argument that is not a tensor.
fn recognise_pair(name: &mut String, second: &mut Element) -> Option<Line> {
    if name.ends_with("_stack_info") || name.ends_with(".stack_info") {
        let Element::List(Values::Mixed(items)) = second else {
            // A stack that could not be recorded is an empty list.
            return matches!(second, Element::List(values) if values.is_empty())
                .then(|| Line::Stack { name: std::mem::take(name), frames: Vec::new() });
        };
        if !items.iter().all(is_frame) {
            return None;
        }
        let frames = items.iter_mut().filter_map(take_frame).collect();
        return Some(Line::Stack { name: std::mem::take(name), frames });
    }
    let numbered =
        name.rsplit_once("_stack_info.").is_some_and(|(_, n)| n.bytes().all(|b| b.is_ascii_digit()));
    match second {
        Element::Value(Json::Str(frame)) if numbered => {
            Some(Line::HooksFrame { name: std::mem::take(name), frame: std::mem::take(frame) })
        }
        Element::Value(value) => {
            let value = std::mem::replace(value, Json::Null);
            Some(Line::HooksValue { name: std::mem::take(name), value })
        }
        Element::List(_) => None,
    }
}

fn is_frame(item: &Json) -> bool {
    matches!(item.as_list(), Some([Json::Str(_), Json::Str(_), Json::Str(_), Json::Str(_) | Json::Null]))
}

fn take_frame(item: &mut Json) -> Option<Frame> {
    let Json::List(parts) = item else { return None };
    let mut parts = parts.iter_mut().map(|part| match part {
        Json::Str(text) => Some(std::mem::take(text)),
        _ => None,
    });
    let [file, line, function] = std::array::from_fn(|_| parts.next().flatten());
    Some(Frame { file: file?, line: line?, function: function?, code: parts.next().flatten() })
}

/// Dimensions, unless one is negative or not an integer.
fn dims(shape: &Values) -> Option<Vec<u64>> {
    match shape {
        Values::Ints(dims) => dims.iter().map(|&dim| u64::try_from(dim).ok()).collect(),
        other => other.is_empty().then(Vec::new),
    }
}

fn entry_shape(element: &Element) -> Option<Shape> {
    match element {
        Element::List(shape) => dims(shape).map(Shape::Dims),
        Element::Value(Json::Str(text)) => Some(Shape::Text(text.clone())),
        Element::Value(_) => None,
    }
}

fn payload(element: &mut Element) -> Option<Payload> {
    match element {
        Element::List(values) => Some(Payload::Values(std::mem::replace(values, Values::Floats(Vec::new())))),
        Element::Value(Json::Str(text)) => Some(Payload::Digest(std::mem::take(text))),
        Element::Value(_) => None,
    }
}
