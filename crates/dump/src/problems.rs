//! Lists and counts what could not be read. Reading continues.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use ulpscope_formats::Error;

/// Problems that are listed; further ones are only counted. A damaged disk has more problems than anyone reads.
pub(crate) const MAX_LISTED: usize = 1000;

/// What could not be read, each once, with its file and place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "SavedProblems", into = "SavedProblems")]
pub struct Problems {
    listed: Vec<String>,
    /// The number of problems of each listed text.
    known: HashMap<String, u64>,
    /// The number of problems that are not listed.
    unlisted: u64,
}

/// Problems in a file: in the order in which they are listed.
#[derive(Serialize, Deserialize)]
struct SavedProblems {
    listed: Vec<(String, u64)>,
    unlisted: u64,
}

impl From<Problems> for SavedProblems {
    fn from(problems: Problems) -> SavedProblems {
        let Problems { listed, known, unlisted } = problems;
        let counted = listed.into_iter().map(|text| {
            let count = known.get(&text).copied().unwrap_or(1);
            (text, count)
        });
        SavedProblems { listed: counted.collect(), unlisted }
    }
}

impl From<SavedProblems> for Problems {
    fn from(saved: SavedProblems) -> Problems {
        let mut problems = Problems { unlisted: saved.unlisted, ..Problems::default() };
        saved.listed.into_iter().for_each(|(text, count)| problems.note_several(text, count));
        problems
    }
}

impl Problems {
    /// Adds an error.
    pub fn add(&mut self, error: &Error) {
        self.note(error.to_string());
    }

    /// Adds a problem that is not an error of a single file. A repeated text is the same problem: a missing folder
    /// is missing once, however many of its files are requested.
    pub fn note(&mut self, text: String) {
        self.note_several(text, 1);
    }

    /// Adds several that share one text.
    pub(crate) fn note_several(&mut self, text: String, count: u64) {
        if self.known.contains_key(&text) {
            return;
        }
        if self.listed.len() < MAX_LISTED {
            self.known.insert(text.clone(), count);
            self.listed.push(text);
        } else {
            self.unlisted += count;
        }
    }

    /// Adds some that are only counted.
    pub(crate) fn add_unlisted(&mut self, count: u64) {
        self.unlisted += count;
    }

    /// Adds those of a different list.
    pub fn extend(&mut self, other: Problems) {
        self.unlisted += other.unlisted;
        for text in other.listed {
            let count = other.known.get(&text).copied().unwrap_or(1);
            self.note_several(text, count);
        }
    }

    /// The listed problems, in the order they were found.
    pub fn listed(&self) -> &[String] {
        &self.listed
    }

    /// The total number.
    pub fn count(&self) -> u64 {
        self.known.values().sum::<u64>() + self.unlisted
    }

    /// The number of problems that are not listed.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.unlisted == 0
    }
}
