//! Calls that are recorded while a graph is captured, and written whenever it is replayed.
//!
//! ```text
//! capture: calls ──► Recording ──► the graph's own State ──► GraphLines ──► GraphCalls
//! replay:  GraphCalls + numbers, ids, tickets, sources of the current step ──► its journal
//! ```
//! While a graph is captured nothing runs. So nothing of it belongs to the step, and its calls have no numbers yet: each
//! has the number of its place in the graph, from 2⁶³ on, which no step reaches. A replay puts the next numbers of the
//! step there. They are in few places: the head of a line (`call`, `id`, `parent`), and the sources of tensors.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ulpscope_dump::journal::encode::{Ticket, add_with_tickets};
use ulpscope_dump::writer::LateNumbers;

use crate::gradient_counts::GradientCounts;
use crate::ledger::StepLedger;
use crate::stack::CallStack;
use crate::state::StepId;

/// The first number of all graphs.
const FIRST: u64 = 1 << 63;

/// Places of one graph.
const PLACES: u64 = 1 << 32;

/// What a source is that the graph gets from outside, before the number of the argument.
const ARGUMENT: &str = "graph argument ";

/// Parents that are no calls.
const FIXED_PARENTS: [&str; 2] = ["optimizer", "clip_grad"];

/// A captured graph of this run; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GraphNumber(pub(crate) u32);

impl GraphNumber {
    /// The first number of its calls.
    pub(crate) fn first(self) -> u64 {
        FIRST + u64::from(self.0) * PLACES
    }
}

/// A call by its place in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GraphPlace {
    graph: GraphNumber,
    index: usize,
}

impl GraphPlace {
    fn of(number: u64) -> Option<GraphPlace> {
        let place = number.checked_sub(FIRST)?;
        let graph = GraphNumber(u32::try_from(place / PLACES).ok()?);
        Some(GraphPlace { graph, index: (place % PLACES) as usize })
    }
}

/// Whether a name is that of a call in a graph, whichever replay of it is meant.
pub fn is_in_graph(name: &str) -> bool {
    Name::of(name).place.is_some()
}

/// The name of a call, or a source: the text around its number, if that is a place in a graph.
#[derive(Clone, Debug)]
struct Name<'a> {
    before: Cow<'a, str>,
    place: Option<GraphPlace>,
    after: Cow<'a, str>,
}

impl<'a> Name<'a> {
    fn of(text: &'a str) -> Name<'a> {
        let mut start = 0;
        for part in text.split('.') {
            let number = (part.len() >= 19).then(|| part.parse().ok()).flatten();
            if let Some(place) = number.and_then(GraphPlace::of) {
                let (before, after) = (&text[..start], &text[start + part.len()..]);
                return Name { before: before.into(), place: Some(place), after: after.into() };
            }
            start += part.len() + 1;
        }
        Name { before: text.into(), place: None, after: "".into() }
    }

    fn into_owned(self) -> Name<'static> {
        Name {
            before: self.before.into_owned().into(),
            place: self.place,
            after: self.after.into_owned().into(),
        }
    }

    /// The text with the number of a replay; `None` if there was none in this step.
    fn at(&self, numbers: &Numbers<'_>) -> Option<String> {
        match self.place {
            None => Some(self.before.to_string()),
            Some(place) => {
                let number = numbers.of(place)?;
                Some(format!("{}{number}{}", self.before, self.after))
            }
        }
    }
}

/// What has a number in a graph.
#[derive(Debug)]
enum Numbered {
    /// A call of a base.
    Call(Arc<str>),
    /// The gradients of a module's parameters: how many each had in the graph before.
    Gradients(String, u64),
}

/// What is recorded of a graph while it is captured.
#[derive(Debug)]
pub(crate) struct GraphLines {
    graph: GraphNumber,
    text: Vec<u8>,
    stacks: BTreeMap<u64, String>,
    numbered: Vec<Numbered>,
    gradients: HashMap<(String, u64), u64>,
    /// Calls that still grow, by name.
    pub(crate) growing: HashMap<String, u64>,
}

impl GraphLines {
    pub(crate) fn new(graph: GraphNumber) -> GraphLines {
        let (growing, gradients) = (HashMap::new(), HashMap::new());
        GraphLines {
            graph,
            text: Vec::new(),
            stacks: BTreeMap::new(),
            numbered: Vec::new(),
            gradients,
            growing,
        }
    }

    /// The number of a call.
    pub(crate) fn call(&mut self, base: &Arc<str>) -> u64 {
        self.add_numbered(Numbered::Call(Arc::clone(base)))
    }

    /// The number of the call that has the gradients of a module's parameters that have had so many.
    pub(crate) fn gradient(&mut self, base: &str, before: u64) -> u64 {
        let key = (base.to_owned(), before);
        if let Some(number) = self.gradients.get(&key) {
            return *number;
        }
        let number = self.add_numbered(Numbered::Gradients(base.to_owned(), before));
        self.gradients.insert(key, number);
        number
    }

    fn add_numbered(&mut self, numbered: Numbered) -> u64 {
        self.numbered.push(numbered);
        self.graph.first() + self.numbered.len() as u64 - 1
    }

    /// Adds lines, given in parts.
    pub(crate) fn add(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.text.extend_from_slice(part));
    }

    /// Adds a stack.
    pub(crate) fn define(&mut self, stack: &CallStack) {
        self.stacks.entry(stack.id).or_insert_with(|| stack.frames.clone());
    }
}

/// A piece of a line.
#[derive(Debug)]
enum Piece {
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

/// The calls of a captured graph.
#[derive(Debug)]
pub struct GraphCalls {
    graph: GraphNumber,
    lines: Vec<Vec<Piece>>,
    pub(crate) stacks: BTreeMap<u64, String>,
    numbered: Vec<Numbered>,
    growing: Vec<(Name<'static>, u64)>,
    pub(crate) gradients: GradientCounts,
    pub(crate) ids: u64,
    pub(crate) tickets: u64,
    /// Calls that count towards a limit, if there is one.
    pub(crate) places: u64,
    pub(crate) ledger: StepLedger,
}

/// What of a graph's state is not in its lines.
pub(crate) struct GraphTotals {
    pub(crate) gradients: GradientCounts,
    /// The last number of a line.
    pub(crate) last_id: u64,
    pub(crate) tickets: u64,
    pub(crate) places: u64,
    pub(crate) ledger: StepLedger,
}

impl GraphCalls {
    pub(crate) fn new(lines: GraphLines, totals: GraphTotals) -> GraphCalls {
        let GraphLines { graph, text, stacks, numbered, growing, .. } = lines;
        let id = |number: u64| number - graph.first();
        let mut growing: Vec<_> =
            growing.iter().map(|(name, number)| (Name::of(name).into_owned(), id(*number))).collect();
        growing.sort_unstable_by_key(|(_, id)| *id);
        GraphCalls {
            graph,
            lines: text.split_inclusive(|&byte| byte == b'\n').map(|line| pieces(line, graph)).collect(),
            stacks,
            numbered,
            growing,
            gradients: totals.gradients,
            ids: id(totals.last_id),
            tickets: totals.tickets,
            places: totals.places,
            ledger: totals.ledger,
        }
    }

    /// The graph.
    pub fn graph(&self) -> GraphNumber {
        self.graph
    }

    /// How many calls there are.
    pub fn len(&self) -> u64 {
        self.ledger.recorded()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The source of the nth argument of a graph, before it is known.
    pub fn argument(number: usize) -> Arc<str> {
        format!("{ARGUMENT}{number}").into()
    }

    /// The numbers of its calls in a replay, given the next number of a call and the unused one of gradients.
    pub(crate) fn numbers(
        &self,
        mut next: impl FnMut(&Arc<str>) -> u64,
        gradients: &GradientCounts,
    ) -> Vec<u64> {
        let number = |numbered: &Numbered| match numbered {
            Numbered::Call(base) => next(base),
            Numbered::Gradients(base, before) => gradients.unused(base) + before,
        };
        self.numbered.iter().map(number).collect()
    }

    /// The lines of a replay, and how many calls are left out: those of a graph that was not replayed in this step.
    pub(crate) fn text(&self, numbers: &Numbers<'_>, first: FirstNumbers, at: &AtReplay) -> (Vec<u8>, u64) {
        let (mut text, mut left_out) = (Vec::new(), 0);
        for line in &self.lines {
            let start = text.len();
            if line.iter().all(|piece| piece.push(numbers, first, at, &mut text).is_some()) {
                continue;
            }
            text.truncate(start);
            left_out += 1;
        }
        (text, left_out)
    }

    /// The calls of a replay that may grow further: their names and ids.
    pub(crate) fn growing(&self, numbers: &Numbers<'_>, first: FirstNumbers) -> Vec<(String, u64)> {
        let named = |(name, id): &(Name<'_>, u64)| Some((name.at(numbers)?, first.id + id));
        self.growing.iter().filter_map(named).collect()
    }
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

/// The latest replay of each graph: its step, and the numbers of its calls.
pub(crate) type Replays = HashMap<GraphNumber, (StepId, Arc<[u64]>)>;

/// The numbers of calls in a replay.
#[derive(Clone, Copy)]
pub(crate) struct Numbers<'a> {
    pub(crate) step: StepId,
    pub(crate) graph: GraphNumber,
    pub(crate) own: &'a [u64],
    /// The backward pass of a graph may be another graph.
    pub(crate) others: &'a Replays,
}

impl Numbers<'_> {
    fn of(&self, place: GraphPlace) -> Option<u64> {
        if place.graph == self.graph {
            return self.own.get(place.index).copied();
        }
        let (step, numbers) = self.others.get(&place.graph)?;
        numbers.get(place.index).copied().filter(|_| *step == self.step)
    }

    /// A name with its number; `None` for that of a graph that was not replayed in this step.
    pub(crate) fn name(&self, name: &str) -> Option<String> {
        Name::of(name).at(self)
    }
}

/// A replay whose calls were written.
pub struct Replayed {
    /// The numbers of its calls.
    pub(crate) numbers: Arc<[u64]>,
    /// The step.
    pub step: StepId,
    graph: GraphNumber,
    /// The ticket of the first tensor that the graph measures.
    pub first_ticket: Ticket,
    /// Where their numbers are expected.
    pub late: Arc<LateNumbers>,
}

impl Replayed {
    pub(crate) fn new(
        (step, graph): (StepId, GraphNumber),
        numbers: Arc<[u64]>,
        (first_ticket, late): (Ticket, Arc<LateNumbers>),
    ) -> Replayed {
        Replayed { numbers, step, graph, first_ticket, late }
    }

    /// The name that a call of the graph, or what it has made, has in this replay; that of another graph's is not known.
    pub fn name(&self, name: &str) -> Option<Arc<str>> {
        let others = Replays::new();
        let numbers = Numbers { step: self.step, graph: self.graph, own: &self.numbers, others: &others };
        numbers.name(name).map(Arc::from)
    }
}

impl Piece {
    /// Appends it; `None` if its line has to be left out.
    fn push(
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
fn pieces(line: &[u8], graph: GraphNumber) -> Vec<Piece> {
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
