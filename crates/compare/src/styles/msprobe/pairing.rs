//! Pairs rows of target and golden.
//!
//! | way | rows belong together when |
//! |---|---|
//! | exact | their calls have one key and their names end alike |
//! | mapped | golden's name is the one the mapping gives for target's |
//! | fuzzy | their names agree except for the number of the call, and no earlier pair is crossed |

use std::collections::{HashMap, HashSet, VecDeque};

use rayon::prelude::*;
use ulpscope_dump::{Entry, Error};

use super::side::Calls;
use crate::style::Side;

/// The outcome for a row of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is compared with this entry of this call of golden.
    Paired(u32, u32),
    /// It has no counterpart.
    Alone,
    /// The tool loses it.
    Dropped,
}

/// The pairs.
pub(crate) enum Pairing {
    /// By call of target, golden's; rows within by the ends of their names.
    Calls(Vec<Option<u32>>),
    /// By call and entry of target.
    Rows(Vec<Vec<Fate>>),
}

/// Pairs calls by their keys.
pub(crate) fn exact(target: &Calls<'_>, golden: &Calls<'_>) -> Pairing {
    let mut numbers = HashMap::with_capacity(golden.keys.len());
    for (number, key) in golden.keys.iter().enumerate() {
        if let Some(key) = key {
            numbers.entry(*key).or_insert(number as u32);
        }
    }
    Pairing::Calls(target.keys.iter().map(|key| numbers.get(&(*key)?).copied()).collect())
}

/// Pairs the entries of two calls by the ends of their names.
pub(crate) fn within_call(target: &[&str], golden: &[&str]) -> Vec<Option<usize>> {
    let mut by_name: Option<HashMap<&str, usize>> = None;
    let partner = |(position, name): (usize, &&str)| {
        // Nearly always the two lists are the same.
        if golden.get(position) == Some(name) {
            return Some(position);
        }
        let by_name = by_name
            .get_or_insert_with(|| golden.iter().enumerate().rev().map(|(at, name)| (*name, at)).collect());
        by_name.get(*name).copied()
    };
    target.iter().enumerate().map(partner).collect()
}

/// Pairs rows by a mapping from names of target's rows to names of golden's; a name that is not in it stands for
/// itself.
/// What the user should know of lines of the mapping is noted, if they are the user's own.
pub(crate) fn mapped(
    target: &Calls<'_>,
    golden: &Calls<'_>,
    lines: &[(String, String)],
    notes: Option<&mut Vec<String>>,
    problems: &mut Vec<String>,
) -> Pairing {
    let mapping: HashMap<&str, &str> =
        lines.iter().map(|(target, golden)| (target.as_str(), golden.as_str())).collect();
    let names = row_names(target, false, problems);
    let mut places = HashMap::new();
    for (call, names) in row_names(golden, true, problems).into_iter().enumerate() {
        for (entry, name) in names.into_iter().enumerate() {
            places.entry(name).or_insert((call as u32, entry as u32));
        }
    }
    let fate = |name: &String| {
        let wanted = mapping.get(name.as_str()).copied().unwrap_or(name);
        places.get(wanted).map_or(Fate::Alone, |&(call, entry)| Fate::Paired(call, entry))
    };
    if let Some(notes) = notes {
        let own: HashSet<&str> = names.iter().flatten().map(String::as_str).collect();
        notes.extend(without_effect(lines, |name| own.contains(name), |name| places.contains_key(name)));
    }
    Pairing::Rows(names.iter().map(|names| names.iter().map(fate).collect()).collect())
}

/// Reports the lines of a data mapping that match nothing, given the names of the rows of both sides.
pub(crate) fn without_effect(
    lines: &[(String, String)],
    in_target: impl Fn(&str) -> bool,
    in_golden: impl Fn(&str) -> bool,
) -> Vec<String> {
    let note = |(target, golden): &(String, String)| {
        let (side, name) = match (in_target(target), in_golden(golden)) {
            (true, true) => return None,
            (false, _) => (Side::Target, target),
            (true, false) => (Side::Golden, golden),
        };
        let line = format!("data mapping: \"{target}: {golden}\"");
        Some(format!("{line}: the {} has no row {name:?}; the line has no effect", side.word()))
    };
    lines.iter().filter_map(note).collect()
}

/// The names of all rows, by call. Notes the calls that cannot be read.
fn row_names(side: &Calls<'_>, keys: bool, problems: &mut Vec<String>) -> Vec<Vec<String>> {
    let names = |call: usize| -> Result<Vec<String>, Error> {
        let entries = side.entries(call)?;
        if side.keys[call].is_none() {
            return Ok(Vec::new());
        }
        let call_name = side.rank.name(call);
        let name = |entry: Entry| if keys { side.row_key(call, &call_name, &entry.name) } else { entry.name };
        Ok(entries.into_iter().map(name).collect())
    };
    let read: Vec<_> = (0..side.keys.len()).into_par_iter().map(names).collect();
    let mut told = |error: Error| {
        problems.push(error.to_string());
        Vec::new()
    };
    read.into_iter().map(|names| names.unwrap_or_else(&mut told)).collect()
}

/// Pairs rows whose names agree except for the number of the call. Both lists are read in step; the newest row of
/// either side is looked up among the waiting rows of the other, and rows that waited before a pair stay unpaired.
pub(crate) fn fuzzy(target: &Calls<'_>, golden: &Calls<'_>, problems: &mut Vec<String>) -> Pairing {
    let mut ids = HashMap::new();
    let mut flat = |names: &[Vec<String>]| -> Vec<u32> {
        let all = names.iter().flatten().map(|name| without_number(name));
        all.map(|name| {
            let next = ids.len() as u32;
            *ids.entry(name).or_insert(next)
        })
        .collect()
    };
    let names = [target, golden].map(|side| row_names(side, false, problems));
    let (rows, others) = (flat(&names[0]), flat(&names[1]));
    let mut pairs = walk(&rows, &others).into_iter();
    let places: Vec<(u32, u32)> = names[1]
        .iter()
        .enumerate()
        .flat_map(|(call, names)| (0..names.len()).map(move |entry| (call as u32, entry as u32)))
        .collect();
    let mut fate = || match pairs.next() {
        Some(Step::Paired(row)) => Fate::Paired(places[row].0, places[row].1),
        Some(Step::Alone) => Fate::Alone,
        Some(Step::Dropped) | None => Fate::Dropped,
    };
    Pairing::Rows(names[0].iter().map(|names| names.iter().map(|_| fate()).collect()).collect())
}

/// The name without the number of the call: the part before the direction loses its last component.
fn without_number(name: &str) -> String {
    let Some(direction) = ["forward", "backward"].into_iter().find(|word| name.contains(word)) else {
        return name.to_owned();
    };
    let mut parts = name.split(direction);
    let (before, behind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let head = before.rsplitn(3, '.').last().unwrap_or_default();
    format!("{head}.{direction}{behind}")
}

/// The outcome for a row of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its counterpart.
    Paired(usize),
    /// None.
    Alone,
    /// The walk ended before it.
    Dropped,
}

/// The rows of one side without a counterpart yet: a range of the list, and the positions of each name.
struct Waiting<'a> {
    names: &'a [u32],
    places: HashMap<u32, VecDeque<usize>>,
    start: usize,
    end: usize,
}

impl<'a> Waiting<'a> {
    fn new(names: &'a [u32]) -> Waiting<'a> {
        Waiting { names, places: HashMap::new(), start: 0, end: 0 }
    }

    /// Adds the next row, if there is one.
    fn next(&mut self) {
        if let Some(&name) = self.names.get(self.end) {
            self.places.entry(name).or_default().push_back(self.end);
            self.end += 1;
        }
    }

    /// The newest row.
    fn newest(&self) -> u32 {
        self.names[self.end - 1]
    }

    /// The first waiting row of a name.
    fn first(&mut self, name: u32) -> Option<usize> {
        let places = self.places.get_mut(&name)?;
        while places.front().is_some_and(|&place| place < self.start) {
            places.pop_front();
        }
        places.front().copied()
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

fn walk(target: &[u32], golden: &[u32]) -> Vec<Step> {
    let mut steps = vec![Step::Dropped; target.len()];
    let (mut rows, mut others) = (Waiting::new(target), Waiting::new(golden));
    for _ in 0..target.len().max(golden.len()) {
        rows.next();
        others.next();
        if rows.is_empty() || others.is_empty() {
            break;
        }
        let pair = match others.first(rows.newest()) {
            Some(other) => Some((rows.end - 1, other)),
            None => rows.first(others.newest()).map(|row| (row, others.end - 1)),
        };
        if let Some((row, other)) = pair {
            steps[rows.start..row].fill(Step::Alone);
            steps[row] = Step::Paired(other);
            rows.start = row + 1;
            others.start = other + 1;
        }
    }
    steps[rows.start..rows.end].fill(Step::Alone);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_call_is_left_out() {
        assert_eq!(
            without_number("Functional.linear.3.forward.input.0"),
            "Functional.linear.forward.input.0"
        );
        // The tool cuts a module's class, and leaves its number.
        assert_eq!(without_number("Module.fc.Linear.backward.1.output.0"), "Module.fc.backward.1.output.0");
        assert_eq!(
            without_number("Module.fc.Linear.parameters_grad.0"),
            "Module.fc.Linear.parameters_grad.0"
        );
    }

    #[test]
    fn the_walk_never_crosses_a_pair() {
        use Step::{Alone, Dropped, Paired};
        assert_eq!(walk(&[1, 2, 3], &[1, 2, 3]), [Paired(0), Paired(1), Paired(2)]);
        assert_eq!(walk(&[1, 9, 2, 3], &[1, 2, 3]), [Paired(0), Alone, Paired(1), Paired(2)]);
        assert_eq!(walk(&[1, 2], &[1, 9, 2]), [Paired(0), Paired(2)]);
        // After golden has ended and none of it waits, the rest of target is never read.
        assert_eq!(walk(&[1, 2, 3, 4], &[1]), [Paired(0), Alone, Dropped, Dropped]);
    }
}
