//! Whether to use colour: what was asked for, then what the environment says, then what is at the other end.

use std::ffi::OsString;

/// What was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// Decide by the environment, then by whether a terminal reads.
    #[default]
    Auto,
    /// Colour, whoever reads.
    Always,
    /// No colour.
    Never,
}

impl ColourChoice {
    /// Whether to use colour. Of the variables that are set the first counts: `NO_COLOR`, `FORCE_COLOR`,
    /// `CLICOLOR_FORCE`, `CLICOLOR`, `TERM=dumb`.
    pub fn applies(self, is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        match self {
            ColourChoice::Always => return true,
            ColourChoice::Never => return false,
            ColourChoice::Auto => {}
        }
        // A variable that is set to nothing is not set.
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_off = |value: &OsString| value == "0" || value == "false";
        if set("NO_COLOR").is_some() {
            return false;
        }
        if let Some(value) = set("FORCE_COLOR") {
            return !is_off(&value);
        }
        if set("CLICOLOR_FORCE").is_some_and(|value| !is_off(&value)) {
            return true;
        }
        is_terminal && !set("CLICOLOR").is_some_and(|value| is_off(&value)) && !is_dumb(variable)
    }
}

/// Whether the terminal says that it can show text and nothing else: no colour, no way to move the cursor.
pub fn is_dumb(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("TERM").is_some_and(|term| term == "dumb")
}
