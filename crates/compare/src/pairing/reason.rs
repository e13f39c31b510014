//! Why a call has no counterpart, as text.

use std::fmt;

use crate::style::Side;

/// Why a call has no counterpart. `other` is the side that lacks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The other side never calls this API or module in this direction.
    Absent {
        /// The side that lacks it.
        other: Side,
    },
    /// The other side was captured at a level that does not record such calls.
    LeftOut {
        /// That side.
        other: Side,
    },
    /// The other side ran it in a compiled module, which it recorded as one call.
    Compiled {
        /// That side.
        other: Side,
    },
    /// The other side calls it less often.
    Surplus {
        /// The side that has fewer.
        other: Side,
        /// Calls on this side.
        here: u32,
        /// Calls on the other.
        there: u32,
    },
    /// The other side calls it as often or more, but not here.
    Elsewhere {
        /// The side that lacks it.
        other: Side,
    },
    /// The other side calls it, but no call there has this number.
    OtherNumber {
        /// The side that lacks it.
        other: Side,
        /// Calls on the other side.
        there: u32,
    },
    /// The call of the same name has inputs or outputs of different shapes.
    OtherShapes {
        /// The side of that call.
        other: Side,
    },
    /// Recomputed during the backward pass, which the other side does not do.
    Recomputed {
        /// The side that computes once.
        other: Side,
    },
    /// The forward call has a counterpart, which has no backward call.
    NoBackward {
        /// The side that lacks it.
        other: Side,
    },
    /// It was running when its run was killed, and the other side does not make it.
    Running,
    /// Capture of the other side ended before this call.
    Ended {
        /// That side.
        other: Side,
    },
    /// A mapping file gives it a name that the other side does not have.
    MappedNowhere {
        /// The side that lacks it.
        other: Side,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Absent { other } => {
                write!(f, "{} never makes a call of this name in this direction", other.word())
            }
            Reason::LeftOut { other } => {
                write!(f, "{} was captured at a level that does not record it", other.word())
            }
            Reason::Compiled { other } => {
                write!(f, "{} ran it in a compiled module, which is recorded as one call", other.word())
            }
            Reason::Surplus { other, here, there } => {
                let (here_word, other) = (opposite(other).word(), other.word());
                let times = if there == 1 { "time" } else { "times" };
                write!(
                    f,
                    "{other} makes this call {there} {times}, {here_word} {here}; at this place {other} does not"
                )
            }
            Reason::Elsewhere { other } => {
                write!(f, "{} makes this call too, but not at this place in the order of calls", other.word())
            }
            Reason::OtherNumber { other, there } => match there {
                1 => write!(f, "the only such call of {} has a different number", other.word()),
                _ => write!(f, "none of the {there} such calls of {} has this number", other.word()),
            },
            Reason::OtherShapes { other } => {
                let other = other.word();
                write!(
                    f,
                    "the call of the same name in {other} has different shapes, or a different number of tensors"
                )
            }
            Reason::Recomputed { other } => {
                let other = other.word();
                write!(
                    f,
                    "computed again during backward (activation checkpointing), which {other} does not do"
                )
            }
            Reason::NoBackward { other } => {
                write!(
                    f,
                    "its forward call has a counterpart, for which {} recorded no backward",
                    other.word()
                )
            }
            Reason::Running => f.write_str("it was running when the run ended"),
            Reason::Ended { other } => write!(f, "the capture of {} ended before this call", other.word()),
            Reason::MappedNowhere { other } => {
                write!(f, "the mapping file gives it a name that {} does not have", other.word())
            }
        }
    }
}

/// The other one.
pub(super) fn opposite(side: Side) -> Side {
    match side {
        Side::Target => Side::Golden,
        Side::Golden => Side::Target,
    }
}
