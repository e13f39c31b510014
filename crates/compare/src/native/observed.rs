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

use super::entry_store::{EntryPieces, EntryRange, EntrySlice};
use super::extent::{Extent, extent};
use super::measure::{Basis, Measured, Numbers, State, recorded};
use super::operation::Operation;
use super::rounding::unit_roundoff;
use super::shared_traits::Shared;
use super::thresholds::evidence::TELLING;
use super::values::is_infinite;
use crate::style::Side;

/// A call of either side, or of both.
#[derive(Clone, Debug)]
pub(super) struct Observed<E = EntrySlice> {
    /// See [`Observed::target`] and [`Observed::golden`].
    pub(super) calls: CallNumbers,
    pub(super) kind: CallKind,
    /// Its entries, in the order of its rows.
    pub(super) entries: E,
    /// What tells the value of each entry from others, on either side, while it is not known that the dump says where entries
    /// came from; 0 for none.
    pub(super) prints: Option<Box<Prints>>,
    /// Whether it repeats an earlier call for the backward pass, or gives nothing that was not there.
    pub(super) adds_nothing: bool,
    /// Whether it could not be read on one of the sides.
    pub(super) is_unread: bool,
}

/// What tells the values of entries from others.
#[derive(Clone, Debug)]
pub(super) struct Prints(pub(super) Vec<[u64; 2]>);

/// The numbers of a call in the target and in the golden.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallNumbers([u32; 2]);

impl CallNumbers {
    pub(super) fn of(target: Option<usize>, golden: Option<usize>) -> CallNumbers {
        CallNumbers([target, golden].map(|call| call.map_or(NONE, |call| call as u32)))
    }

    fn side(self, side: Side) -> Option<usize> {
        let number = self.0[side as usize];
        (number != NONE).then_some(number as usize)
    }
}

/// An entry of either side, or of both. There are millions. Most of what is known of it is in its [`EntryTraits`].
#[derive(Clone, Debug)]
pub(super) struct Seen {
    traits: Arc<EntryTraits>,
    /// Its size and its error, where it is a tensor whose numbers both sides have.
    pub(super) numbers: Option<Extent>,
    /// The calls of [`Seen::sources`], or what stands for other sources.
    source_calls: [u32; 2],
}

/// What entries of a kind have in common. A run has few kinds: the same arguments and results of many calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EntryTraits {
    /// The number of its row among those of its call.
    pub(super) row: u32,
    /// See [`Seen::ordinal`] and [`Seen::element`].
    ordinal: u32,
    element: u32,
    pub(super) role: Role,
    pub(super) is_tensor: bool,
    /// Whether it is a tensor on either side.
    is_numbered: bool,
    /// Whether it is a tensor of values that may have a gradient.
    pub(super) is_float: bool,
    /// Whether it is a plain number that is infinite: what is made of it is meant to be.
    pub(super) is_infinite: bool,
    /// Whether it is a tensor of another dtype on the other side.
    pub(super) is_recast: bool,
    pub(super) state: Seeing,
    /// Whether only statistics were compared, which stay the same where elements change places.
    pub(super) is_blurred: bool,
    /// Whether it requires a gradient, on either side, where the dump says.
    pub(super) wants_gradient: [Option<bool>; 2],
    /// Names the path alone: the gradient of an argument stands at the path of the argument.
    pub(super) path: u64,
    /// The place in the golden, where it differs.
    golden_place: Option<u64>,
    /// The places of both sources, where they have one.
    source_places: [u64; 2],
    /// Of exact values that were compared one by one: how many differ, of how many.
    turned: Option<(u64, u64)>,
}

impl Deref for Seen {
    type Target = EntryTraits;

    fn deref(&self) -> &EntryTraits {
        &self.traits
    }
}

/// No number.
const NONE: u32 = u32::MAX;

impl Source {
    /// Whether no call made it.
    pub(super) fn is_given(&self) -> bool {
        matches!(self, Source::Origin | Source::Buffer | Source::Outside)
    }

    /// Whether it is an input of the run: neither made by a call nor part of the model.
    pub(super) fn is_outside(&self) -> bool {
        *self == Source::Outside
    }
}

/// How two entries are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Seeing {
    /// Bit for bit the same, or as far as recorded.
    Equal,
    /// Numbers apart: see [`Extent`].
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

impl Seeing {
    /// Whether nothing is open: the same on both sides, or nothing there to be so.
    pub(super) fn is_settled(self) -> bool {
        matches!(self, Seeing::Equal | Seeing::Blank)
    }

    /// Whether nothing can be said.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Seeing::Unknown | Seeing::Blank | Seeing::Missing | Seeing::Lone(_))
    }
}

/// Where an entry came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
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
pub(super) fn place(role: Role, path: &str) -> u64 {
    place_of(role, hashed(&path))
}

/// The same of a path that was hashed: for one role, as many places as there are paths.
fn place_of(role: Role, path: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    path ^ ODD.wrapping_mul(role as u64 + 1)
}

/// The same number for the same thing, in every run.
pub(super) fn hashed(thing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

/// Whether a call repeats an earlier one for the backward pass, or all its results have no elements or are arguments of it.
/// Statistics stay the same where elements change places, so only of an operation that keeps them they tell that much.
pub(super) fn adds_nothing(entries: &[Entry], operation: Operation) -> bool {
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

impl Observed<EntryRange> {
    /// The same with its entries.
    pub(super) fn with_entries(self, pieces: &EntryPieces) -> Observed {
        let Observed { calls, kind, entries, prints, adds_nothing, is_unread } = self;
        Observed { calls, kind, entries: pieces.slice(entries), prints, adds_nothing, is_unread }
    }
}

impl Observed {
    /// The number of the call in the target.
    pub(super) fn target(&self) -> Option<usize> {
        self.calls.side(Side::Target)
    }

    /// Likewise in the golden.
    pub(super) fn golden(&self) -> Option<usize> {
        self.calls.side(Side::Golden)
    }

    /// Whether only one side has the call.
    pub(super) fn is_lone(&self) -> bool {
        self.target().is_none() || self.golden().is_none()
    }
}

/// An entry whose traits are not yet stored.
#[derive(Debug)]
pub(super) struct NewEntry {
    pub(super) traits: EntryTraits,
    pub(super) numbers: Option<Extent>,
    source_calls: [u32; 2],
}

impl NewEntry {
    /// An entry that only one side has.
    pub(super) fn lone(row: usize, side: Side, entry: &Entry, source: Source) -> NewEntry {
        // To give nothing is to leave it out.
        let state = if is_missing(entry) { Seeing::Unknown } else { Seeing::Lone(side) };
        let mut seen = NewEntry::at(row, entry, state);
        seen.set_source(side, source);
        if let Content::Tensor(tensor) = &entry.content {
            seen.traits.wants_gradient[side as usize] = wants_gradient(tensor);
        }
        seen
    }

    /// Two entries and what was measured on them.
    pub(super) fn pair(
        row: usize,
        target: &Entry,
        golden: &Entry,
        measured: &Measured,
        sources: [Source; 2],
    ) -> NewEntry {
        let state = match &measured.state {
            State::Equal | State::BothNan(_) => Seeing::Equal,
            State::Apart | State::NonFinite(_) => Seeing::Apart,
            State::Differs(_) => Seeing::Differs,
            State::Unlike(_) if is_missing(target) != is_missing(golden) => Seeing::Missing,
            State::Unlike(_) => Seeing::Unlike,
            State::Unknown(_) => Seeing::Unknown,
            State::Blank => Seeing::Blank,
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
            let exact = measured.comparison.as_ref().filter(|_| state == Seeing::Differs);
            seen.traits.turned = exact.map(|exact| (exact.over_tolerance, exact.distances.count));
        }
        seen
    }

    fn at(row: usize, entry: &Entry, state: Seeing) -> NewEntry {
        let ordinal = entry.path.parse().ok().filter(|_| !is_taken(entry.role));
        let (unsaid, nowhere) = Source::Unsaid.packed();
        let traits = EntryTraits {
            row: row as u32,
            ordinal: ordinal.unwrap_or(NONE),
            element: element(entry).unwrap_or(NONE),
            role: entry.role,
            is_tensor: matches!(entry.content, Content::Tensor(_)) || state == Seeing::Missing,
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
    pub(super) fn sharing(self, known: &Shared<EntryTraits>) -> Seen {
        let NewEntry { traits, numbers, source_calls } = self;
        Seen { traits: known.of(traits), numbers, source_calls }
    }
}

impl EntryTraits {
    /// Names role and path, so that edges find it.
    pub(super) fn place(&self) -> u64 {
        place_of(self.role, self.path)
    }
}

impl Seen {
    /// Likewise in the golden, where noise is measured.
    pub(super) fn golden_place(&self) -> u64 {
        self.golden_place.unwrap_or_else(|| self.place())
    }

    /// Of exact values that were compared one by one: how many differ, of how many.
    pub(super) fn turned(&self) -> Option<(f64, f64)> {
        self.turned.map(|(turned, of)| (turned as f64, of as f64))
    }

    /// Of an argument: which of the tensors it is that the call takes. Of a result: its number. Gradients are numbered like
    /// the tensors that they are the gradients of.
    pub(super) fn ordinal(&self) -> Option<u32> {
        Some(self.ordinal).filter(|&ordinal| ordinal != NONE)
    }

    /// Its place in a list, if it is in one; results may be a list of their own.
    pub(super) fn element(&self) -> Option<u32> {
        Some(self.element).filter(|&element| element != NONE)
    }

    /// Whether it is a plain argument that is another on the other side.
    pub(super) fn is_other_argument(&self) -> bool {
        self.is_taken() && !self.is_tensor && matches!(self.state, Seeing::Differs | Seeing::Unlike)
    }

    /// Whether it is an argument, plain or not, that only one side gives. That may be a default written out.
    pub(super) fn is_own_argument(&self) -> bool {
        self.is_taken() && matches!(self.state, Seeing::Missing | Seeing::Lone(_))
    }

    /// Whether it stands, among the results of a backward call, for an argument of its forward call.
    pub(super) fn is_gradient_of(&self, argument: &Seen) -> bool {
        match self.ordinal() {
            Some(_) => self.ordinal() == argument.ordinal(),
            None => self.path == argument.path,
        }
    }

    /// Whether it requires a gradient on one side only.
    pub(super) fn is_cut_off(&self) -> bool {
        matches!(self.wants_gradient, [Some(one), Some(other)] if one != other)
    }

    /// Whether a call takes this, rather than gives it.
    pub(super) fn is_taken(&self) -> bool {
        is_taken(self.role)
    }

    /// Where it came from, on either side.
    pub(super) fn sources(&self) -> [Source; 2] {
        [0, 1].map(|side| Source::unpacked(self.source_calls[side], self.source_places[side]))
    }

    pub(super) fn set_source(&mut self, side: Side, source: Source, known: &Shared<EntryTraits>) {
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
    pub(super) fn is_other_from(&self, is_source: impl Fn(&Source) -> bool) -> bool {
        self.is_taken()
            && self.is_tensor
            && matches!(self.state, Seeing::Differs | Seeing::Unlike)
            && self.sources().iter().all(is_source)
    }

    /// Whether it is what lies in the `.grad` of a parameter.
    pub(super) fn is_of_gradient(&self) -> bool {
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
pub(super) fn number_arguments(entries: &mut [NewEntry]) {
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
pub(super) fn print_of_lone(entry: &Entry) -> u64 {
    match &entry.content {
        Content::Tensor(tensor) => print_of(tensor, None),
        _ => 0,
    }
}

/// A digest, or else all the statistics, stand for the value; a tensor of one or two elements is like too many others.
pub(super) fn print_of(tensor: &TensorEntry, numbers: Option<&Numbers>) -> u64 {
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
        let new = || NewEntry::at(0, &entry, Seeing::Equal);
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
        assert!(size_of::<Seen>() <= 72, "{} bytes; a run has millions", size_of::<Seen>());
    }
}
