//! Cell mapping: `fc2.Dense: fc2.Linear`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ulpscope_dump::Error;

use super::{Rule, Uses, flat_rules};

/// Names of modules with their classes; where none is met as a whole, parts of names.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    file: PathBuf,
    rules: Vec<Rule>,
    whole: HashMap<String, usize>,
}

impl Cells {
    pub(crate) fn read(path: &Path) -> Result<Cells, Error> {
        let (file, rules) = flat_rules(path)?;
        let whole = rules.iter().enumerate().map(|(number, rule)| (rule.from.clone(), number)).collect();
        Ok(Cells { file, rules, whole })
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The new name of an API or module, if it gets one. The first word is none of the mapping's business.
    ///
    /// A whole name goes first. Otherwise every line, in order, replaces the first occurrence of its left side in
    /// what the lines before it have made.
    pub(crate) fn rename(&self, base: &str, uses: &mut Uses) -> Option<String> {
        let (first, name) = base.split_once('.')?;
        if let Some(&number) = self.whole.get(name) {
            uses.cells[number] = true;
            return Some(format!("{first}.{}", self.rules[number].to));
        }
        let mut renamed = name.to_owned();
        for (number, rule) in self.rules.iter().enumerate() {
            if !rule.from.is_empty() && renamed.contains(&rule.from) {
                uses.cells[number] = true;
                renamed = renamed.replacen(&rule.from, &rule.to, 1);
            }
        }
        (renamed != name).then(|| format!("{first}.{renamed}"))
    }
}
