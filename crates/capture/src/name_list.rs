//! Calls selected by a list of names.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::plan::UnknownSetting;

/// Names or parts of names, and how they are matched.
#[derive(Debug)]
pub(crate) struct NameList {
    entries: Vec<Entry>,
    how: ListMatch,
}

#[derive(Debug)]
struct Entry {
    /// As the user wrote it.
    written: String,
    /// As it is matched.
    matched: String,
}

/// How an entry matches the name of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMatch {
    /// It is a part of the name.
    Part,
    /// The name begins with it. A dot and an underscore are alike, as in ptdbg_ascend.
    Start,
    /// It is a part of the name, in any case. A dot and an underscore are alike.
    PartAnyCase,
}

impl NameList {
    pub(crate) fn new(names: Vec<String>, how: &str) -> Result<NameList, UnknownSetting> {
        let how = match how {
            "part" => ListMatch::Part,
            "start" => ListMatch::Start,
            "part_any_case" => ListMatch::PartAnyCase,
            other => return Err(UnknownSetting::new("list_match", other, "part, start, part_any_case")),
        };
        let entry = |written: String| Entry { matched: how.spelled(&written).into_owned(), written };
        Ok(NameList { entries: names.into_iter().map(entry).collect(), how })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The numbers of the entries that match a name.
    pub(crate) fn matches(&self, name: &str) -> impl Iterator<Item = usize> {
        let name = if self.is_empty() { Cow::Borrowed(name) } else { self.how.spelled(name) };
        let is_match = move |entry: &Entry| match self.how {
            ListMatch::Start => name.starts_with(&entry.matched),
            ListMatch::Part | ListMatch::PartAnyCase => name.contains(&entry.matched),
        };
        self.entries.iter().enumerate().filter(move |(_, entry)| is_match(entry)).map(|(number, _)| number)
    }

    /// Notes about the entries whose numbers are not among the matched ones.
    pub(crate) fn unmatched(&self, matched: &HashSet<usize>) -> impl Iterator<Item = String> {
        let role = if self.how == ListMatch::Start { "the beginning" } else { "part" };
        let left = self.entries.iter().enumerate().filter(|(number, _)| !matched.contains(number));
        left.map(move |(_, entry)| {
            format!("list: {:?} is {role} of no name that was seen in this step", entry.written)
        })
    }
}

impl ListMatch {
    fn spelled(self, name: &str) -> Cow<'_, str> {
        match self {
            ListMatch::Part => Cow::Borrowed(name),
            ListMatch::Start => Cow::Owned(name.replace('.', "_")),
            ListMatch::PartAnyCase => Cow::Owned(name.replace('.', "_").to_lowercase()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn each_manner_of_matching() {
        let matches = |how: &str, entry: &str, name: &str| {
            NameList::new(vec![entry.to_owned()], how).unwrap().matches(name).next().is_some()
        };
        let name = "Functional.conv2d.1.forward";
        assert!(matches("part", "conv2d.1", name) && !matches("part", "conv2d_1", name));
        assert!(matches("start", "Functional_conv2d_1_forward", name));
        assert!(matches("start", "Functional.conv2d.1", name) && !matches("start", "conv2d", name));
        assert!(matches("start", "Tensor___mul___0_back", "Tensor.__mul__.0.backward"));
        assert!(matches("part_any_case", "CONV", name) && matches("part_any_case", "d_1_f", name));
        assert!(!matches("part_any_case", "relu", name));
    }
}
