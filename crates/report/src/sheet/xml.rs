//! The part of XML that a workbook needs: elements, attributes, and text joined from its pieces.
//!
//! Entities other than the five of XML itself are an error, so a file cannot define entities that expand.

use std::io::{self, BufReader, Read};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use super::error::{At, SheetError, shown};

/// Maximum bytes from one tag to the end of the next. A cell of Excel's longest text has a hundredth of them.
const MAX_PIECE: u64 = 1 << 24;

/// A part of the archive while it is unpacked. Memory holds the bytes from tag to tag, so tags must not be far apart.
pub(super) struct Metered<R> {
    part: R,
    /// Bytes unpacked since the last tag.
    piece: u64,
}

impl<R> Metered<R> {
    pub(super) fn new(part: R) -> Metered<R> {
        Metered { part, piece: 0 }
    }
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.part.read(buffer)?;
        self.piece += read as u64;
        if self.piece > MAX_PIECE {
            return Err(io::Error::other(format!("more than {MAX_PIECE} bytes without a tag")));
        }
        Ok(read)
    }
}

/// The nodes of a document that a workbook needs.
pub(super) enum Node<'a> {
    /// An element begins; an empty one ends at once.
    Start { element: &'a BytesStart<'a>, is_empty: bool },
    /// An element ends.
    End(&'a str),
    /// A piece of text.
    Text(&'a str),
}

/// Walks through a document, to its end.
pub(super) fn walk<R: Read>(
    at: At<'_>,
    input: Metered<R>,
    mut visit: impl FnMut(Node<'_>) -> Result<(), SheetError>,
) -> Result<(), SheetError> {
    let mut reader = Reader::from_reader(BufReader::new(input));
    let mut buffer = Vec::new();
    let mut depth = 0_u64;
    loop {
        buffer.clear();
        reader.get_mut().get_mut().piece = 0;
        let event = reader.read_event_into(&mut buffer);
        let event = event.map_err(|error| {
            at.malformed("XML", format!("{} at byte {}", shown(&error.to_string()), reader.error_position()))
        })?;
        match event {
            Event::Start(element) => {
                depth += 1;
                visit(Node::Start { element: &element, is_empty: false })?;
            }
            Event::Empty(element) => visit(Node::Start { element: &element, is_empty: true })?,
            Event::End(element) => {
                depth = depth.saturating_sub(1);
                visit(Node::End(element.local_name().as_ref()))?;
            }
            Event::Text(text) => visit(Node::Text(&text.xml10_content()))?,
            Event::CData(text) => visit(Node::Text(&text.xml10_content()))?,
            Event::GeneralRef(reference) => visit(Node::Text(&resolve(at, &reference)?))?,
            Event::Eof if depth > 0 => {
                return Err(at.malformed("the end of the document", "a file cut short"));
            }
            Event::Eof => return Ok(()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

/// The value of an attribute.
pub(super) fn attribute(
    at: At<'_>,
    element: &BytesStart<'_>,
    name: &str,
) -> Result<Option<String>, SheetError> {
    let wrong = |found: String| at.malformed(format!("an attribute '{name}'"), shown(&found));
    let Some(found) = element.try_get_attribute(name).map_err(|error| wrong(error.to_string()))? else {
        return Ok(None);
    };
    let value = found.normalized_value(XmlVersion::Implicit1_0).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(value.into_owned()))
}

fn resolve(at: At<'_>, reference: &BytesRef<'_>) -> Result<String, SheetError> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Ok(character.to_string());
    }
    resolve_predefined_entity(reference)
        .map(str::to_owned)
        .ok_or_else(|| at.malformed("one of the entities of XML", shown(&format!("&{};", &**reference))))
}
