//! One call in the index of a rank.

use std::ops::Range;

use ulpscope_formats::names::Direction;

use crate::names::NameId;

/// What a call computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallKind {
    /// Results from arguments.
    Forward,
    /// Gradients of arguments from gradients of results.
    Backward,
    /// Gradients of a module's parameters.
    ParametersGrad,
    /// Nothing: what a step leaves behind, as it stands at its end, where no call returned it like that.
    StepEnd,
    /// Nothing: a tensor or variable that was saved under a name.
    Saved,
}

impl CallKind {
    /// The word for it in names of calls.
    pub const fn word(self) -> &'static str {
        match self {
            CallKind::Forward => "forward",
            CallKind::Backward => "backward",
            CallKind::ParametersGrad => "parameters_grad",
            CallKind::StepEnd => "step_end",
            CallKind::Saved => "saved",
        }
    }
}

impl From<Direction> for CallKind {
    fn from(direction: Direction) -> CallKind {
        match direction {
            Direction::Forward => CallKind::Forward,
            Direction::Backward => CallKind::Backward,
        }
    }
}

/// One call: its name and the place of its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `Functional.linear`, `Module.blocks.0.fc.Linear`, or a name of the user's; see [`crate::Rank::base`].
    pub base: NameId,
    /// The number of the call among those of the same base and kind, from 0, if the tool counts them.
    pub index: Option<u32>,
    /// What it computed.
    pub kind: CallKind,
    /// The place of its entries in the source: bytes of a file, or numbers of lines or files.
    pub(crate) place: Range<u64>,
}
