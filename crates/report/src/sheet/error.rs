//! How reading a sheet can fail.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Maximum characters of a file's text in a message.
const SHOWN: usize = 80;

/// Why a sheet could not be read.
#[derive(Debug, Error)]
pub enum SheetError {
    /// The system could not read the file.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The file is not a valid sheet.
    #[error("{}: {place}: expected {expected}, found {found}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// The file needs more memory than a sheet may use.
    #[error("{}: {place}: expected at most {limit} {unit}, found {found}; split the sheet", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// What is counted.
        unit: &'static str,
        /// The limit.
        limit: u64,
        /// The number found, as far as was counted.
        found: u64,
    },
}

/// A place in a file.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub path: &'a Path,
    pub place: &'a str,
}

impl At<'_> {
    pub(super) fn malformed(self, expected: impl Into<String>, found: impl Into<String>) -> SheetError {
        SheetError::Malformed {
            path: self.path.to_owned(),
            place: self.place.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(super) fn within(self, unit: &'static str, limit: u64, found: u64) -> Result<(), SheetError> {
        if found <= limit {
            return Ok(());
        }
        let (path, place) = (self.path.to_owned(), self.place.to_owned());
        Err(SheetError::TooLarge { path, place, unit, limit, found })
    }
}

/// Text of a file, shortened and escaped for a message.
pub(super) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    format!("'{short}'")
}
