//! Exit codes: one table for all commands, and one rule for several outcomes.

/// How a command ended. Ordered by precedence: of several outcomes, the greatest is the exit code. A difference takes
/// precedence over something that could not be read; a requested result that could not be written takes precedence over
/// everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything was done; compared values agree.
    Done,
    /// Nothing matches the request.
    NoMatch,
    /// Something could not be read or compared, or there was nothing to read.
    NotRead,
    /// Something differs, or only one side has it.
    Differ,
    /// Something could not be written, or not be done at all.
    Failed,
}

impl Exit {
    /// The exit code for read errors, if any.
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
