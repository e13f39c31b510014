//! Pairs the calls of the target and the golden, and the entries of paired calls.
//!
//! ```text
//! target, golden ──► Names        each call's key and number, in one spelling, mapping files applied
//!                      │
//!                      ├─ by_name    exact, shape, fuzzy
//!                      └─ align      tokens of both sequences, finest first; what is left, coarser
//!                           │
//!                         backward   follows its forward call
//!                         accumulated   gradients of parameters, where a batch was cut into pieces
//!                      ▼
//!                    Links ──► Unit, Unit, …   every call of either side exactly once, with a reason where alone
//! ```
//! Numbers in names count calls of one API. One extra call on one side shifts all later ones, so equal names are
//! evidence, not proof: [`Matching::Auto`] trusts them only as far as the order and the shapes of the calls around them
//! agree.

mod accumulated;
mod align;
mod backward;
mod by_name;
mod compiled;
mod entries;
mod links;
mod names;
mod reason;
mod recompute;
mod rows;
mod signature;
mod units;
mod wrappers;

pub(crate) use wrappers::Wrappers;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulpscope_dump::Rank;

use crate::mapping::Mapping;
use links::Links;
use names::Names;

pub use entries::{EntryHow, EntryPair, EntryReason, EntryUnit, pair_entries};
pub use reason::Reason;
pub(crate) use rows::row_pairs;

/// How calls of two ranks are paired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matching {
    /// Exact where possible, alignment for the rest.
    #[default]
    Auto,
    /// Equal names.
    Exact,
    /// Equal names, and equal shapes and numbers of inputs and outputs.
    Shape,
    /// Names that are equal except for the number of the call, within one level.
    Fuzzy,
    /// The order of the calls, ignoring their numbers.
    Align,
}

impl Matching {
    const WORDS: [(&'static str, Matching); 5] = [
        ("auto", Matching::Auto),
        ("exact", Matching::Exact),
        ("shape", Matching::Shape),
        ("fuzzy", Matching::Fuzzy),
        ("align", Matching::Align),
    ];
}

impl fmt::Display for Matching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Matching::WORDS.iter().find(|(_, matching)| matching == self);
        f.pad(word.map_or("auto", |(word, _)| word))
    }
}

/// A word that is no way of matching.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of auto, exact, shape, fuzzy, align, found {0:?}")]
pub struct UnknownMatching(pub String);

impl FromStr for Matching {
    type Err = UnknownMatching;

    fn from_str(word: &str) -> Result<Matching, UnknownMatching> {
        let found = Matching::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, matching)| *matching).ok_or_else(|| UnknownMatching(word.to_owned()))
    }
}

/// How to pair.
#[derive(Clone, Debug, Default)]
pub struct PairOptions {
    /// The way.
    pub matching: Matching,
    /// The user's mapping; empty by default.
    pub mapping: Mapping,
}

/// Why two calls are paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// The names are equal.
    Exact,
    /// The names are equal, and so are the shapes.
    Shape,
    /// The names are equal except for the number.
    Fuzzy,
    /// They have the same place in the order of calls, under different names.
    Aligned,
    /// A mapping file says so.
    Mapped,
}

impl How {
    const ALL: [How; 5] = [How::Exact, How::Shape, How::Fuzzy, How::Aligned, How::Mapped];

    /// The word for it, of a text that is one.
    pub(crate) fn known_word(text: &str) -> Option<&'static str> {
        How::ALL.into_iter().map(How::word).find(|word| *word == text)
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            How::Exact => "exact",
            How::Shape => "shape",
            How::Fuzzy => "fuzzy",
            How::Aligned => "aligned",
            How::Mapped => "mapped",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Two paired calls, by their numbers in [`Rank::calls`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPair {
    /// The target's.
    pub target: usize,
    /// The golden's.
    pub golden: usize,
    /// Why.
    pub how: How,
}

/// A pair, or a call that only one side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// On both sides.
    Pair(CallPair),
    /// In the target only.
    TargetOnly {
        /// Its number in [`Rank::calls`].
        call: usize,
        /// Why it is alone.
        reason: Reason,
    },
    /// In the golden only.
    GoldenOnly {
        /// Its number in [`Rank::calls`].
        call: usize,
        /// Why it is alone.
        reason: Reason,
    },
}

/// Units by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounts {
    /// Pairs with equal names.
    pub exact: u64,
    /// Pairs with equal names and shapes.
    pub shape: u64,
    /// Pairs whose numbers were ignored.
    pub fuzzy: u64,
    /// Pairs from the order of calls.
    pub aligned: u64,
    /// Pairs from a mapping file.
    pub mapped: u64,
    /// Unpaired calls of the target.
    pub target_only: u64,
    /// Unpaired calls of the golden.
    pub golden_only: u64,
}

impl PairCounts {
    /// Pairs of all kinds.
    pub fn pairs(&self) -> u64 {
        self.exact + self.shape + self.fuzzy + self.aligned + self.mapped
    }

    fn add(&mut self, unit: &Unit) {
        *match unit {
            Unit::Pair(pair) => match pair.how {
                How::Exact => &mut self.exact,
                How::Shape => &mut self.shape,
                How::Fuzzy => &mut self.fuzzy,
                How::Aligned => &mut self.aligned,
                How::Mapped => &mut self.mapped,
            },
            Unit::TargetOnly { .. } => &mut self.target_only,
            Unit::GoldenOnly { .. } => &mut self.golden_only,
        } += 1;
    }
}

/// All calls of two ranks, paired.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// Every call of either side once: in the target's order of execution; calls that only the golden has follow the
    /// call that precedes them there.
    pub units: Vec<Unit>,
    /// How many of which.
    pub counts: PairCounts,
    /// Lines of a mapping file without effect, with file and line.
    pub notes: Vec<String>,
}

/// Pairs the calls of two ranks. A call whose entries cannot be read is paired by its name and place; the read error is
/// reported when its entries are measured.
pub fn pair(target: &Rank, golden: &Rank, options: &PairOptions) -> Pairing {
    let mapping = &options.mapping;
    let mut notes = Vec::new();
    let lenient = matches!(options.matching, Matching::Auto | Matching::Align);
    let names = Names::of(target, golden, mapping, lenient, &mut notes);
    let mut links = Links::new(target.calls().len(), golden.calls().len());
    links.force(&mapping.call_pairs(target, golden, &mut notes));
    match options.matching {
        Matching::Exact => by_name::exact(&names, &mut links),
        Matching::Shape => by_name::shape(target, golden, &names, &mut links),
        Matching::Fuzzy => by_name::fuzzy(&names, &mut links),
        Matching::Align => align::align(target, golden, &names, &mut links),
        Matching::Auto => align::auto(target, golden, &names, &mut links),
    }
    let golden_of = |call| links.golden(call).map(|(golden, _)| golden);
    let compiled = [
        compiled::inside(target, golden, golden_of),
        compiled::inside(golden, target, |call| links.target(call)),
    ];
    let units = units::lay_out(&names, &links, options.matching, compiled);
    let mut counts = PairCounts::default();
    units.iter().for_each(|unit| counts.add(unit));
    Pairing { units, counts, notes }
}
