//! What could not be read: listed, counted, and no reason to stop.

use std::collections::HashMap;

use ulpscope_formats::Error;

/// Problems kept in full; further ones are only counted. A damaged disk has more to say than anybody reads.
pub(crate) const MAX_LISTED: usize = 1000;

/// What could not be read, each once, with its file and place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    listed: Vec<String>,
    /// How many problems each listed text stands for.
    known: HashMap<String, u64>,
    /// Those that no listed text stands for.
    unlisted: u64,
}

impl Problems {
    /// Takes one in.
    pub fn add(&mut self, error: &Error) {
        self.note(error.to_string());
    }

    /// Takes in one that is no error of a single file. One that is here already is the same: a folder that is missing
    /// is missing once, however many of its files are asked for.
    pub fn note(&mut self, text: String) {
        self.note_several(text, 1);
    }

    /// Takes in several that share one text.
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

    /// Takes in some that are only counted.
    pub(crate) fn add_unlisted(&mut self, count: u64) {
        self.unlisted += count;
    }

    /// Takes in those of another list.
    pub fn extend(&mut self, other: Problems) {
        self.unlisted += other.unlisted;
        for text in other.listed {
            let count = other.known.get(&text).copied().unwrap_or(1);
            self.note_several(text, count);
        }
    }

    /// The first of them, in the order met.
    pub fn listed(&self) -> &[String] {
        &self.listed
    }

    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.known.values().sum::<u64>() + self.unlisted
    }

    /// How many there are that no listed text stands for.
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.unlisted == 0
    }
}
