//! Names from inside a file as names of files: plain, and each used once.

use std::collections::HashSet;

/// A tensor's name as one plain component of a path. A name from a file may hold anything; what could lead out
/// of a folder, or surprise a terminal, becomes an underscore.
pub(crate) fn plain(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_control() || matches!(c, '/' | '\\' | ':') { '_' } else { c }).collect();
    match name.as_str() {
        "" | "." | ".." => format!("_{name}"),
        _ => name,
    }
}

/// Plain names that were given out.
#[derive(Debug, Default)]
pub(crate) struct PlainNames {
    used: HashSet<String>,
}

impl PlainNames {
    /// The plain form of `name`; numbered when another name has the same one.
    pub(crate) fn give(&mut self, name: &str) -> String {
        let plain = plain(name);
        let mut candidate = plain.clone();
        let mut number = 2;
        while !self.used.insert(candidate.clone()) {
            candidate = format!("{plain}-{number}");
            number += 1;
        }
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::PlainNames;

    #[test]
    fn no_name_leads_anywhere() {
        let mut names = PlainNames::default();
        let given = ["../../etc/x", "..", "", "a/b", "a\\b", "a_b", "\u{1b}[0m", "layer.0.weight"];
        assert_eq!(
            given.map(|name| names.give(name)),
            [".._.._etc_x", "_..", "_", "a_b", "a_b-2", "a_b-3", "_[0m", "layer.0.weight"]
        );
    }
}
