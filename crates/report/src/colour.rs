//! Whether to use colour: by the user's choice, then by the environment, then by whether the output is a terminal.

use std::ffi::OsString;

/// The user's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourChoice {
    /// Decide by the environment, then by whether the output is a terminal.
    #[default]
    Auto,
    /// Always use colour.
    Always,
    /// No colour.
    Never,
}

impl ColourChoice {
    /// Whether to use colour. The first variable that is set decides: `NO_COLOR`, `FORCE_COLOR`,
    /// `CLICOLOR_FORCE`, `CLICOLOR`, `TERM=dumb`.
    pub fn applies(self, is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
        match self {
            ColourChoice::Always => return true,
            ColourChoice::Never => return false,
            ColourChoice::Auto => {}
        }
        // An empty variable counts as not set.
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

/// Whether the terminal can only show text: no colour, no cursor movement.
pub fn is_dumb(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    variable("TERM").is_some_and(|term| term == "dumb")
}
