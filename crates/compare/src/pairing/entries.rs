//! Which entries of two paired calls belong together.

use std::collections::HashMap;
use std::fmt;

use ulpscope_dump::{Content, Entry, Role};

use crate::mapping::Mapping;
use crate::style::Side;

/// What made two entries a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryHow {
    /// The same argument or result of the two calls.
    Place,
    /// Tensors of the same shape in the same order among those without a namesake: one side passed by position what
    /// the other passed by name.
    Order,
    /// A mapping file says so.
    Mapped,
}

/// Two entries that belong together.
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

/// Why an entry has no partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryReason {
    /// The side that lacks it.
    pub other: Side,
    /// What it is to its call.
    pub role: Role,
    /// Entries of that role on the other side.
    pub there: usize,
}

impl fmt::Display for EntryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = match self.other {
            Side::Target => "target",
            Side::Golden => "golden",
        };
        let role = self.role.word();
        match self.there {
            0 => write!(f, "the call in {other} has no {role} at all"),
            1 => write!(f, "the call in {other} has another {role} only"),
            there => write!(f, "none of the {there} {role}s of the call in {other} stands at this place"),
        }
    }
}

/// Pairs the entries of two calls: by the mapping's rows, by role and path, and what is left by order and shape.
/// In the target's order; what only the golden has stands behind the entry it follows there.
pub fn pair_entries<'a>(target: &'a [Entry], golden: &'a [Entry], mapping: &Mapping) -> Vec<EntryUnit<'a>> {
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
        for (at, entry) in numbered(target) {
            let Some(shape) = shape_of(entry).filter(|_| self.of_target[at].is_none()) else { continue };
            let alike = |(other, candidate): &(usize, &Entry)| {
                self.of_golden[*other].is_none()
                    && candidate.role == entry.role
                    && shape_of(candidate) == Some(shape)
            };
            if let Some((partner, _)) = numbered(golden).find(alike) {
                self.join(at, partner, EntryHow::Order);
            }
        }
    }

    fn units<'a>(&self, target: &'a [Entry], golden: &'a [Entry]) -> Vec<EntryUnit<'a>> {
        let mut units = Vec::with_capacity(target.len());
        // The golden's lonely entries by what they stand behind: nothing, or a pair.
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
        let mut insert = |units: &mut Vec<EntryUnit<'a>>, place: Option<usize>| {
            while let Some((_, at)) = lonely.next_if(|(before, _)| *before <= place) {
                let entry = &golden[at];
                units.push(EntryUnit::GoldenOnly { entry, reason: reason(entry, Side::Target, target) });
            }
        };
        insert(&mut units, None);
        for (at, entry) in numbered(target) {
            units.push(match self.of_target[at] {
                Some((partner, how)) => {
                    EntryUnit::Pair(EntryPair { target: entry, golden: &golden[partner], how })
                }
                None => EntryUnit::TargetOnly { entry, reason: reason(entry, Side::Golden, golden) },
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

fn reason(entry: &Entry, other: Side, others: &[Entry]) -> EntryReason {
    let there = others.iter().filter(|candidate| candidate.role == entry.role).count();
    EntryReason { other, role: entry.role, there }
}
