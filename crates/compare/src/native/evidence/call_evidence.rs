//! What is kept of a call once its rows are made: how far apart its entries are, how large they are, and where they
//! came from.
//!
//! Verdicts need the whole run: whether an error was made at a call or came with its arguments, and whether calls of the
//! same kind have one as large. Rows are too big to keep until then. A run has millions of entries and few different kinds of
//! them: what entries of a kind share is stored once ([`EntryTraits`]), so that an entry takes 72 bytes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use ulpscope_dump::{CallKind, Content, Entry, Role, TensorEntry};
use ulpscope_formats::json::Json;

use crate::native::evidence::entry_store::{EntryPieces, EntryRange, EntrySlice};
use crate::native::evidence::measure::{Basis, Measured, Numbers, State, recorded};
use crate::native::evidence::operation::Operation;
use crate::native::evidence::shared_traits::Shared;
use crate::native::evidence::tensor_error::{TensorError, extent};
use crate::native::evidence::values::is_infinite;
use crate::native::expectation::rounding::unit_roundoff;
use crate::native::thresholds::evidence::TELLING;
use crate::style::Side;

/// A call of either side, or of both.
#[derive(Clone, Debug)]
pub(in crate::native) struct CallEvidence<E = EntrySlice> {
    /// See [`CallEvidence::target`] and [`CallEvidence::golden`].
    pub(in crate::native) calls: CallNumbers,
    pub(in crate::native) kind: CallKind,
    /// Its entries, in the order of its rows.
    pub(in crate::native) entries: E,
    /// What tells the value of each entry from others, on either side, while it is not known that the dump says where entries
    /// came from; 0 for none.
    pub(in crate::native) prints: Option<Box<Prints>>,
    /// Whether it repeats an earlier call for the backward pass, or gives nothing that was not there.
    pub(in crate::native) adds_nothing: bool,
    /// Whether it could not be read on one of the sides.
    pub(in crate::native) is_unread: bool,
    /// Whether the other side was captured at a level that records no such calls, or ran it in a compiled module: that it
    /// is unpaired says nothing.
    pub(in crate::native) is_left_out: bool,
}

/// What tells the values of entries from others.
#[derive(Clone, Debug)]
pub(in crate::native) struct Prints(pub(in crate::native) Vec<[u64; 2]>);

/// The numbers of a call in the target and in the golden.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct CallNumbers([u32; 2]);

impl CallNumbers {
    pub(in crate::native) fn of(target: Option<usize>, golden: Option<usize>) -> CallNumbers {
        CallNumbers([target, golden].map(|call| call.map_or(NONE, |call| call as u32)))
    }

    fn side(self, side: Side) -> Option<usize> {
        let number = self.0[side as usize];
        (number != NONE).then_some(number as usize)
    }
}

/// An entry of either side, or of both. There are millions. Most of what is known of it is in its [`EntryTraits`].
#[derive(Clone, Debug)]
pub(in crate::native) struct EntryEvidence {
    traits: Arc<EntryTraits>,
    /// Its size and its error, where it is a tensor whose numbers both sides have.
    pub(in crate::native) numbers: Option<TensorError>,
    /// The calls of [`EntryEvidence::sources`], or what stands for other sources.
    source_calls: [u32; 2],
}

/// What entries of a kind have in common. A run has few kinds: the same arguments and results of many calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::native) struct EntryTraits {
    /// The number of its row among those of its call.
    pub(in crate::native) row: u32,
    /// See [`EntryEvidence::ordinal`] and [`EntryEvidence::element`].
    ordinal: u32,
    element: u32,
    pub(in crate::native) role: Role,
    pub(in crate::native) is_tensor: bool,
    /// Whether it is a tensor on either side.
    is_numbered: bool,
    /// Whether it is a tensor of values that may have a gradient.
    pub(in crate::native) is_float: bool,
    /// Whether it is a plain number that is infinite: what is made of it is meant to be.
    pub(in crate::native) is_infinite: bool,
    /// Whether it is a tensor of another dtype on the other side.
    pub(in crate::native) is_recast: bool,
    pub(in crate::native) state: Relation,
    /// Whether only statistics were compared, which stay the same where elements change places.
    pub(in crate::native) is_blurred: bool,
    /// Whether it requires a gradient, on either side, where the dump says.
    pub(in crate::native) wants_gradient: [Option<bool>; 2],
    /// Names the path alone: the gradient of an argument stands at the path of the argument.
    pub(in crate::native) path: u64,
    /// The place in the golden, where it differs.
    golden_place: Option<u64>,
    /// The places of both sources, where they have one.
    source_places: [u64; 2],
    /// Of exact values that were compared one by one: how many differ, of how many.
    turned: Option<(u64, u64)>,
}

impl Deref for EntryEvidence {
    type Target = EntryTraits;

    fn deref(&self) -> &EntryTraits {
        &self.traits
    }
}

/// No number.
const NONE: u32 = u32::MAX;

impl Source {
    /// Whether no call made it.
    pub(in crate::native) fn is_given(&self) -> bool {
        matches!(self, Source::Origin | Source::Buffer | Source::Outside)
    }

    /// Whether it is an input of the run: neither made by a call nor part of the model.
    pub(in crate::native) fn is_outside(&self) -> bool {
        *self == Source::Outside
    }
}

/// How two entries are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::native) enum Relation {
    /// Bit for bit the same, or as far as recorded.
    Equal,
    /// Numbers apart: see [`TensorError`].
    Apart,
    /// Exact values apart: integers, truth values, plain values, digests.
    Differs,
    /// Another shape, or another kind of thing.
    Unlike,
    /// A tensor on one side and `None` on the other, as gradients may be.
    Missing,
    /// Nothing to compare by.
    Unknown,
    /// Memory that nothing was written to on either side: there is nothing to compare.
    Blank,
    /// Only one side has it.
    Lone(Side),
}

impl Relation {
    /// Whether nothing is open: the same on both sides, or nothing there to be so.
    pub(in crate::native) fn is_settled(self) -> bool {
        matches!(self, Relation::Equal | Relation::Blank)
    }

    /// Whether nothing can be said.
    pub(in crate::native) fn is_open(self) -> bool {
        matches!(self, Relation::Unknown | Relation::Blank | Relation::Missing | Relation::Lone(_))
    }
}

/// Where an entry came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::native) enum Source {
    /// The dump does not say.
    #[default]
    Unsaid,
    /// A parameter.
    Origin,
    /// A buffer.
    Buffer,
    /// Nothing that was recorded made it.
    Outside,
    /// What lies in the `.grad` of a parameter, named by a number: made by the backward pass, by many calls together.
    Gradient(u64),
    /// An entry of an earlier call: the number of the call, and the place.
    Call(usize, u64),
}

impl Source {
    /// What stands for sources that are no calls, from the last number on.
    const UNSAID: u32 = u32::MAX;
    const ORIGIN: u32 = u32::MAX - 1;
    const BUFFER: u32 = u32::MAX - 2;
    const OUTSIDE: u32 = u32::MAX - 3;
    const GRADIENT: u32 = u32::MAX - 4;

    fn packed(self) -> (u32, u64) {
        match self {
            Source::Unsaid => (Source::UNSAID, 0),
            Source::Origin => (Source::ORIGIN, 0),
            Source::Buffer => (Source::BUFFER, 0),
            Source::Outside => (Source::OUTSIDE, 0),
            Source::Gradient(of) => (Source::GRADIENT, of),
            Source::Call(call, place) => (call as u32, place),
        }
    }

    fn unpacked(call: u32, place: u64) -> Source {
        match call {
            Source::UNSAID => Source::Unsaid,
            Source::ORIGIN => Source::Origin,
            Source::BUFFER => Source::Buffer,
            Source::OUTSIDE => Source::Outside,
            Source::GRADIENT => Source::Gradient(place),
            call => Source::Call(call as usize, place),
        }
    }
}

/// Names an entry within its call.
pub(in crate::native) fn place(role: Role, path: &str) -> u64 {
    place_of(role, hashed(&path))
}

/// The same of a path that was hashed: for one role, as many places as there are paths.
fn place_of(role: Role, path: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    path ^ ODD.wrapping_mul(role as u64 + 1)
}

/// The same number for the same thing, in every run.
pub(in crate::native) fn hashed(thing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

/// Whether a call repeats an earlier one for the backward pass, or all its results have no elements or are arguments of it.
/// Statistics stay the same where elements change places, so only of an operation that keeps them they tell that much.
pub(in crate::native) fn adds_nothing(entries: &[Entry], operation: Operation) -> bool {
    let tensors = |role: Role| {
        let entries = entries.iter().filter(move |entry| entry.role == role);
        entries.filter_map(|entry| match &entry.content {
            Content::Tensor(tensor) => Some(&**tensor),
            _ => None,
        })
    };
    let is_argument = |result: &TensorEntry| {
        let print_of = |tensor: &TensorEntry| print_of(tensor, Some(&recorded(tensor)));
        let print = print_of(result);
        // A single number is too little to tell it from others, but not from the argument it was made of.
        let is_number = result.count() == Some(1) && recorded(result)[0].is_some();
        let is_same = |argument: &TensorEntry| {
            let is_equal = if is_number {
                recorded(argument) == recorded(result)
            } else {
                print != 0 && print_of(argument) == print
            };
            argument.shape == result.shape && is_equal
        };
        tensors(Role::Input).any(is_same)
    };
    let mut results = tensors(Role::Output).peekable();
    tensors(Role::Input).chain(tensors(Role::Output)).any(|tensor| tensor.recompute)
        || results.peek().is_some()
            && results
                .all(|result| result.count() == Some(0) || operation.keeps_places && is_argument(result))
}

impl CallEvidence<EntryRange> {
    /// The same with its entries.
    pub(in crate::native) fn with_entries(self, pieces: &EntryPieces) -> CallEvidence {
        let CallEvidence { calls, kind, entries, prints, adds_nothing, is_unread, is_left_out } = self;
        let entries = pieces.slice(entries);
        CallEvidence { calls, kind, entries, prints, adds_nothing, is_unread, is_left_out }
    }
}

impl CallEvidence {
    /// The number of the call in the target.
    pub(in crate::native) fn target(&self) -> Option<usize> {
        self.calls.side(Side::Target)
    }

    /// Likewise in the golden.
    pub(in crate::native) fn golden(&self) -> Option<usize> {
        self.calls.side(Side::Golden)
    }

    /// Whether only one side has the call.
    pub(in crate::native) fn is_lone(&self) -> bool {
        self.target().is_none() || self.golden().is_none()
    }
}

/// An entry whose traits are not yet stored.
#[derive(Debug)]
pub(in crate::native) struct NewEntry {
    pub(in crate::native) traits: EntryTraits,
    pub(in crate::native) numbers: Option<TensorError>,
    source_calls: [u32; 2],
}

impl NewEntry {
    /// An entry that only one side has.
    pub(in crate::native) fn lone(row: usize, side: Side, entry: &Entry, source: Source) -> NewEntry {
        // To give nothing is to leave it out.
        let state = if is_missing(entry) { Relation::Unknown } else { Relation::Lone(side) };
        let mut seen = NewEntry::at(row, entry, state);
        seen.set_source(side, source);
        if let Content::Tensor(tensor) = &entry.content {
            seen.traits.wants_gradient[side as usize] = wants_gradient(tensor);
        }
        seen
    }

    /// Two entries and what was measured on them.
    pub(in crate::native) fn pair(
        row: usize,
        target: &Entry,
        golden: &Entry,
        measured: &Measured,
        sources: [Source; 2],
    ) -> NewEntry {
        let state = match &measured.state {
            State::Equal | State::BothNan(_) => Relation::Equal,
            State::Apart | State::NonFinite(_) => Relation::Apart,
            State::Differs(_) => Relation::Differs,
            State::Unlike(_) if is_missing(target) != is_missing(golden) => Relation::Missing,
            State::Unlike(_) => Relation::Unlike,
            State::Unknown(_) => Relation::Unknown,
            State::Blank => Relation::Blank,
        };
        let mut seen = NewEntry::at(row, target, state);
        let golden_place = place(golden.role, &golden.path);
        seen.traits.golden_place = Some(golden_place).filter(|&place| place != seen.traits.place());
        seen.traits.is_numbered |= matches!(golden.content, Content::Tensor(_));
        let [target_source, golden_source] = sources;
        seen.set_source(Side::Target, target_source);
        seen.set_source(Side::Golden, golden_source);
        if let (Content::Tensor(one), Content::Tensor(other)) = (&target.content, &golden.content) {
            seen.numbers = extent(one, other, measured);
            seen.traits.is_recast = one.dtype() != other.dtype();
            seen.traits.is_blurred = measured.basis == Basis::Statistics;
            seen.traits.wants_gradient = [one, other].map(|tensor| wants_gradient(tensor));
            let exact = measured.comparison.as_ref().filter(|_| state == Relation::Differs);
            seen.traits.turned = exact.map(|exact| (exact.over_tolerance, exact.distances.count));
        }
        seen
    }

    fn at(row: usize, entry: &Entry, state: Relation) -> NewEntry {
        let ordinal = entry.path.parse().ok().filter(|_| !is_taken(entry.role));
        let (unsaid, nowhere) = Source::Unsaid.packed();
        let traits = EntryTraits {
            row: row as u32,
            ordinal: ordinal.unwrap_or(NONE),
            element: element(entry).unwrap_or(NONE),
            role: entry.role,
            is_tensor: matches!(entry.content, Content::Tensor(_)) || state == Relation::Missing,
            is_numbered: matches!(entry.content, Content::Tensor(_)),
            is_float: matches!(&entry.content, Content::Tensor(tensor) if tensor.dtype().is_some_and(|dtype| unit_roundoff(dtype) > 0.0)),
            is_infinite: is_infinite(&entry.content),
            is_recast: false,
            state,
            is_blurred: false,
            wants_gradient: [None; 2],
            path: hashed(&entry.path),
            golden_place: None,
            source_places: [nowhere; 2],
            turned: None,
        };
        NewEntry { traits, numbers: None, source_calls: [unsaid; 2] }
    }

    fn set_source(&mut self, side: Side, source: Source) {
        (self.source_calls[side as usize], self.traits.source_places[side as usize]) = source.packed();
    }

    /// The entry, with traits that it shares with others.
    pub(in crate::native) fn sharing(self, known: &Shared<EntryTraits>) -> EntryEvidence {
        let NewEntry { traits, numbers, source_calls } = self;
        EntryEvidence { traits: known.of(traits), numbers, source_calls }
    }
}

impl EntryTraits {
    /// Names role and path, so that edges find it.
    pub(in crate::native) fn place(&self) -> u64 {
        place_of(self.role, self.path)
    }
}

impl EntryEvidence {
    /// Likewise in the golden, where noise is measured.
    pub(in crate::native) fn golden_place(&self) -> u64 {
        self.golden_place.unwrap_or_else(|| self.place())
    }

    /// Of exact values that were compared one by one: how many differ, of how many.
    pub(in crate::native) fn turned(&self) -> Option<(f64, f64)> {
        self.turned.map(|(turned, of)| (turned as f64, of as f64))
    }

    /// Of an argument: which of the tensors it is that the call takes. Of a result: its number. Gradients are numbered like
    /// the tensors that they are the gradients of.
    pub(in crate::native) fn ordinal(&self) -> Option<u32> {
        Some(self.ordinal).filter(|&ordinal| ordinal != NONE)
    }

    /// Its place in a list, if it is in one; results may be a list of their own.
    pub(in crate::native) fn element(&self) -> Option<u32> {
        Some(self.element).filter(|&element| element != NONE)
    }

    /// Whether it is a plain argument that is another on the other side.
    pub(in crate::native) fn is_other_argument(&self) -> bool {
        self.is_taken() && !self.is_tensor && matches!(self.state, Relation::Differs | Relation::Unlike)
    }

    /// Whether it is an argument, plain or not, that only one side gives. That may be a default written out.
    pub(in crate::native) fn is_own_argument(&self) -> bool {
        self.is_taken() && matches!(self.state, Relation::Missing | Relation::Lone(_))
    }

    /// Whether it stands, among the results of a backward call, for an argument of its forward call.
    pub(in crate::native) fn is_gradient_of(&self, argument: &EntryEvidence) -> bool {
        match self.ordinal() {
            Some(_) => self.ordinal() == argument.ordinal(),
            None => self.path == argument.path,
        }
    }

    /// Whether it requires a gradient on one side only.
    pub(in crate::native) fn is_cut_off(&self) -> bool {
        matches!(self.wants_gradient, [Some(one), Some(other)] if one != other)
    }

    /// Whether a call takes this, rather than gives it.
    pub(in crate::native) fn is_taken(&self) -> bool {
        is_taken(self.role)
    }

    /// Where it came from, on either side.
    pub(in crate::native) fn sources(&self) -> [Source; 2] {
        [0, 1].map(|side| Source::unpacked(self.source_calls[side], self.source_places[side]))
    }

    pub(in crate::native) fn set_source(&mut self, side: Side, source: Source, known: &Shared<EntryTraits>) {
        let (call, place) = source.packed();
        self.source_calls[side as usize] = call;
        if self.source_places[side as usize] != place {
            let mut traits = EntryTraits::clone(&self.traits);
            traits.source_places[side as usize] = place;
            self.traits = known.of(traits);
        }
    }

    /// Whether it is a tensor that a call takes, that has a different shape or different exact values on the other side, and
    /// that comes from such a source on both.
    pub(in crate::native) fn is_other_from(&self, is_source: impl Fn(&Source) -> bool) -> bool {
        self.is_taken()
            && self.is_tensor
            && matches!(self.state, Relation::Differs | Relation::Unlike)
            && self.sources().iter().all(is_source)
    }

    /// Whether it is what lies in the `.grad` of a parameter.
    pub(in crate::native) fn is_of_gradient(&self) -> bool {
        self.sources().iter().any(|source| matches!(source, Source::Gradient(_)))
    }
}

fn element(entry: &Entry) -> Option<u32> {
    let is_taken = is_taken(entry.role);
    let last = match entry.path.rsplit_once('.') {
        Some((_, last)) => last,
        None if is_taken => return None,
        None => &entry.path,
    };
    last.parse().ok()
}

/// Numbers the tensors that a call takes, in order.
pub(in crate::native) fn number_arguments(entries: &mut [NewEntry]) {
    let traits = entries.iter_mut().map(|entry| &mut entry.traits);
    let taken = traits.filter(|traits| is_taken(traits.role) && traits.is_numbered);
    taken.zip(0..).for_each(|(traits, number)| traits.ordinal = number);
}

fn is_taken(role: Role) -> bool {
    matches!(role, Role::Input | Role::Parameter)
}

fn wants_gradient(tensor: &TensorEntry) -> Option<bool> {
    match tensor.requires_grad {
        Json::Bool(wants) => Some(wants),
        _ => None,
    }
}

fn is_missing(entry: &Entry) -> bool {
    matches!(entry.content, Content::None)
}

/// What tells the value of an entry that one side alone has.
pub(in crate::native) fn print_of_lone(entry: &Entry) -> u64 {
    match &entry.content {
        Content::Tensor(tensor) => print_of(tensor, None),
        _ => 0,
    }
}

/// A digest, or else all the statistics, stand for the value; a tensor of one or two elements is like too many others.
pub(in crate::native) fn print_of(tensor: &TensorEntry, numbers: Option<&Numbers>) -> u64 {
    let Some(count) = tensor.count().filter(|&count| count as f64 >= TELLING.get()) else { return 0 };
    let mut hasher = DefaultHasher::new();
    count.hash(&mut hasher);
    match (&tensor.digest, numbers) {
        (Some(digest), _) => digest.hash(&mut hasher),
        (None, Some(numbers)) if numbers.iter().any(Option::is_some) => {
            numbers.iter().for_each(|number| number.map(f64::to_bits).hash(&mut hasher));
        }
        _ => return 0,
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_come_back_as_they_were_set() {
        let sources = [
            Source::Unsaid,
            Source::Origin,
            Source::Buffer,
            Source::Outside,
            Source::Gradient(7),
            Source::Call(3, 8),
            Source::Call(4, 9),
        ];
        let content = Content::None;
        let entry = Entry { name: String::new(), role: Role::Input, path: "0".to_owned(), content };
        let known = Shared::default();
        let new = || NewEntry::at(0, &entry, Relation::Equal);
        let mut changed = new().sharing(&known);
        for target in sources {
            for golden in sources {
                let mut seen = new();
                seen.set_source(Side::Target, target);
                seen.set_source(Side::Golden, golden);
                assert_eq!(seen.sharing(&known).sources(), [target, golden]);
                changed.set_source(Side::Target, target, &known);
                changed.set_source(Side::Golden, golden, &known);
                assert_eq!(changed.sources(), [target, golden]);
            }
        }
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<EntryEvidence>() <= 72, "{} bytes; a run has millions", size_of::<EntryEvidence>());
    }
}
