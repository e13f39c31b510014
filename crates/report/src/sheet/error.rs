//! How reading a sheet can fail.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Characters of a file's text that a message shows.
const SHOWN: usize = 80;

/// Why a sheet could not be read.
#[derive(Debug, Error)]
pub enum SheetError {
    /// The system did not give the file.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file is not what a sheet has to be.
    #[error("{}: {place}: expected {expected}, found {found}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The file would take more memory than a sheet may.
    #[error("{}: {place}: expected at most {limit} {unit}, found {found}; split the sheet", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        place: String,
        /// What is counted.
        unit: &'static str,
        /// How many may be there.
        limit: u64,
        /// How many are there, as far as was counted.
        found: u64,
    },
}

/// Where in which file.
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

/// What a file says, short enough for a message and without anything that moves a cursor.
pub(super) fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    format!("'{short}'")
}
