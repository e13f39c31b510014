//! The little XML a workbook needs: elements, attributes, and text put together from its pieces.
//!
//! Entities other than the five of XML itself are an error: nothing in a file can define one that grows.

use std::io::{self, BufRead, Read};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use super::error::{At, SheetError, shown};

/// A part of the archive, unpacked as far as the budget of all parts together lasts: the sizes that the archive
/// states are claims.
pub(super) struct Metered<'a, R> {
    pub part: R,
    pub left: &'a mut u64,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if *self.left == 0 && !buffer.is_empty() {
            return match self.part.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(io::Error::other("more bytes than the archive states")),
            };
        }
        let most = usize::try_from(*self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.part.read(&mut buffer[..most])?;
        *self.left -= read as u64;
        Ok(read)
    }
}

/// What stands in a document, as far as a workbook needs it.
pub(super) enum Node<'a> {
    /// An element begins; one without content ends at once.
    Start { element: &'a BytesStart<'a>, is_empty: bool },
    /// An element ends.
    End(&'a str),
    /// A piece of text.
    Text(&'a str),
}

/// Walks through a document, to its end.
pub(super) fn walk<R: BufRead>(
    at: At<'_>,
    input: R,
    mut visit: impl FnMut(Node<'_>) -> Result<(), SheetError>,
) -> Result<(), SheetError> {
    let mut reader = Reader::from_reader(input);
    let mut buffer = Vec::new();
    let mut depth = 0_u64;
    loop {
        buffer.clear();
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
