//! The plan: one unit per call of target, whose rows are created when it is judged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use ulpscope_dump::Entry;

use super::super::data_bytes;
use super::columns::{ColumnType, Met, headings};
use super::item::{Item, Release, Stat};
use super::mode::{Mode, fallback};
use super::pairing::{Fate, Pairing, within_call};
use super::row::{ABSENT, Draft};
use super::side::Calls;
use super::{real, verdicts};
use crate::style::{Judged, Partnerless, Plan, Side};
use crate::styles::python_text;

/// Calls examined together while the column types are not settled.
const BATCH: usize = 256;

/// The types of the columns of statistics, target's and golden's.
type Types = [[ColumnType; 4]; 2];

/// Messages of planning.
pub(crate) struct Told {
    /// Lines of mapping files without effect.
    pub(crate) notes: Vec<String>,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
}

/// A comparison in the style of msprobe 26.x.
pub(crate) struct MsprobePlan<'a> {
    target: Calls<'a>,
    golden: Calls<'a>,
    mode: Mode,
    pairing: Pairing,
    /// Whether different kinds of values may be compared.
    any_dtype: bool,
    stack: bool,
    told: Told,
    /// Computed on first use: only integers depend on the column types.
    types: OnceLock<Types>,
    /// Unpaired entries, by unit; found while units are judged.
    lone_entries: Mutex<BTreeMap<usize, Vec<Partnerless>>>,
}

/// The rows of a call before measuring: each entry of target, and its counterpart.
struct Partners {
    entries: Vec<Entry>,
    fates: Vec<Fate>,
    golden: HashMap<u32, Vec<Entry>>,
    /// Whether a call could not be read: entries that seem unpaired may have a counterpart there.
    unread: bool,
}

impl Partners {
    /// The counterpart of an entry.
    fn of(&self, position: usize) -> Option<&Entry> {
        match self.fates.get(position) {
            Some(Fate::Paired(call, entry)) => self.golden.get(call)?.get(*entry as usize),
            _ => None,
        }
    }
}

impl<'a> MsprobePlan<'a> {
    /// Plans; reads as much of the dumps as needed to decide whether the column types matter.
    pub(crate) fn new(
        (target, golden): (Calls<'a>, Calls<'a>),
        mode: Mode,
        pairing: Pairing,
        any_dtype: bool,
        stack: bool,
        told: Told,
    ) -> MsprobePlan<'a> {
        let plan = MsprobePlan {
            target,
            golden,
            mode,
            pairing,
            any_dtype,
            stack,
            told,
            types: OnceLock::new(),
            lone_entries: Mutex::default(),
        };
        // Dumps with integers mostly have some at the start; then all cores find the types.
        if mode != Mode::Digests && plan.met_ahead(0).iter().any(Met::has_integers) {
            plan.types.get_or_init(|| plan.column_types(|start| plan.met_ahead(start)));
        }
        plan
    }

    /// The types of the columns that two items are shown in.
    fn types_for(&self, target: &Item<'_>, golden: Option<&Item<'_>>) -> &Types {
        const ANY: Types = [[ColumnType::Mixed; 4]; 2];
        let mut stats = target.stats.iter().chain(golden.into_iter().flat_map(|golden| &golden.stats));
        if self.mode == Mode::Digests || !stats.any(|stat| matches!(stat, Stat::Int(_))) {
            return &ANY;
        }
        // On one core: a core that waits here could be given rows that wait for these types, and deadlock.
        self.types.get_or_init(|| {
            self.column_types(|start| Met::in_all(self.batch(start).map(|call| self.met_in(call))))
        })
    }

    /// The types of the columns, from what batches of calls hold.
    fn column_types(&self, met_from: impl Fn(usize) -> [Met; 2]) -> Types {
        let mut met = [Met::default(); 2];
        for start in (0..self.target.keys.len()).step_by(BATCH) {
            met = Met::in_all([met, met_from(start)].into_iter());
            if met.iter().all(Met::is_settled) {
                break;
            }
        }
        met.map(|met| met.types())
    }

    fn batch(&self, start: usize) -> Range<usize> {
        start..self.target.keys.len().min(start + BATCH)
    }

    /// What the columns hold in the rows of a batch of calls, found out by all cores.
    fn met_ahead(&self, start: usize) -> [Met; 2] {
        let found: Vec<[Met; 2]> = self.batch(start).into_par_iter().map(|call| self.met_in(call)).collect();
        Met::in_all(found.into_iter())
    }

    /// What the columns of statistics hold in the rows of a call.
    fn met_in(&self, call: usize) -> [Met; 2] {
        let mut met = [Met::default(); 2];
        let Some(partners) = self.partners(call, &mut Vec::new()) else { return met };
        for (position, entry) in partners.entries.iter().enumerate() {
            let Some(item) = self.row_of(&partners, position, entry) else { continue };
            met[0].add(&item.stats);
            match self.partner_item(&partners, position, &item) {
                Ok(golden) => met[1].add(&golden.stats),
                Err(_) => met[1].add_absent(),
            }
        }
        met
    }

    /// The item of an entry, if it has a row.
    fn row_of<'e>(&self, partners: &Partners, position: usize, entry: &'e Entry) -> Option<Item<'e>> {
        if partners.fates.get(position) == Some(&Fate::Dropped) {
            return None;
        }
        Item::of(entry, Release::V26, self.mode == Mode::Digests)
    }

    /// The counterpart's item, if it may be compared; otherwise why not.
    fn partner_item<'e>(
        &self,
        partners: &'e Partners,
        position: usize,
        target: &Item<'_>,
    ) -> Result<Item<'e>, String> {
        let golden = partners
            .of(position)
            .and_then(|entry| Item::of(entry, Release::V26, self.mode == Mode::Digests))
            .ok_or("golden has no entry of that name")?;
        if self.any_dtype || target.goes_with(&golden) {
            return Ok(golden);
        }
        let [dtype, other] = [target, &golden].map(|item| item.dtype.as_deref().unwrap_or("None"));
        Err(format!("target is {dtype}, golden is {other}, and these are not compared"))
    }

    /// The entries of a call of target with their counterparts; `None` if it has no rows.
    fn partners(&self, call: usize, problems: &mut Vec<String>) -> Option<Partners> {
        self.target.keys[call]?;
        let told_before = problems.len();
        let read = |side: &Calls<'_>, call: usize, problems: &mut Vec<String>| {
            side.entries(call).unwrap_or_else(|error| {
                problems.push(error.to_string());
                Vec::new()
            })
        };
        let entries = read(&self.target, call, problems);
        let mut golden = HashMap::new();
        let fates = match &self.pairing {
            Pairing::Calls(calls) => match calls[call] {
                None => vec![Fate::Alone; entries.len()],
                Some(other) => {
                    let others = read(&self.golden, other as usize, problems);
                    let names = [self.target.rank.name(call), self.golden.rank.name(other as usize)];
                    let target: Vec<&str> =
                        entries.iter().map(|entry| self.target.suffix(&names[0], &entry.name)).collect();
                    let golden_names: Vec<&str> =
                        others.iter().map(|entry| self.golden.suffix(&names[1], &entry.name)).collect();
                    let fates = within_call(&target, &golden_names)
                        .into_iter()
                        .map(|entry| entry.map_or(Fate::Alone, |entry| Fate::Paired(other, entry as u32)))
                        .collect();
                    golden.insert(other, others);
                    fates
                }
            },
            Pairing::Rows(rows) => {
                let fates = rows[call].clone();
                for fate in &fates {
                    if let Fate::Paired(call, _) = fate {
                        golden.entry(*call).or_insert_with(|| read(&self.golden, *call as usize, problems));
                    }
                }
                fates
            }
        };
        let unread = problems.len() > told_before;
        Some(Partners { entries, fates, golden, unread })
    }

    /// Notes unpaired entries of a paired call.
    fn note_lone_entries(&self, call: usize, lone: Vec<Partnerless>) {
        if !lone.is_empty() {
            self.lone_entries.lock().unwrap_or_else(PoisonError::into_inner).insert(call, lone);
        }
    }

    /// The entries of golden in a paired call without a row of target.
    fn golden_left_in(&self, partners: &Partners) -> Vec<Partnerless> {
        let Pairing::Calls(_) = self.pairing else { return Vec::new() };
        let taken: HashSet<u32> = partners
            .fates
            .iter()
            .filter_map(|fate| if let Fate::Paired(_, entry) = fate { Some(*entry) } else { None })
            .collect();
        let entries = partners.golden.values().flatten().enumerate();
        entries
            .filter(|(position, _)| !taken.contains(&(*position as u32)))
            .map(|(_, entry)| Partnerless {
                side: Side::Golden,
                name: entry.name.clone(),
                reason: "target has no entry of that name".to_owned(),
                is_joined: false,
            })
            .collect()
    }

    fn stack_cell(&self, call: usize, first: bool) -> Option<String> {
        self.stack.then(|| match first.then(|| self.target.rank.stack(call)).flatten() {
            Some(lines) => python_text::texts(&lines),
            None => ABSENT.to_owned(),
        })
    }

    /// Calls and rows of golden without a row of target.
    fn golden_alone(&self) -> Vec<Partnerless> {
        let alone = |name: String, what: &str| Partnerless {
            side: Side::Golden,
            name,
            reason: format!("target has no such {what}"),
            is_joined: false,
        };
        match &self.pairing {
            Pairing::Calls(calls) => {
                let taken: HashSet<u32> = calls.iter().flatten().copied().collect();
                (0..self.golden.keys.len())
                    .filter(|&call| !taken.contains(&(call as u32)))
                    .map(|call| alone(self.golden.rank.name(call), "call"))
                    .collect()
            }
            Pairing::Rows(rows) => {
                let taken: HashSet<(u32, u32)> = rows
                    .iter()
                    .flatten()
                    .filter_map(|fate| match fate {
                        Fate::Paired(call, entry) => Some((*call, *entry)),
                        _ => None,
                    })
                    .collect();
                let left = |call: usize| -> Vec<Partnerless> {
                    // Calls that cannot be read are among the problems of planning.
                    let entries = self.golden.entries(call).unwrap_or_default().into_iter().enumerate();
                    entries
                        .filter(|(entry, _)| !taken.contains(&(call as u32, *entry as u32)))
                        .map(|(_, entry)| alone(entry.name, "entry"))
                        .collect()
                };
                (0..self.golden.keys.len()).into_par_iter().flat_map_iter(left).collect()
            }
        }
    }
}

impl Plan for MsprobePlan<'_> {
    fn columns(&self) -> Vec<String> {
        headings(self.mode, self.stack)
    }

    fn units(&self) -> usize {
        self.target.keys.len()
    }

    fn judge(&self, unit: usize) -> Judged {
        let mut judged = Judged { target: Some(unit), ..Judged::default() };
        let Some(partners) = self.partners(unit, &mut judged.problems) else { return judged };
        let whole = match &self.pairing {
            Pairing::Calls(calls) => {
                judged.golden = calls[unit].map(|call| call as usize);
                calls[unit].is_none()
            }
            Pairing::Rows(_) => false,
        };
        let mut lone = Vec::new();
        let mut drafts = Vec::with_capacity(partners.entries.len());
        let mut first_is_shown = false;
        for (position, entry) in partners.entries.iter().enumerate() {
            let alone = |reason: String| Partnerless {
                side: Side::Target,
                name: entry.name.clone(),
                reason,
                is_joined: false,
            };
            let Some(item) = self.row_of(&partners, position, entry) else {
                if partners.fates.get(position) == Some(&Fate::Dropped) {
                    lone.push(alone("golden had run out of rows".to_owned()));
                }
                continue;
            };
            first_is_shown |= position == 0;
            let golden = match self.partner_item(&partners, position, &item) {
                Ok(golden) => Some(golden),
                Err(reason) => {
                    lone.push(alone(reason));
                    None
                }
            };
            let types = self.types_for(&item, golden.as_ref());
            let mut draft = Draft::new(item, golden, types);
            match self.mode {
                Mode::Real => {
                    judged.bytes = judged.bytes.saturating_add(data_bytes(entry));
                    let target = (&draft.target, self.target.rank);
                    let golden = (draft.golden.as_ref(), self.golden.rank);
                    let measured = real::compare(target, golden, &mut judged.problems);
                    draft.take(measured);
                }
                Mode::Statistics => draft.compare_statistics(types),
                Mode::Digests => {}
            }
            drafts.push(draft);
        }
        verdicts::judge(&mut drafts, self.mode);
        judged.rows = drafts
            .into_iter()
            .enumerate()
            .map(|(row, draft)| draft.finish(self.mode, self.stack_cell(unit, row == 0 && first_is_shown)))
            .collect();
        if partners.unread {
            lone.clear();
        } else if whole {
            // Reported once for the call, not for each entry.
            lone.clear();
            lone.push(Partnerless {
                side: Side::Target,
                name: self.target.rank.name(unit),
                reason: "golden has no such call".to_owned(),
                is_joined: false,
            });
        } else {
            lone.extend(self.golden_left_in(&partners));
        }
        self.note_lone_entries(unit, lone);
        judged
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.told.notes.clone();
        notes.extend(fallback(self.target.rank, self.golden.rank));
        notes
    }

    fn problems(&self) -> Vec<String> {
        self.told.problems.clone()
    }

    fn partnerless(&self) -> Vec<Partnerless> {
        let passed_over = (0..self.target.keys.len()).filter(|&call| self.target.keys[call].is_none());
        let mut all: Vec<Partnerless> = passed_over
            .map(|call| Partnerless {
                side: Side::Target,
                name: self.target.rank.name(call),
                reason: "the name says neither forward nor backward".to_owned(),
                is_joined: false,
            })
            .collect();
        let lone = self.lone_entries.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(lone.values().flatten().cloned());
        all.extend(self.golden_alone());
        all
    }
}
