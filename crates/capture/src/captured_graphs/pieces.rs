//! The lines of a graph, cut where a replay puts its own numbers: in the head of a line (`call`, `id`, `parent`), and in
//! the sources of tensors.

use std::sync::Arc;

use ulpscope_dump::journal::encode::{Ticket, add_with_tickets};

use crate::captured_graphs::names::{GraphNumber, Name, Numbers};

/// What a source is that the graph gets from outside, before the number of the argument.
pub(super) const ARGUMENT: &str = "graph argument ";

/// Parents that are no calls.
const FIXED_PARENTS: [&str; 2] = ["optimizer", "clip_grad"];
/// A piece of a line.
#[derive(Debug)]
pub(super) enum Piece {
    /// Text that stays, with the marks of tensors that the graph measures.
    Text(Vec<u8>),
    /// The number of a call in the journal.
    Id(u64),
    /// The name of the call.
    Call(Name<'static>),
    /// The key and name of its parent.
    Parent(Name<'static>),
    /// The source of a tensor.
    Source(Name<'static>),
    /// That of a tensor from outside the graph.
    Argument(usize),
}
/// What a replay adds to the numbers in the lines of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstNumbers {
    pub(crate) id: u64,
    pub(crate) ticket: Ticket,
}

/// What the lines of a replay need of the moment.
#[derive(Debug, Default)]
pub struct AtReplay {
    /// The module around the replay.
    pub around: Option<Arc<str>>,
    /// Where the tensors that the graph gets from outside come from, in their order.
    pub arguments: Vec<Arc<str>>,
}
impl Piece {
    /// Appends it; `None` if its line has to be left out.
    pub(super) fn push(
        &self,
        numbers: &Numbers<'_>,
        first: FirstNumbers,
        at: &AtReplay,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        match self {
            Piece::Text(text) => add_with_tickets(text, first.ticket, out),
            Piece::Id(id) => out.extend_from_slice((first.id + id).to_string().as_bytes()),
            Piece::Call(name) => out.extend_from_slice(name.at(numbers)?.as_bytes()),
            Piece::Source(name) => {
                let source = name.at(numbers);
                out.extend_from_slice(source.as_deref().unwrap_or("outside").as_bytes());
            }
            Piece::Argument(number) => {
                let source = at.arguments.get(*number).map_or("outside", |source| source);
                out.extend_from_slice(source.as_bytes());
            }
            Piece::Parent(name) => {
                let is_known = name.place.is_some() || FIXED_PARENTS.contains(&&*name.before);
                let parent =
                    if is_known { name.at(numbers) } else { at.around.as_deref().map(str::to_owned) };
                if let Some(parent) = parent {
                    out.extend_from_slice(b",\"parent\":\"");
                    out.extend_from_slice(parent.as_bytes());
                    out.push(b'"');
                }
            }
        }
        Some(())
    }
}

/// The pieces of a line. Quotes within texts are escaped, so that a key is found by its text.
pub(super) fn pieces(line: &[u8], graph: GraphNumber) -> Vec<Piece> {
    let mut pieces = Pieces { made: Vec::new(), rest: line };
    if pieces.skip_to(b"{\"call\":\"") {
        let name = pieces.take_text();
        pieces.made.push(Piece::Call(Name::of(&name).into_owned()));
        if pieces.rest.starts_with(b"\",\"id\":") {
            pieces.skip_to(b"\",\"id\":");
            pieces.take_id(graph);
        }
    } else if [&b"{\"more\":"[..], b"{\"end\":", b"{\"raised\":"].iter().any(|key| pieces.skip_to(key)) {
        pieces.take_id(graph);
    }
    let head = find(pieces.rest, b"\"data\":").unwrap_or(pieces.rest.len());
    if let Some(parent) = find(&pieces.rest[..head], b",\"parent\":\"") {
        pieces.take(parent);
        pieces.rest = &pieces.rest[b",\"parent\":\"".len()..];
        let name = pieces.take_text();
        pieces.rest = pieces.rest.get(1..).unwrap_or_default();
        pieces.made.push(Piece::Parent(Name::of(&name).into_owned()));
    }
    while let Some(at) = find(pieces.rest, b"\"source\":\"") {
        pieces.take(at + b"\"source\":\"".len());
        let source = pieces.take_text();
        let argument = source.strip_prefix(ARGUMENT).and_then(|number| number.parse().ok());
        pieces.made.push(match argument {
            Some(number) => Piece::Argument(number),
            None => Piece::Source(Name::of(&source).into_owned()),
        });
    }
    pieces.take(pieces.rest.len());
    pieces.made
}

struct Pieces<'a> {
    made: Vec<Piece>,
    rest: &'a [u8],
}

impl Pieces<'_> {
    /// Takes so many bytes as text that stays.
    fn take(&mut self, count: usize) {
        let (text, rest) = self.rest.split_at(count);
        self.rest = rest;
        if !text.is_empty() {
            self.made.push(Piece::Text(text.to_vec()));
        }
    }

    /// Takes the key that the rest begins with; returns whether it does.
    fn skip_to(&mut self, key: &[u8]) -> bool {
        let is_there = self.rest.starts_with(key);
        if is_there {
            self.take(key.len());
        }
        is_there
    }

    /// Takes the content of a text, up to the quote.
    fn take_text(&mut self) -> String {
        let mut end = 0;
        while let Some(byte) = self.rest.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        let (text, rest) = self.rest.split_at(end.min(self.rest.len()));
        self.rest = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    /// Takes the number of a call in the journal.
    fn take_id(&mut self, graph: GraphNumber) {
        let end = self.rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.rest.len());
        let number =
            std::str::from_utf8(&self.rest[..end]).ok().and_then(|digits| digits.parse::<u64>().ok());
        if let Some(id) = number.and_then(|number| number.checked_sub(graph.first())) {
            self.rest = &self.rest[end..];
            self.made.push(Piece::Id(id));
        }
    }
}

fn find(text: &[u8], key: &[u8]) -> Option<usize> {
    text.windows(key.len()).position(|window| window == key)
}
