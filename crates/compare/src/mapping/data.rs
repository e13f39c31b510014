//! Data mapping: `Functional.x.4.forward.input.0: NPU.y.4.forward.input.0`.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ulpscope_dump::{CallKind, Error, Rank, parse_key};
use ulpscope_formats::names::LineName;

use super::idle_lines::IdleLines;
use super::{Rule, flat_rules};

/// Rows, or whole calls, of the target and their counterparts.
#[derive(Clone, Debug)]
pub(crate) struct DataRows {
    file: PathBuf,
    rules: Vec<Rule>,
    rows: HashMap<String, usize>,
}

impl DataRows {
    pub(crate) fn read(path: &Path) -> Result<DataRows, Error> {
        let (file, rules) = flat_rules(path)?;
        let rows = rules.iter().enumerate().map(|(number, rule)| (rule.from.clone(), number)).collect();
        Ok(DataRows { file, rules, rows })
    }

    /// Pairs of calls that no file names.
    pub(crate) fn of_calls(pairs: Vec<(String, String)>) -> DataRows {
        let rules =
            pairs.into_iter().enumerate().map(|(line, (from, to))| Rule { from, to, line: line as u64 + 1 });
        DataRows { file: PathBuf::new(), rules: rules.collect(), rows: HashMap::new() }
    }

    /// The counterpart of a row.
    pub(crate) fn row(&self, target: &str) -> Option<&str> {
        self.rows.get(target).map(|&number| self.rules[number].to.as_str())
    }

    /// Every row and its counterpart, in the file's order.
    pub(crate) fn row_names(&self) -> Vec<(String, String)> {
        self.rules.iter().map(|rule| (rule.from.clone(), rule.to.clone())).collect()
    }

    /// The calls that the rows belong to. Reports lines that have no effect.
    pub(crate) fn call_pairs(
        &self,
        target: &Rank,
        golden: &Rank,
        notes: &mut Vec<String>,
    ) -> Vec<(usize, usize)> {
        let (mut ours, mut theirs) = (Calls::of(target), Calls::of(golden));
        let mut pairs = Vec::new();
        let mut partner: HashMap<usize, usize> = HashMap::new();
        let mut taken: HashMap<usize, usize> = HashMap::new();
        let mut idle = IdleLines::of(&self.file, notes);
        for rule in &self.rules {
            let Some(from) = ours.find(&rule.from) else {
                idle.add(rule.line, || format!("the target has no call or row {:?}", rule.from));
                continue;
            };
            let Some(to) = theirs.find(&rule.to) else {
                idle.add(rule.line, || format!("the golden has no call or row {:?}", rule.to));
                continue;
            };
            match (partner.entry(from), taken.entry(to)) {
                (Slot::Vacant(partner), Slot::Vacant(taken)) => {
                    partner.insert(to);
                    taken.insert(from);
                    pairs.push((from, to));
                }
                (Slot::Occupied(partner), _) if *partner.get() != to => {
                    idle.add(rule.line, || {
                        let (call, first) = (target.name(from), golden.name(*partner.get()));
                        format!(
                            "rows of {call:?} go to {first:?} by an earlier line, and a call has one counterpart"
                        )
                    });
                }
                (_, Slot::Occupied(taken)) if *taken.get() != from => {
                    idle.add(rule.line, || {
                        let (call, first) = (golden.name(to), target.name(*taken.get()));
                        format!(
                            "{call:?} goes with {first:?} by an earlier line, and a call has one counterpart"
                        )
                    });
                }
                _ => {}
            }
        }
        pairs
    }
}

/// Calls of a rank by name.
struct Calls<'a> {
    rank: &'a Rank,
    /// The entries of the last call: rows of a call are adjacent, and a call may have many.
    last: Option<(usize, HashSet<String>)>,
    numbers: HashMap<(&'a str, Option<u32>, CallKind), usize>,
}

impl<'a> Calls<'a> {
    fn of(rank: &'a Rank) -> Calls<'a> {
        let mut numbers = HashMap::new();
        for (number, call) in rank.calls().iter().enumerate() {
            numbers.entry((rank.base(call.base), call.index, call.kind)).or_insert(number);
        }
        Calls { rank, last: None, numbers }
    }

    /// The call that a row or call name refers to: the row must exist.
    fn find(&mut self, name: &str) -> Option<usize> {
        if let Some(call) = self.call(name) {
            return Some(call);
        }
        let fronts = name.rmatch_indices('.').filter_map(|(dot, _)| self.call(&name[..dot]));
        let call = fronts.chain(self.line(name)).next()?;
        self.has_entry(call, name).then_some(call)
    }

    fn has_entry(&mut self, call: usize, name: &str) -> bool {
        if let Some((last, names)) = &self.last
            && *last == call
        {
            return names.contains(name);
        }
        let entries = self.rank.entries(call).unwrap_or_default();
        let names: HashSet<String> = entries.into_iter().map(|entry| entry.name).collect();
        let has = names.contains(name);
        self.last = Some((call, names));
        has
    }

    fn call(&self, name: &str) -> Option<usize> {
        // The keys of saved variables have a suffix that their names lack.
        self.key(name).or_else(|| self.key(&format!("{name}.debug")))
    }

    fn key(&self, key: &str) -> Option<usize> {
        self.numbers.get(&parse_key(key)).copied()
    }

    /// The call of a row in the spelling of ptdbg_ascend.
    fn line(&self, name: &str) -> Option<usize> {
        let line = LineName::from_ptdbg(name)?;
        let index = line.index.and_then(|index| u32::try_from(index).ok());
        self.numbers.get(&(line.base.as_str(), index, line.direction.into())).copied()
    }
}
