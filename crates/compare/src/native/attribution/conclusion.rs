//! What was concluded of a call, and how an error came in.

pub(in crate::native) use crate::finding::DetectedCause as Cause;
use crate::native::expectation::expectations::ErrorProfile;
use crate::verdict::Class;

/// What was concluded of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Conclusion {
    pub(in crate::native) class: Class,
    /// The entry that shows it, by its number in the unit.
    pub(in crate::native) entry: Option<usize>,
    /// Whether the unit introduced an error, and if so how.
    pub(in crate::native) cause: Option<Cause>,
    /// How sure it is, from 0 to 1.
    pub(in crate::native) confidence: f64,
    /// How near a unit that is not blamed came to being blamed: at 1 it would have been.
    pub(in crate::native) doubt: f64,
    /// The relative error of the entry, and what was expected.
    pub(in crate::native) error: ErrorProfile,
    pub(in crate::native) expected: ErrorProfile,
    /// Whether the error is that of who takes what the unit gave.
    pub(in crate::native) is_of_taker: bool,
    /// The largest relative error among what the unit works on.
    pub(in crate::native) taken: f64,
    /// The first unit with a cause that this one's error comes from.
    pub(in crate::native) from: Option<usize>,
}

impl Conclusion {
    pub(in crate::native) fn of(class: Class) -> Conclusion {
        Conclusion {
            class,
            entry: None,
            cause: None,
            confidence: 0.0,
            doubt: 0.0,
            error: ErrorProfile::default(),
            expected: ErrorProfile::default(),
            is_of_taker: false,
            taken: 0.0,
            from: None,
        }
    }
}

/// A unit that introduced an error.
pub(in crate::native) fn found(class: Class, cause: Cause, entry: usize, confidence: f64) -> Conclusion {
    Conclusion { cause: Some(cause), entry: Some(entry), confidence, ..Conclusion::of(class) }
}

/// Whether a cause is a difference of structure or of what a run is given, which inputs of other sizes bring about.
pub(in crate::native) fn is_of_structure(cause: Cause) -> bool {
    match cause {
        Cause::Lone | Cause::Region | Cause::Shape | Cause::Wiring | Cause::Between | Cause::Origin => true,
        Cause::Made
        | Cause::Argument
        | Cause::Left
        | Cause::Updates
        | Cause::Cast
        | Cause::NonFinite
        | Cause::BothBroken
        | Cause::Draw
        | Cause::Cut
        | Cause::ArgumentInBackward => false,
    }
}
