//! Exit codes.

/// How a command ended. Ordered: when several things happened, the greatest is what the process says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything was done; what was compared agrees.
    Done,
    /// Everything was compared, and something differs.
    Differ,
    /// Nothing has the name that was asked for.
    NoMatch,
    /// Something could not be read, compared or written.
    Failed,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Differ | Exit::NoMatch => 1,
            Exit::Failed => 2,
        }
    }
}
