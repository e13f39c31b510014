//! Verdicts on calls instead of rows: one class each, and the calls that introduced an error.

use serde::{Deserialize, Serialize};

use crate::divergence_entry::DivergenceEntry;
use crate::finding::{Finding, FindingKind};
use crate::style::Side;
use crate::words;

/// How the names of collectives begin.
pub(crate) const COLLECTIVES: &str = "Distributed.";

/// The class of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Bit for bit the same.
    Equal,
    /// Differs by no more than rounding explains.
    Noise,
    /// Its inputs differ already, and that explains its results.
    Inherited,
    /// Its inputs agree, and its results do not.
    DivergedHere,
    /// A weight, a buffer, an input or a random draw differs.
    OriginDiffers,
    /// Finite in, NaN or infinite out, on one side or on both.
    NonFiniteBornHere,
    /// On one side only, or with a different shape, dtype or scalar argument.
    DifferentProgram,
    /// Unknown: the dumps hold too little, or its inputs have a different shape.
    NotComparable,
}

impl Class {
    /// In the order of [`ClassCounts`].
    pub const ALL: [Class; 8] = [
        Class::Equal,
        Class::Noise,
        Class::Inherited,
        Class::DivergedHere,
        Class::OriginDiffers,
        Class::NonFiniteBornHere,
        Class::DifferentProgram,
        Class::NotComparable,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Class::Equal => "equal",
            Class::Noise => "noise",
            Class::Inherited => "inherited",
            Class::DivergedHere => "diverged here",
            Class::OriginDiffers => "origin differs",
            Class::NonFiniteBornHere => "non-finite born here",
            Class::DifferentProgram => "different program",
            Class::NotComparable => "not comparable",
        }
    }
}

/// Calls by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCounts([u64; 8]);

impl ClassCounts {
    /// One more call of a class.
    pub(crate) fn count(&mut self, class: Class) {
        self.0[class as usize] += 1;
    }

    /// How many calls are of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Every class with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        Class::ALL.into_iter().map(|class| (class, self.of(class)))
    }

    /// The counts of both.
    pub fn add(&mut self, more: &ClassCounts) {
        self.0.iter_mut().zip(more.0).for_each(|(count, more)| *count += more);
    }
}

/// A call that only one side makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoneCall {
    /// Its name.
    pub name: String,
    /// The side that makes it.
    pub side: Side,
}

/// A call that introduced an error, or the first whose row fails by the rule of an older tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Divergence {
    /// Its name in the target, or in the golden if the target lacks it.
    pub call: String,
    /// Its name in the golden, if it has a counterpart.
    pub golden_call: Option<String>,
    /// The module it was made in.
    pub module: Option<String>,
    /// The line of the user's code that made it.
    pub code: Option<String>,
    /// The innermost line outside of torch, if it is a different one: that of a library.
    pub inner_code: Option<String>,
    /// The line that made its counterpart in the golden.
    pub golden_code: Option<String>,
    /// The innermost line outside of torch that made the counterpart, if it is a different one.
    pub golden_inner_code: Option<String>,
    /// The whole stack, innermost frame first.
    pub stack: Vec<String>,
    /// The call just before it, if only one side makes that one.
    pub lone_before: Option<LoneCall>,
    /// Collectives that the rank had made before, if it is the first divergence of its rank: ranks meet in collectives, so
    /// that one with fewer of them came earlier.
    pub collectives_before: u64,
    /// The line of the result's csv; the header is line 1.
    pub line: u64,
    /// What happened there, on which evidence.
    pub finding: Finding,
    /// The entry that shows it.
    pub shown: DivergenceEntry,
}

impl Divergence {
    /// The evidence in words, for files.
    pub fn why(&self) -> String {
        let before = self.lone_before.as_ref().map(|before| words::just_before(&before.name, before.side));
        self.finding.why() + &before.unwrap_or_default()
    }

    /// Whether the error may have been introduced on another rank: a collective returned it, or it is in a gradient,
    /// which data parallelism averages over all ranks.
    pub(crate) fn may_come_from_another_rank(&self) -> bool {
        let is_collective = self.call.starts_with(COLLECTIVES);
        let is_gradient = self.shown.source.as_deref().is_some_and(|source| source.starts_with("gradient:"));
        is_collective || is_gradient && self.finding.kind == FindingKind::OriginDiffers
    }
}
