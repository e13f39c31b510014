//! What was concluded of each unit, in few bytes.
//!
//! Most units introduced no error, and little of what was concluded of them is asked for later. There are millions of these.

use std::collections::HashMap;

use crate::native::attribution::conclusion::{Cause, Conclusion};
use crate::native::expectation::expectations::ErrorProfile;
use crate::verdict::Class;

/// No entry, or no unit.
const NONE: u32 = u32::MAX;

/// The conclusions of many units.
#[derive(Clone, Debug)]
pub(in crate::native) struct ConclusionList {
    brief: Vec<Brief>,
    /// Those of units that introduced an error.
    blamed: HashMap<usize, Conclusion>,
}

/// What is kept of a unit that introduced no error.
#[derive(Clone, Copy, Debug)]
struct Brief {
    class: Option<Class>,
    entry: u32,
    from: u32,
    doubt: f64,
    expected: f64,
}

impl ConclusionList {
    /// Nothing yet, of so many units.
    pub(in crate::native) fn open(units: usize) -> ConclusionList {
        let unknown = Brief { class: None, entry: NONE, from: NONE, doubt: 0.0, expected: 0.0 };
        ConclusionList { brief: vec![unknown; units], blamed: HashMap::new() }
    }

    /// Notes what was concluded of a unit. Of one without a cause, neither its error nor what its inputs bring is kept.
    pub(in crate::native) fn set(&mut self, at: usize, conclusion: Conclusion) {
        let number = |number: Option<usize>| number.map_or(NONE, |number| number as u32);
        self.brief[at] = Brief {
            class: Some(conclusion.class),
            entry: number(conclusion.entry),
            from: number(conclusion.from),
            doubt: conclusion.doubt,
            expected: conclusion.expected.whole,
        };
        if conclusion.cause.is_some() {
            self.blamed.insert(at, conclusion);
        } else if !self.blamed.is_empty() {
            self.blamed.remove(&at);
        }
    }

    /// What was concluded of a unit; not comparable, if nothing was.
    pub(in crate::native) fn get(&self, at: usize) -> Conclusion {
        if let Some(blamed) = self.blamed.get(&at) {
            return blamed.clone();
        }
        let Brief { class, entry, from, doubt, expected } = self.brief[at];
        let number = |number: u32| (number != NONE).then_some(number as usize);
        Conclusion {
            entry: number(entry),
            from: number(from),
            doubt,
            expected: ErrorProfile { whole: expected, ..ErrorProfile::default() },
            ..Conclusion::of(class.unwrap_or(Class::NotComparable))
        }
    }

    /// The class of a unit, if it was concluded.
    pub(in crate::native) fn class(&self, at: usize) -> Option<Class> {
        self.brief[at].class
    }

    /// How a unit introduced an error, if it did.
    pub(in crate::native) fn cause(&self, at: usize) -> Option<Cause> {
        self.blamed.get(&at).and_then(|blamed| blamed.cause)
    }

    /// The first unit with a cause that the error of a unit comes from.
    pub(in crate::native) fn from(&self, at: usize) -> Option<usize> {
        let from = self.brief[at].from;
        (from != NONE).then_some(from as usize)
    }

    /// See [`Conclusion::doubt`].
    pub(in crate::native) fn doubt(&self, at: usize) -> f64 {
        self.brief[at].doubt
    }

    /// Whether any unit introduced an error.
    pub(in crate::native) fn is_any_blamed(&self) -> bool {
        !self.blamed.is_empty()
    }

    /// The units that introduced an error, in order.
    pub(in crate::native) fn blamed(&self) -> Vec<(usize, &Conclusion)> {
        let mut blamed: Vec<(usize, &Conclusion)> =
            self.blamed.iter().map(|(&at, found)| (at, found)).collect();
        blamed.sort_unstable_by_key(|&(at, _)| at);
        blamed
    }
}

impl FromIterator<Conclusion> for ConclusionList {
    fn from_iter<I: IntoIterator<Item = Conclusion>>(conclusions: I) -> ConclusionList {
        let mut list = ConclusionList::open(0);
        for (at, conclusion) in conclusions.into_iter().enumerate() {
            list.brief.extend_from_slice(&ConclusionList::open(1).brief);
            list.set(at, conclusion);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::attribution::conclusion::found;

    #[test]
    fn a_blamed_unit_keeps_everything_until_it_is_cleared() {
        let mut list = ConclusionList::open(2);
        assert_eq!((list.class(0), list.get(0).class), (None, Class::NotComparable));
        let error = ErrorProfile { whole: 0.5, peak: 0.25, drift: 0.125 };
        list.set(0, Conclusion { error, ..found(Class::DivergedHere, Cause::Made, 3, 0.75) });
        assert_eq!(
            (list.cause(0), list.get(0).error, list.get(0).confidence),
            (Some(Cause::Made), error, 0.75)
        );
        assert_eq!(list.blamed().iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0]);
        list.set(0, Conclusion { from: Some(1), doubt: 0.5, ..Conclusion::of(Class::Inherited) });
        assert!(!list.is_any_blamed());
        assert_eq!((list.class(0), list.from(0), list.doubt(0)), (Some(Class::Inherited), Some(1), 0.5));
    }

    #[test]
    fn a_unit_without_a_cause_takes_few_bytes() {
        assert!(size_of::<Brief>() <= 32);
    }
}
