//! Converts names inside a file to file names: safe, and unique.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;

use ulpscope_report::escape::is_hidden;

/// A tensor's name as one safe component of a path. A name from a file may contain anything; characters that could lead
/// out of a folder, or affect a terminal, become underscores.
pub(crate) fn plain(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if is_hidden(c) || matches!(c, '/' | '\\' | ':') { '_' } else { c }).collect();
    match name.as_str() {
        "" | "." | ".." => format!("_{name}"),
        _ => name,
    }
}

/// Names in use, each once.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    used: HashSet<OsString>,
    /// The next number to try for a repeated name: a file may repeat one name many times.
    next: HashMap<OsString, u64>,
}

impl Distinct {
    /// The name itself, or numbered if it is in use.
    pub(crate) fn give(&mut self, name: OsString) -> OsString {
        if self.used.insert(name.clone()) {
            return name;
        }
        let number = self.next.entry(name.clone()).or_insert(2);
        loop {
            let mut candidate = name.clone();
            candidate.push(format!("-{number}"));
            *number += 1;
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}

/// Safe names in use.
#[derive(Debug, Default)]
pub(crate) struct PlainNames {
    given: Distinct,
}

impl PlainNames {
    /// The safe form of `name`; numbered if another name has the same one.
    pub(crate) fn give(&mut self, name: &str) -> OsString {
        self.given.give(plain(name).into())
    }
}

#[cfg(test)]
mod tests {
    use super::PlainNames;

    #[test]
    fn no_name_leads_anywhere() {
        let mut names = PlainNames::default();
        let given = ["../../etc/x", "..", "", "a/b", "a\\b", "a_b", "\u{1b}[0m\u{202e}", "layer.0.weight"];
        assert_eq!(
            given.map(|name| names.give(name)),
            [".._.._etc_x", "_..", "_", "a_b", "a_b-2", "a_b-3", "_[0m_", "layer.0.weight"]
        );
        assert_eq!(["a_b-4", "a/b", "a_b-4"].map(|name| names.give(name)), ["a_b-4", "a_b-5", "a_b-4-2"]);
    }

    #[test]
    fn many_clashes_take_no_longer_than_many_names() {
        // Trying every number again for each name would take minutes.
        let mut names = PlainNames::default();
        let last = (0..300_000).map(|_| names.give("a/b")).last();
        assert_eq!(last, Some("a_b-300000".into()));
    }
}
