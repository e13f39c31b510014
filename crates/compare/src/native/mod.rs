//! Our own way of comparing: every metric, and verdicts that know the dtype.
//!
//! ```text
//! pairing ──► unit (two calls) ──► entries paired by role and position ──► measure ──► row, verdict
//!                                                                               └──► finding of the call
//! ```
//! A limit is that of the coarsest dtype so far, not only of the pair: errors of bfloat16 stay in what is computed from it.
//! A call's finding is drawn from its first failing entry: a failing argument of a call before which nothing failed
//! came from outside; a failing result of a call whose arguments agree was made here.

mod columns;
mod limit;
mod measure;
mod values;
mod verdict;

use ulpscope_dump::{CallKind, Content, Entry, Error, Rank, Role, Task};

use crate::pairing::{
    CallPair, EntryHow, EntryPair, EntryUnit, PairOptions, Pairing, Unit, pair, pair_entries,
};
use crate::style::{Judged, Partnerless, Plan, Side, Style, Verdict};
pub use columns::COLUMNS;
use columns::Line;
use measure::{Measured, State, measure};
use verdict::{finding, verdict_of, why};

/// Elements from which on a tensor counts as one that others are computed from.
const MANY: u64 = 32;

/// The native style.
#[derive(Debug, Default)]
pub struct Native {
    /// How calls are put together.
    pub pairing: PairOptions,
}

impl Style for Native {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        let pairing = pair(target, golden, &self.pairing);
        Ok(Box::new(NativePlan { target, golden, pairing, options: &self.pairing }))
    }

    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String> {
        Some(crate::styles::advisor::advise(first_failing))
    }
}

struct NativePlan<'a> {
    target: &'a Rank,
    golden: &'a Rank,
    pairing: Pairing,
    options: &'a PairOptions,
}

impl Plan for NativePlan<'_> {
    fn columns(&self) -> Vec<String> {
        COLUMNS.iter().map(|&(name, _)| name.to_owned()).collect()
    }

    fn units(&self) -> usize {
        self.pairing.units.len()
    }

    fn judge(&self, unit: usize) -> Judged {
        match &self.pairing.units[unit] {
            Unit::Pair(pair) => self.judge_pair(pair),
            Unit::TargetOnly { call, reason } => self.judge_lone(Side::Target, *call, &reason.to_string()),
            Unit::GoldenOnly { call, reason } => self.judge_lone(Side::Golden, *call, &reason.to_string()),
        }
    }

    fn settle(&self, judged: &mut Judged, coarsest: &mut f64) {
        *coarsest = coarsest.max(judged.coarsest);
        // Tensors of a checkpoint are not computed from one another.
        let saved = judged.target.is_some_and(|call| self.target.calls()[call].kind == CallKind::Saved);
        verdict::settle(judged, if saved { 0.0 } else { *coarsest });
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.pairing.notes.clone();
        notes.extend(match (self.target.task, self.golden.task) {
            (Task::Tensor, Task::Tensor) => None,
            (Task::Structure, _) | (_, Task::Structure) => {
                Some("a dump of structure holds no values: only the calls were compared".to_owned())
            }
            (Task::Statistics, Task::Statistics) => Some(
                "compared by statistics or digests only, as no tensors were dumped: reordered elements do not show"
                    .to_owned(),
            ),
            _ => Some("only one side has tensors: compared by statistics".to_owned()),
        });
        notes
    }
}

impl NativePlan<'_> {
    fn judge_pair(&self, pair: &CallPair) -> Judged {
        let mut judged = Judged { target: Some(pair.target), golden: Some(pair.golden), ..Judged::default() };
        let name = self.target.name(pair.target);
        let how = pair.how.word();
        judged.how = Some(how);
        let entries = (self.target.entries(pair.target), self.golden.entries(pair.golden));
        let (target, golden) = match entries {
            (Ok(target), Ok(golden)) => (target, golden),
            (target, golden) => {
                for error in [target.err(), golden.err()].into_iter().flatten() {
                    judged.problems.push(error.to_string());
                }
                let line = Line { call: &name, how, ..Line::default() };
                judged.rows.push(line.row(
                    "not compared",
                    "the call could not be read",
                    Verdict::NotCompared,
                ));
                return judged;
            }
        };
        let units = pair_entries(&target, &golden, &self.options.mapping);
        let mut measured: Vec<Option<Measured>> = units.iter().map(|unit| self.measure(unit)).collect();
        self.allow_for_size(pair, &units, &mut measured);
        let (module, code) = self.place(pair);
        for (number, (unit, measured)) in units.iter().zip(measured).enumerate() {
            let mut line = Line { call: &name, how, ..Line::default() };
            if number == 0 {
                line.module = module.as_deref();
                line.code = code.as_deref();
            }
            match (*unit, measured) {
                (EntryUnit::TargetOnly { entry, reason }, _) => {
                    line.target = Some(entry);
                    judge_lone_entry(&line, Side::Target, entry, reason.to_string(), &mut judged);
                }
                (EntryUnit::GoldenOnly { entry, reason }, _) => {
                    line.golden = Some(entry);
                    judge_lone_entry(&line, Side::Golden, entry, reason.to_string(), &mut judged);
                }
                (EntryUnit::Pair(EntryPair { target: one, golden: other, how }), Some(measured)) => {
                    match how {
                        EntryHow::Place => {}
                        EntryHow::Order => line.how = "order of arguments",
                        EntryHow::Mapped => line.how = "mapped",
                    }
                    line.target = Some(one);
                    line.golden = Some(other);
                    judge_entries(line, one, measured, &mut judged);
                }
                (EntryUnit::Pair(_), None) => {}
            }
        }
        judged
    }

    fn measure(&self, unit: &EntryUnit<'_>) -> Option<Measured> {
        match unit {
            EntryUnit::Pair(pair) => Some(measure((self.target, pair.target), (self.golden, pair.golden))),
            _ => None,
        }
    }

    /// Holds errors of parameters' gradients also against the size of the largest: see [`Measured::allow_for`].
    fn allow_for_size(&self, pair: &CallPair, units: &[EntryUnit<'_>], measured: &mut [Option<Measured>]) {
        if self.target.calls()[pair.target].kind != CallKind::ParametersGrad {
            return;
        }
        let count = |unit: &EntryUnit<'_>| match unit {
            EntryUnit::Pair(EntryPair { golden, .. }) => match &golden.content {
                Content::Tensor(tensor) => tensor.count(),
                _ => None,
            },
            _ => None,
        };
        let sizes = units.iter().zip(measured.iter());
        let sizes = sizes.filter_map(|(unit, one)| Some(one.as_ref()?.golden_size(count(unit))));
        let largest = sizes.fold(0.0, f64::max);
        measured.iter_mut().flatten().for_each(|one| one.allow_for(largest));
    }

    /// The module a call was made in, and the line of code.
    fn place(&self, pair: &CallPair) -> (Option<String>, Option<String>) {
        let module = self.target.parent(pair.target).or_else(|| self.golden.parent(pair.golden));
        let stack = self.target.stack(pair.target).or_else(|| self.golden.stack(pair.golden));
        (module, stack.and_then(|stack| crate::stack::own_line(&stack)))
    }

    fn judge_lone(&self, side: Side, call: usize, reason: &str) -> Judged {
        let rank = match side {
            Side::Target => self.target,
            Side::Golden => self.golden,
        };
        let name = rank.name(call);
        let mut judged = Judged::default();
        match side {
            Side::Target => judged.target = Some(call),
            Side::Golden => judged.golden = Some(call),
        }
        let stack = rank.stack(call).and_then(|stack| crate::stack::own_line(&stack));
        let module = rank.parent(call);
        let line = Line { call: &name, module: module.as_deref(), code: stack.as_deref(), ..Line::default() };
        judged.rows.push(line.row(only_in(side), reason, Verdict::Warn));
        judged.partnerless.push(Partnerless { side, name, reason: reason.to_owned() });
        judged
    }
}

/// The row of a pair, and what follows from it for the call.
fn judge_entries(line: Line<'_>, entry: &Entry, mut measured: Measured, judged: &mut Judged) {
    judged.bytes = judged.bytes.saturating_add(measured.bytes);
    judged.problems.append(&mut measured.problems);
    judged.undecided += u64::from(measured.is_undecided(entry));
    // Coarse tensors that are equal have made no errors that could go on, and a few elements are a flag or a scale, not
    // what everything else is computed from.
    let large = matches!(&entry.content, Content::Tensor(tensor) if tensor.count() >= Some(MANY));
    if large && matches!(measured.state, State::Close(_) | State::Far(_)) {
        judged.coarsest = judged.coarsest.max(measured.limit);
    }
    let (word, mut verdict) = verdict_of(&measured.state);
    if measured.is_undecided(entry) {
        verdict = Verdict::Warn;
    }
    let mut why = why(&measured);
    let row = Line { measured: Some(&measured), ..line }.row(word, &why, verdict);
    if verdict == Verdict::Fail {
        let unseen = entry.role == Role::Output && judged.undecided > 0;
        if unseen {
            why += "; not all arguments could be compared";
        }
        let mut finding = finding(judged.rows.len(), entry, &measured, why);
        if unseen {
            finding.confidence /= 2.0;
        }
        judged.findings.push(finding);
    }
    judged.rows.push(row);
}

/// An entry that one side lacks: a difference if it is a tensor. Plain values are left out and filled in at will.
fn judge_lone_entry(line: &Line<'_>, side: Side, entry: &Entry, reason: String, judged: &mut Judged) {
    let is_tensor = matches!(entry.content, Content::Tensor(_));
    let verdict = if is_tensor { Verdict::Warn } else { Verdict::NotCompared };
    judged.rows.push(line.row(only_in(side), &reason, verdict));
    if is_tensor {
        judged.partnerless.push(Partnerless { side, name: entry.name.clone(), reason });
    }
}

fn only_in(side: Side) -> &'static str {
    match side {
        Side::Target => "only in target",
        Side::Golden => "only in golden",
    }
}
