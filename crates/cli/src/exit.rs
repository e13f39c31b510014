//! Exit codes: one table for all commands, and one rule for when several things happened.

/// How a command ended. Ordered by the rule: of several things that happened, the greatest is what the process says. A
/// difference that was found counts more than what could not be read beside it; a result that was asked for and could
/// not be written counts more than everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything was done; what was compared agrees.
    Done,
    /// Nothing matches what was asked for.
    NoMatch,
    /// Something could not be read or compared, or there was nothing to read.
    NotRead,
    /// Something differs, or only one side has it.
    Differ,
    /// Something could not be written, or not be done at all.
    Failed,
}

impl Exit {
    /// What could not be read, as far as there is any.
    pub(crate) fn of_reading(errors: &[String]) -> Exit {
        if errors.is_empty() { Exit::Done } else { Exit::NotRead }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::NoMatch | Exit::Differ => 1,
            Exit::NotRead | Exit::Failed => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn the_greatest_is_what_the_process_says() {
        for (happened, code) in [
            (&[Exit::Done][..], 0),
            (&[Exit::NoMatch, Exit::Done], 1),
            (&[Exit::NoMatch, Exit::NotRead], 2),
            (&[Exit::Differ, Exit::NotRead], 1),
            (&[Exit::Differ, Exit::Failed], 2),
        ] {
            assert_eq!(happened.iter().max().map(|exit| exit.code()), Some(code), "{happened:?}");
        }
    }
}
