//! What was concluded of a call, and how an error came in.

use super::expect::Apart;
use crate::verdict::Class;

/// What was concluded of a unit.
#[derive(Clone, Debug)]
pub(crate) struct Conclusion {
    pub(super) class: Class,
    /// The entry that shows it, by its number in the unit.
    pub(super) entry: Option<usize>,
    /// Whether the unit introduced an error, and if so how.
    pub(super) cause: Option<Cause>,
    /// How sure it is, from 0 to 1.
    pub(super) confidence: f64,
    /// The relative error of the entry, and what was expected.
    pub(super) error: Apart,
    pub(super) expected: Apart,
    /// Whether the error is that of who takes what the unit gave.
    pub(super) is_of_taker: bool,
    /// The largest relative error among what the unit works on.
    pub(super) taken: f64,
    /// The first unit with a cause that this one's error comes from.
    pub(super) from: Option<usize>,
}

/// How an error came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The result is not what the arguments explain.
    Made,
    /// A plain argument is another.
    Argument,
    /// An argument from outside is another.
    Origin,
    /// An argument is not what its maker gave.
    Between,
    /// One side has this call, the other not, and what follows is another.
    Lone,
    /// One side has this call, the other not, and what the step leaves in a parameter is another.
    Left,
    /// The two take their argument from different calls.
    Wiring,
    /// It computes in a coarser dtype on one side, where the run does not.
    Cast,
    /// Results have another shape.
    Shape,
    /// NaN or infinite on one side.
    NonFinite,
    /// NaN or infinite on both sides.
    BothBroken,
    /// Random numbers are other ones.
    Draw,
    /// On one side no gradient passes.
    Cut,
    /// A plain argument is another, which shows in gradients alone.
    ArgumentInBackward,
}

impl Conclusion {
    pub(super) fn of(class: Class) -> Conclusion {
        Conclusion {
            class,
            entry: None,
            cause: None,
            confidence: 0.0,
            error: Apart::default(),
            expected: Apart::default(),
            is_of_taker: false,
            taken: 0.0,
            from: None,
        }
    }
}

/// A unit that introduced an error.
pub(super) fn found(class: Class, cause: Cause, entry: usize, confidence: f64) -> Conclusion {
    Conclusion { cause: Some(cause), entry: Some(entry), confidence, ..Conclusion::of(class) }
}
