//! The part of YAML that mapping files use: nested maps of texts.
//!
//! The parser returns events, so that nothing unwanted is built: lists, references and further documents are refused at
//! their start, and depth is limited. Every scalar is a text: `5: 0` renames layer 5.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use saphyr_parser::{Event, Parser, Span, StrInput};
use ulpscope_formats::{Error, Fault, Place, file};

use super::Rule;

/// A mapping of every entry of a large model has some millions of lines; a larger file is something else.
const MAX_BYTES: u64 = 256 << 20;

/// Layer mappings have two levels.
const MAX_DEPTH: usize = 2;

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) line: u64,
    pub(super) node: Node,
}

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Text(String),
    Map(Vec<Item>),
}

impl Item {
    /// The item as a rule: its value must be a text.
    pub(super) fn rule(self) -> Result<Rule, Error> {
        match self.node {
            Node::Text(to) if !to.is_empty() => Ok(Rule { from: self.key, to, line: self.line }),
            Node::Text(_) => Err(fault(self.line, "a name after the colon", "nothing")),
            Node::Map(_) => Err(fault(self.line, "a name after the colon", "a map")),
        }
    }
}

/// Reads the items of a file's map.
pub(super) fn read(path: &Path) -> Result<Vec<Item>, Error> {
    let text = read_text(path).map_err(|error| error.in_file(path))?;
    parse(&text).map_err(|error| error.in_file(path))
}

fn read_text(path: &Path) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let file = file::open_regular(path)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Error::whole)?;
    if bytes.len() as u64 > MAX_BYTES {
        let what = "size of a mapping file";
        return Err(Error::whole(Fault::TooLarge { what, limit: MAX_BYTES, found: bytes.len() as u64 }));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() as u64;
        Error::at(Place::Byte(at), Fault::malformed("text in UTF-8", "other bytes"))
    })
}

fn fault(line: u64, expected: &str, found: &str) -> Error {
    Error::at(Place::Line(line), Fault::malformed(expected, found))
}

/// Reads a text.
pub(super) fn parse(text: &str) -> Result<Vec<Item>, Error> {
    let mut events = Events { parser: Parser::new_from_str(text) };
    let mut items = Vec::new();
    let mut documents = 0;
    loop {
        let (event, line) = events.next()?;
        match event {
            Event::StreamEnd => return Ok(items),
            Event::DocumentStart(_) if documents > 0 => {
                return Err(fault(line, "the end of the file", "a second document"));
            }
            Event::DocumentStart(_) => documents += 1,
            Event::MappingStart(..) => items = events.map(MAX_DEPTH)?,
            Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
            // A file with only comments.
            Event::Scalar(text, ..) if text.is_empty() || text == "~" => {}
            other => return Err(fault(line, "lines of `name: name`", kind_of(&other))),
        }
    }
}

struct Events<'a> {
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, u64), Error> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, line_of(&span))),
            Some(Err(error)) => Err(fault(error.marker().line() as u64, "YAML", error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// The items up to the end of a map that has begun.
    fn map(&mut self, depth: usize) -> Result<Vec<Item>, Error> {
        let mut items: Vec<Item> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, line) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(items),
                Event::Scalar(text, ..) => text.into_owned(),
                other => return Err(fault(line, "a name", kind_of(&other))),
            };
            let (event, at) = self.next()?;
            let node = match event {
                Event::Scalar(text, ..) => Node::Text(text.into_owned()),
                Event::MappingStart(..) if depth > 1 => Node::Map(self.map(depth - 1)?),
                Event::MappingStart(..) => {
                    return Err(Error::at(Place::Line(at), Fault::TooDeep { limit: MAX_DEPTH }));
                }
                other => return Err(fault(at.max(line), "a name or a map", kind_of(&other))),
            };
            let item = Item { key, line, node };
            match places.get(&item.key) {
                Some(&place) => items[place] = item,
                None => {
                    places.insert(item.key.clone(), items.len());
                    items.push(item);
                }
            }
        }
    }
}

fn line_of(span: &Span) -> u64 {
    span.start.line() as u64
}

fn kind_of(event: &Event<'_>) -> &'static str {
    match event {
        Event::Alias(_) => "a reference (`*name`), which mapping files do not have",
        Event::SequenceStart(..) | Event::SequenceEnd => "a list",
        Event::MappingStart(..) | Event::MappingEnd => "a map",
        Event::Scalar(..) => "a single value",
        _ => "the end of the file",
    }
}
