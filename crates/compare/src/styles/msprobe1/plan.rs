//! The plan: rows of target in order, cut into the slices that are coloured together.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;
use ulpscope_dump::{Entry, Error, Rank};

use super::super::data_bytes;
use super::colours::colour;
use super::matching::matches;
use super::row::Draft;
use super::signature::{Signature, entries, is_input};
use super::slices::{Slice, slices};
use super::{columns, real};
use crate::style::{Judged, Partnerless, Plan, Side};
use crate::styles::msprobe::item::{Item, Release};
use crate::styles::msprobe::mode::{Mode, fallback};
use crate::styles::msprobe::pairing::without_effect;
use crate::styles::python_text;

/// An entry: call and position.
type Place = (u32, u32);

/// A comparison in the style of msprobe 1.x.
pub(crate) struct Plan1<'a> {
    target: &'a Rank,
    golden: &'a Rank,
    mode: Mode,
    stack: bool,
    /// Whether the user named the pairs.
    named: bool,
    /// Every row: the entry of target, and its counterpart.
    rows: Vec<(Place, Option<Place>)>,
    slices: Vec<Slice>,
    alone: Vec<Partnerless>,
    /// Lines of mapping files without effect.
    notes: Vec<String>,
    /// What could not be read while planning.
    problems: Vec<String>,
}

impl<'a> Plan1<'a> {
    /// Plans by the names and structures of calls.
    pub(crate) fn of_calls(
        target: &'a Rank,
        golden: &'a Rank,
        mode: Mode,
        fuzzy: bool,
        stack: bool,
    ) -> Plan1<'a> {
        let mut problems = Vec::new();
        let mut signatures = |rank: &Rank| -> Vec<Option<Signature>> {
            let calls = (0..rank.calls().len()).into_par_iter();
            let read: Vec<_> = calls.map(|call| Signature::of(rank, call, mode, fuzzy)).collect();
            let mut unread = |error: Error| {
                problems.push(error.to_string());
                Some(Signature::of_unread())
            };
            read.into_iter().map(|signature| signature.unwrap_or_else(&mut unread)).collect()
        };
        let (calls, others) = (signatures(target), signatures(golden));
        let found = matches(&calls, &others);
        let mut rows = Vec::new();
        let mut alone = Vec::new();
        for (call, signature) in calls.iter().enumerate() {
            let Some(signature) = signature else { continue };
            let partner = found.partners[call];
            if call < found.read {
                rows.extend(
                    (0..signature.rows.len() as u32)
                        .map(|row| ((call as u32, row), partner.map(|partner| (partner, row)))),
                );
            }
            if partner.is_none() && !signature.unread {
                let reason = if call < found.read {
                    "golden has no call of that name and structure where one is looked for"
                } else {
                    "golden had run out of calls"
                };
                alone.push(lone(Side::Target, target.name(call), reason));
            }
        }
        let taken: HashSet<u32> = found.partners.iter().flatten().copied().collect();
        let readable = |call: &usize| others[*call].as_ref().is_some_and(|signature| !signature.unread);
        let left = (0..others.len()).filter(|call| !taken.contains(&(*call as u32))).filter(readable);
        alone.extend(
            left.map(|call| lone(Side::Golden, golden.name(call), "no call of target was matched with it")),
        );
        let groups =
            calls[..found.read].iter().flatten().flat_map(|signature| signature.rows.iter().copied());
        let slices = slices(groups);
        let notes = fallback(target, golden);
        Plan1 { target, golden, mode, stack, named: false, rows, slices, alone, notes, problems }
    }

    /// Plans by pairs of names; the rows are in the order of the pairs.
    pub(crate) fn of_names(
        target: &'a Rank,
        golden: &'a Rank,
        mode: Mode,
        pairs: &[(String, String)],
        stack: bool,
    ) -> Plan1<'a> {
        let mut problems = Vec::new();
        let [places, others] = [target, golden].map(|rank| places(rank, &mut problems));
        let mut rows = Vec::new();
        let mut groups = Vec::new();
        let mut alone = Vec::new();
        for (name, other) in pairs {
            match (places.get(name), others.get(other)) {
                (Some(place), Some(partner)) => {
                    rows.push((*place, Some(*partner)));
                    groups.push(super::signature::group_of(name));
                }
                (Some(_), None) => {
                    alone.push(lone(Side::Target, name.clone(), "golden has no entry of that name"));
                }
                (None, Some(_)) => {
                    alone.push(lone(Side::Golden, other.clone(), "target has no entry of that name"));
                }
                (None, None) => {}
            }
        }
        let named: [HashSet<&str>; 2] = [
            pairs.iter().map(|(name, _)| name.as_str()).collect(),
            pairs.iter().map(|(_, name)| name.as_str()).collect(),
        ];
        for (side, all, named) in [(Side::Target, &places, &named[0]), (Side::Golden, &others, &named[1])] {
            let mut left: Vec<(&Place, &String)> =
                all.iter().filter(|(name, _)| !named.contains(name.as_str())).map(|(n, p)| (p, n)).collect();
            left.sort_unstable();
            alone.extend(
                left.into_iter().map(|(_, name)| lone(side, name.clone(), "the mapping does not name it")),
            );
        }
        let slices = slices(groups.into_iter());
        let mut notes =
            without_effect(pairs, |name| places.contains_key(name), |name| others.contains_key(name));
        notes.extend(fallback(target, golden));
        Plan1 { target, golden, mode, stack, named: true, rows, slices, alone, notes, problems }
    }

    /// The text of a row in the column of stacks.
    fn stack_cell(&self, place: Place, paired: bool, name: &str) -> Option<String> {
        // The stack is in the row of the first argument; for an unpaired call, in its first row.
        let shown = self.named || (place.1 == 0 && (!paired || is_input(name)));
        self.stack.then(|| {
            let stack = shown.then(|| self.target.stack(place.0 as usize)).flatten();
            stack.map_or_else(|| "None".to_owned(), |lines| python_text::texts(&lines))
        })
    }
}

fn lone(side: Side, name: String, reason: &str) -> Partnerless {
    Partnerless { side, name, reason: reason.to_owned(), is_joined: false }
}

/// Where every entry is, by name. Notes the calls that cannot be read.
fn places(rank: &Rank, problems: &mut Vec<String>) -> HashMap<String, Place> {
    let names: Vec<Result<Vec<String>, Error>> = (0..rank.calls().len())
        .into_par_iter()
        .map(|call| Ok(entries(rank, call)?.into_iter().map(|entry| entry.name).collect()))
        .collect();
    let mut places = HashMap::new();
    for (call, names) in names.into_iter().enumerate() {
        if let Err(error) = &names {
            problems.push(error.to_string());
        }
        for (entry, name) in names.unwrap_or_default().into_iter().enumerate() {
            places.insert(name, (call as u32, entry as u32));
        }
    }
    places
}

/// The entries of the calls that a unit touches; mostly of one call a side.
struct Read(HashMap<u32, Vec<Entry>>);

impl Read {
    fn new(rank: &Rank, calls: impl Iterator<Item = u32>, problems: &mut Vec<String>) -> Read {
        let mut read = HashMap::new();
        for call in calls {
            read.entry(call).or_insert_with(|| {
                entries(rank, call as usize).unwrap_or_else(|error| {
                    problems.push(error.to_string());
                    Vec::new()
                })
            });
        }
        Read(read)
    }

    fn item(&self, place: Place, mode: Mode) -> Option<Item<'_>> {
        let entry = self.0.get(&place.0)?.get(place.1 as usize)?;
        Item::of(entry, Release::V1, mode == Mode::Digests)
    }
}

impl Plan for Plan1<'_> {
    fn columns(&self) -> Vec<String> {
        columns::headings(self.mode, self.stack)
    }

    fn units(&self) -> usize {
        self.slices.len()
    }

    fn judge(&self, unit: usize) -> Judged {
        let mut judged = Judged::default();
        let slice = &self.slices[unit];
        let rows = &self.rows[slice.start..slice.end];
        let read = Read::new(self.target, rows.iter().map(|row| row.0.0), &mut judged.problems);
        let others =
            Read::new(self.golden, rows.iter().filter_map(|row| Some(row.1?.0)), &mut judged.problems);
        if self.mode == Mode::Real {
            judged.bytes = read.0.values().flatten().map(data_bytes).fold(0, u64::saturating_add);
        }
        let mut drafts = Vec::with_capacity(rows.len());
        let mut stacks = Vec::with_capacity(rows.len());
        for (place, partner) in rows {
            let Some(target) = read.item(*place, self.mode) else { continue };
            let golden = partner.and_then(|partner| others.item(partner, self.mode));
            stacks.push(self.stack_cell(*place, golden.is_some(), &target.name));
            let mut draft = Draft::new(target, golden, self.named);
            match self.mode {
                Mode::Real => {
                    let target = (&draft.target, self.target);
                    let golden = (draft.golden.as_ref(), self.golden);
                    let measured = real::compare(target, golden, &mut judged.problems);
                    draft.take(measured);
                }
                Mode::Statistics => draft.compare_statistics(),
                Mode::Digests => draft.compare_digests(),
            }
            drafts.push(draft);
        }
        if slice.seen {
            colour(&mut drafts, slice.inputs, self.mode);
        }
        if let [(place, partner), ..] = rows {
            judged.target = Some(place.0 as usize);
            judged.golden = partner.map(|partner| partner.0 as usize);
        }
        judged.rows =
            drafts.into_iter().zip(stacks).map(|(draft, stack)| draft.finish(self.mode, stack)).collect();
        judged
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }

    fn partnerless(&self) -> Vec<Partnerless> {
        self.alone.clone()
    }
}
