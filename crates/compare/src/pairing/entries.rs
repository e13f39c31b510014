//! Pairs the entries of two paired calls.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use ulpscope_dump::{Content, Entry, Role};

use crate::mapping::Mapping;
use crate::style::Side;

/// What made two entries a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryHow {
    /// The same argument or result of the two calls.
    Place,
    /// Tensors of the same shape in the same order among those without an equal name: one side passed by position what
    /// the other passed by name.
    Order,
    /// A mapping file says so.
    Mapped,
}

/// Two paired entries.
#[derive(Clone, Copy, Debug)]
pub struct EntryPair<'a> {
    /// The target's.
    pub target: &'a Entry,
    /// The golden's.
    pub golden: &'a Entry,
    /// Why.
    pub how: EntryHow,
}

/// A pair of entries, or one that only one side has.
#[derive(Clone, Copy, Debug)]
pub enum EntryUnit<'a> {
    /// On both sides.
    Pair(EntryPair<'a>),
    /// In the target only.
    TargetOnly {
        /// It.
        entry: &'a Entry,
        /// Why it is alone.
        reason: EntryReason,
    },
    /// In the golden only.
    GoldenOnly {
        /// It.
        entry: &'a Entry,
        /// Why it is alone.
        reason: EntryReason,
    },
}

/// Why an entry has no counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryReason {
    /// The side that lacks it.
    pub other: Side,
    /// Its role in its call.
    pub role: Role,
    /// Entries of that role on the other side.
    pub there: usize,
}

impl fmt::Display for EntryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = self.other.word();
        let role = self.role.word();
        match self.there {
            0 => write!(f, "the call in {other} has no {role} at all"),
            1 => write!(f, "the call in {other} has a different {role} only"),
            there => write!(f, "none of the {there} {role}s of the call in {other} stands at this place"),
        }
    }
}

/// Up to so many entries are compared with each other to see that no two have the same place.
const MOST_COMPARED: usize = 32;

/// Pairs the entries of two calls: by the mapping's rows, by role and path, and the rest by order and shape. In the
/// target's order; entries that only the golden has follow the entry that precedes them there.
pub fn pair_entries<'a>(target: &'a [Entry], golden: &'a [Entry], mapping: &Mapping) -> Vec<EntryUnit<'a>> {
    if !mapping.has_rows() && have_same_places(target, golden) {
        let pair = |(target, golden)| EntryUnit::Pair(EntryPair { target, golden, how: EntryHow::Place });
        return target.iter().zip(golden).map(pair).collect();
    }
    let mut pairs = Pairs { of_target: vec![None; target.len()], of_golden: vec![None; golden.len()] };
    let by_name: HashMap<&str, usize> =
        numbered(golden).map(|(at, entry)| (entry.name.as_str(), at)).collect();
    for (at, entry) in numbered(target) {
        if let Some(&partner) = mapping.row(&entry.name).and_then(|row| by_name.get(row)) {
            pairs.join(at, partner, EntryHow::Mapped);
        }
    }
    let mut by_place: HashMap<(Role, &str), usize> = HashMap::new();
    for (at, entry) in numbered(golden) {
        by_place.entry((entry.role, entry.path.as_str())).or_insert(at);
    }
    for (at, entry) in numbered(target) {
        if let Some(&partner) = by_place.get(&(entry.role, entry.path.as_str())) {
            pairs.join(at, partner, EntryHow::Place);
        }
    }
    pairs.by_order(target, golden);
    pairs.units(target, golden)
}

/// Whether both calls have entries at the same places in the same order, each place once. That is so of nearly all calls, and
/// pairs them without a table.
fn have_same_places(target: &[Entry], golden: &[Entry]) -> bool {
    let is_same = |one: &Entry, other: &Entry| one.role == other.role && one.path == other.path;
    let is_single = |(at, entry): (usize, &Entry)| !target[..at].iter().any(|other| is_same(entry, other));
    target.len() == golden.len()
        && target.len() <= MOST_COMPARED
        && target.iter().zip(golden).all(|(one, other)| is_same(one, other))
        && numbered(target).all(is_single)
}

fn numbered(entries: &[Entry]) -> impl Iterator<Item = (usize, &Entry)> {
    entries.iter().enumerate()
}

struct Pairs {
    of_target: Vec<Option<(usize, EntryHow)>>,
    of_golden: Vec<Option<usize>>,
}

impl Pairs {
    fn join(&mut self, target: usize, golden: usize, how: EntryHow) {
        if self.of_target[target].is_none() && self.of_golden[golden].is_none() {
            self.of_target[target] = Some((golden, how));
            self.of_golden[golden] = Some(target);
        }
    }

    fn by_order(&mut self, target: &[Entry], golden: &[Entry]) {
        let mut alike: HashMap<(Role, &[u64]), VecDeque<usize>> = HashMap::new();
        for (at, entry) in numbered(golden).filter(|(at, _)| self.of_golden[*at].is_none()) {
            if let Some(shape) = shape_of(entry) {
                alike.entry((entry.role, shape)).or_default().push_back(at);
            }
        }
        for (at, entry) in numbered(target) {
            let shape = shape_of(entry).filter(|_| self.of_target[at].is_none());
            let partners = shape.and_then(|shape| alike.get_mut(&(entry.role, shape)));
            if let Some(partner) = partners.and_then(VecDeque::pop_front) {
                self.join(at, partner, EntryHow::Order);
            }
        }
    }

    fn units<'a>(&self, target: &'a [Entry], golden: &'a [Entry]) -> Vec<EntryUnit<'a>> {
        let mut units = Vec::with_capacity(target.len());
        // The golden's unpaired entries, by the pair that precedes them, if any.
        let mut lonely: Vec<(Option<usize>, usize)> = Vec::new();
        let mut before = None;
        for (at, partner) in self.of_golden.iter().enumerate() {
            match partner {
                Some(partner) => before = Some(*partner),
                None => lonely.push((before, at)),
            }
        }
        lonely.sort_by_key(|(before, _)| *before);
        let mut lonely = lonely.into_iter().peekable();
        let (ours, theirs) = (counts(target), counts(golden));
        let reason = |entry: &Entry, other, counts: &HashMap<Role, usize>| {
            let there = counts.get(&entry.role).copied().unwrap_or(0);
            EntryReason { other, role: entry.role, there }
        };
        let mut insert = |units: &mut Vec<EntryUnit<'a>>, place: Option<usize>| {
            while let Some((_, at)) = lonely.next_if(|(before, _)| *before <= place) {
                let entry = &golden[at];
                units.push(EntryUnit::GoldenOnly { entry, reason: reason(entry, Side::Target, &ours) });
            }
        };
        insert(&mut units, None);
        for (at, entry) in numbered(target) {
            units.push(match self.of_target[at] {
                Some((partner, how)) => {
                    EntryUnit::Pair(EntryPair { target: entry, golden: &golden[partner], how })
                }
                None => EntryUnit::TargetOnly { entry, reason: reason(entry, Side::Golden, &theirs) },
            });
            insert(&mut units, Some(at));
        }
        units
    }
}

fn shape_of(entry: &Entry) -> Option<&[u64]> {
    match &entry.content {
        Content::Tensor(tensor) => tensor.shape.as_deref(),
        _ => None,
    }
}

fn counts(entries: &[Entry]) -> HashMap<Role, usize> {
    let mut counts = HashMap::new();
    for entry in entries {
        *counts.entry(entry.role).or_default() += 1;
    }
    counts
}
