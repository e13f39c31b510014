//! Cell mapping: `fc2.Dense: fc2.Linear`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ulpscope_dump::Error;

use super::{Rule, Uses, flat_rules};

/// Names of modules with their classes; if no whole name matches, parts of names.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    file: PathBuf,
    rules: Vec<Rule>,
    /// The rule of each left side.
    whole: HashMap<String, usize>,
    /// The lengths of left sides, each once.
    lengths: Vec<usize>,
}

impl Cells {
    pub(crate) fn read(path: &Path) -> Result<Cells, Error> {
        let (file, rules) = flat_rules(path)?;
        let whole = rules.iter().enumerate().map(|(number, rule)| (rule.from.clone(), number)).collect();
        let mut lengths: Vec<usize> = rules.iter().map(|rule| rule.from.len()).collect();
        lengths.sort_unstable();
        lengths.dedup();
        lengths.retain(|&length| length > 0);
        Ok(Cells { file, rules, whole, lengths })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The new name of an API or module, if it gets one. The first word is not mapped.
    ///
    /// A whole name takes precedence. Otherwise every line, in order, replaces the first occurrence of its left side in
    /// the result of the lines before it.
    pub(crate) fn rename(&self, base: &str, uses: &mut Uses) -> Option<String> {
        let (first, name) = base.split_once('.')?;
        if let Some(&number) = self.whole.get(name) {
            uses.cells[number] = true;
            return Some(format!("{first}.{}", self.rules[number].to));
        }
        let mut renamed = name.to_owned();
        let mut from = 0;
        while let Some(number) = self.next_within(&renamed, from) {
            let rule = &self.rules[number];
            uses.cells[number] = true;
            renamed = renamed.replacen(&rule.from, &rule.to, 1);
            from = number + 1;
        }
        (renamed != name).then(|| format!("{first}.{renamed}"))
    }

    /// The first rule, from number `from` on, whose left side is part of a name. Rules are looked up by text: names
    /// have fewer parts of these lengths than a large file has lines.
    fn next_within(&self, name: &str, from: usize) -> Option<usize> {
        if self.lengths.len().saturating_mul(name.len()) >= self.rules.len() - from {
            let rules = self.rules[from..].iter();
            let found = rules.clone().position(|rule| !rule.from.is_empty() && name.contains(&rule.from));
            return found.map(|ahead| from + ahead);
        }
        let parts = self.lengths.iter().flat_map(|&length| {
            let starts = 0..(name.len() + 1).saturating_sub(length);
            starts.filter_map(move |start| name.get(start..start + length))
        });
        parts.filter_map(|part| self.whole.get(part).copied()).filter(|&number| number >= from).min()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;

    /// Lines applied one after the other, as the manual says.
    fn one_by_one(rules: &[Rule], name: &str) -> String {
        let step = |name: String, rule: &Rule| name.replacen(&rule.from, &rule.to, 1);
        rules.iter().fold(name.to_owned(), step)
    }

    #[test]
    fn many_lines_give_what_each_gives_in_its_turn() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("cells.yaml");
        // Lines whose results match later lines, with unused lines in between.
        let idle = (0..3000).map(|number| format!("none{number:04}: nothing\n")).collect::<String>();
        let text =
            format!("{idle}ab: bc\nz: y\nbc: cdd\nä.d: q\n{}cd: x.ab\nxx: ab\n", idle.replace("none", "nil"));
        std::fs::write(&path, text).unwrap();
        let mapping = Mapping::default().with_cells(&path).unwrap();
        let cells = mapping.cells.as_ref().unwrap();
        for name in ["ab", "bcab", "ä.d.ab", "none0007", "xz.nil2999.ab", "cd.xx", "", "q.ä.dd"] {
            let mut uses = Uses::of(&mapping);
            let expected = one_by_one(&cells.rules, name);
            let renamed = cells.rename(&format!("Module.{name}"), &mut uses);
            // A line whose left side is the whole name is applied alone.
            if !cells.whole.contains_key(name) {
                let found = renamed.unwrap_or_else(|| format!("Module.{name}"));
                assert_eq!(found, format!("Module.{expected}"));
            }
        }
    }
}
