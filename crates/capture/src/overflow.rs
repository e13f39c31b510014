//! Task `overflow_check`: which calls left the range of their dtype, and which of them are written.
//!
//! Results of every call are checked. Only a call with a bad result has its inputs checked, too: that decides whether
//! the damage began there. What is written in full: every call where NaN or infinity began, and the first call of a
//! step that has NaN from elsewhere, or that is held at the largest number of its dtype. Infinities that are passed on
//! are only counted: masks have them on purpose.

use std::sync::Arc;

use ulpscope_kernels::{Reach, Survival};

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Infinity from finite inputs, or NaN from inputs without NaN.
    Born,
    /// NaN that an input has, too.
    InheritedNan,
    /// Infinity, where an input has that or NaN.
    InheritedInfinity,
    /// A result has the largest magnitude of its dtype, and no input has that of its own.
    Saturated,
    /// NaN or infinity, where an input could not be read: whether it began there is not known.
    Uncertain,
}

impl Overflow {
    /// What the inputs and results of a call show; `None` if nothing is wrong, or was not before.
    pub fn of(inputs: Reach, results: Reach) -> Option<Overflow> {
        match (inputs, results) {
            (inputs, Reach::Infinite | Reach::Nan) if inputs < results => Some(Overflow::Born),
            (_, Reach::Nan) => Some(Overflow::InheritedNan),
            (_, Reach::Infinite) => Some(Overflow::InheritedInfinity),
            (Reach::InRange, Reach::AtLimit) => Some(Overflow::Saturated),
            _ => None,
        }
    }

    /// The same for a call with an input that could not be read: nothing is known to begin there.
    pub fn of_partly_read(inputs: Reach, results: Reach) -> Option<Overflow> {
        match Overflow::of(inputs, results) {
            Some(Overflow::Born) => Some(Overflow::Uncertain),
            known => known,
        }
    }

    /// Its name for users.
    pub fn name(self) -> &'static str {
        match self {
            Overflow::Born => "born",
            Overflow::InheritedNan => "inherited NaN",
            Overflow::InheritedInfinity => "inherited infinity",
            Overflow::Saturated => "saturated",
            Overflow::Uncertain => "of unknown origin",
        }
    }

    /// What its calls did, for the ledger.
    fn in_words(self) -> &'static str {
        match self {
            Overflow::Born => "returned NaN or infinity that their inputs do not have",
            Overflow::InheritedNan => "returned NaN that was among their inputs",
            Overflow::InheritedInfinity => "returned infinity that was among their inputs",
            Overflow::Saturated => "returned the largest number of their dtype",
            Overflow::Uncertain => "returned NaN or infinity, and not all of their inputs could be read",
        }
    }

    const ALL: [Overflow; 5] = [
        Overflow::Born,
        Overflow::InheritedNan,
        Overflow::InheritedInfinity,
        Overflow::Saturated,
        Overflow::Uncertain,
    ];
}

/// Calls of a step whose values are listed for `would_overflow`; those of further ones are added up.
const MAX_LISTED: usize = 10_000;

/// The name for the sum of the calls beyond.
const OTHERS: &str = "others";

/// The overflows of a step.
#[derive(Debug, Default)]
pub struct StepOverflows {
    found: [Seen; Overflow::ALL.len()],
    would: Vec<(Arc<str>, Survival)>,
}

#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    first: Option<Arc<str>>,
}

impl StepOverflows {
    /// Counts a call; returns whether it is written in full.
    pub fn add(&mut self, overflow: Overflow, call: &Arc<str>) -> bool {
        let has_origin = self.origins() > 0;
        let seen = &mut self.found[overflow as usize];
        seen.calls += 1;
        let is_first = seen.calls == 1;
        seen.first.get_or_insert_with(|| Arc::clone(call));
        match overflow {
            Overflow::Born => true,
            // What follows from an origin that is written is no news.
            Overflow::InheritedNan | Overflow::Uncertain => is_first && !has_origin,
            Overflow::InheritedInfinity => false,
            Overflow::Saturated => is_first,
        }
    }

    /// How many calls were origins so far.
    pub fn origins(&self) -> u64 {
        self.found[Overflow::Born as usize].calls
    }

    /// Adds what a call would lose in the dtype of `would_overflow`.
    pub fn add_survival(&mut self, call: &Arc<str>, survival: Survival) {
        if survival.overflows + survival.underflows == 0 {
            return;
        }
        if self.would.len() < MAX_LISTED {
            self.would.push((Arc::clone(call), survival));
            return;
        }
        match self.would.get_mut(MAX_LISTED) {
            Some((_, others)) => *others = others.merge(survival),
            None => self.would.push((OTHERS.into(), survival)),
        }
    }

    /// Takes the calls that would lose values, in the order of the run.
    pub fn take_survivals(&mut self) -> Vec<(Arc<str>, Survival)> {
        std::mem::take(&mut self.would)
    }

    /// Whether there is nothing to report: infinities that are passed on are not.
    pub fn is_empty(&self) -> bool {
        let is_harmless = |overflow: &Overflow| {
            *overflow == Overflow::InheritedInfinity || self.found[*overflow as usize].calls == 0
        };
        Overflow::ALL.iter().all(is_harmless)
    }

    /// The ledger's notes.
    pub fn notes(&self) -> Vec<String> {
        let note = |overflow: &Overflow| {
            let Seen { calls, first } = &self.found[*overflow as usize];
            let first = first.as_ref()?;
            Some(format!("overflow: {calls} calls {}; the first is {first}", overflow.in_words()))
        };
        Overflow::ALL.iter().filter_map(note).collect()
    }
}
