//! What could not be read: listed, counted, and no reason to stop.

use std::collections::HashSet;

use ulpscope_formats::Error;

/// Problems kept in full; further ones are only counted. A damaged disk has more to say than anybody reads.
pub(crate) const MAX_LISTED: usize = 1000;

/// What could not be read, each once, with its file and place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    listed: Vec<String>,
    known: HashSet<String>,
    count: u64,
}

impl Problems {
    /// Takes one in.
    pub fn add(&mut self, error: &Error) {
        self.note(error.to_string());
    }

    /// Takes in one that is no error of a single file. One that is here already is the same: a folder that is missing
    /// is missing once, however many of its files are asked for.
    pub fn note(&mut self, text: String) {
        if self.known.contains(&text) {
            return;
        }
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.known.insert(text.clone());
            self.listed.push(text);
        }
    }

    /// Takes in some that are only counted.
    pub(crate) fn add_unlisted(&mut self, count: u64) {
        self.count += count;
    }

    /// Takes in those of another list.
    pub fn extend(&mut self, other: Problems) {
        self.count += other.count - other.listed.len() as u64;
        other.listed.into_iter().for_each(|text| self.note(text));
    }

    /// The first of them, in the order met.
    pub fn listed(&self) -> &[String] {
        &self.listed
    }

    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}
