//! The outlines of lines: enough to index a file with millions of lines.

use std::borrow::Cow;
use std::ops::Range;

use super::call_lines::Part;
use super::line::Line;
use super::lines::{Lines, MAX_ELEMENTS};
use crate::error::{Error, Fault, Place};
use crate::json::skip;

/// The name and kind of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    /// The name at its start.
    pub name: Cow<'a, str>,
    /// What it adds to its call.
    pub part: Part,
    /// Its byte range.
    pub place: Range<usize>,
}

/// Reads the outlines of the lines of a file, in order. A line that is not JSON, or of no known form, is an error,
/// and the next line is tried. The content of a known form (whether a shape has dimensions, a frame its parts) is
/// checked when the line is decoded.
#[derive(Clone, Debug)]
pub struct Outlines<'a> {
    bytes: &'a [u8],
    lines: Lines<'a>,
}

impl<'a> Outlines<'a> {
    /// The outlines of a file, or of whole lines of it.
    pub fn new(bytes: &'a [u8]) -> Outlines<'a> {
        Outlines { bytes, lines: Lines::within(bytes, 1, 0) }
    }

    /// The outline of a line that is not of the most common kind.
    fn decoded(&mut self, place: Range<usize>) -> Result<Outline<'a>, Error> {
        let number = self.lines.number();
        let (number, line) =
            match Lines::within(&self.bytes[place.clone()], number, place.start as u64).next() {
                Some(line) => line?,
                None => (number, Line::Other(crate::json::Json::Null)),
            };
        match line.name() {
            Some(name) => Ok(Outline { name: name.to_owned().into(), part: Part::of(&line), place }),
            None => Err(Error::at(Place::Line(number), line.unknown_form())),
        }
    }
}

impl<'a> Iterator for Outlines<'a> {
    type Item = Result<Outline<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.lines.next_place()?;
        match outline(&self.bytes[place.clone()]) {
            Some((name, part)) => Some(Ok(Outline { name: name.into(), part, place })),
            None => Some(self.decoded(place)),
        }
    }
}

impl Line {
    /// What is wrong with a line of no known form.
    pub fn unknown_form(&self) -> Fault {
        let found = match self {
            Line::Other(value) => value.describe(),
            _ => "a line of a known form".to_owned(),
        };
        Fault::malformed("a line of a tensor, an argument or a stack", found)
    }
}

/// The name and part of a line of one of the forms that nearly all lines have.
fn outline(text: &[u8]) -> Option<(&str, Part)> {
    let at = skip::space(text, 0);
    if *text.get(at)? != b'[' {
        return None;
    }
    let start = skip::space(text, at + 1);
    if *text.get(start)? != b'"' {
        return None;
    }
    let mut at = skip::text(text, start + 1)?;
    let name = text.get(start + 1..at - 1)?;
    if name.contains(&b'\\') {
        return None;
    }
    let name = std::str::from_utf8(name).ok()?;
    let mut firsts = [b'"'; MAX_ELEMENTS];
    let mut count = 1;
    loop {
        at = skip::space(text, at);
        match *text.get(at)? {
            b',' => {
                at = skip::space(text, at + 1);
                *firsts.get_mut(count)? = *text.get(at)?;
                count += 1;
                at = skip::value(text, at)?;
            }
            b']' => break,
            _ => return None,
        }
    }
    if skip::space(text, at + 1) != text.len() {
        return None;
    }
    let part = match &firsts[..count] {
        [_, b'[', b'"', b'['] => Part::Entry,
        [_, b'-' | b'0'..=b'9', b'[' | b'"', b'"', b'[' | b'"', b'['] => Part::Entry,
        [_, b'['] if name.ends_with("stack_info") => Part::Stack,
        _ => return None,
    };
    Some((name, part))
}
