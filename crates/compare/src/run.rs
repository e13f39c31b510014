//! Runs a plan: unit by unit on all cores; rows are passed on in order.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};
use ulpscope_dump::{CallKind, Error, Problems, Rank};
use ulpscope_kernels::stoppable;

use crate::divergence_entry::DivergenceEntry;
use crate::final_result::FinalResult;
use crate::finding::{Finding, FindingCause, FindingKind};
use crate::note::Note;
use crate::origins::{OriginCounts, TakenOrigins};
use crate::pairing::How;
use crate::row_spool::{PackedUnit, RowSpool};
use crate::stack::CodeLines;
use crate::style::{Conclusions, Judged, Known, Partnerless, Row, Side, Style, Verdict};
use crate::verdict::{COLLECTIVES, ClassCounts, Divergence, LoneCall};
use crate::{ledgers, levels};

/// Units measured before their rows are passed on, for each core: enough to keep it busy, few enough for its cache.
const BATCH_PER_CORE: usize = 32;

/// However many cores there are: few enough for memory.
const LARGEST_BATCH: usize = 512;

fn batch_size() -> usize {
    (BATCH_PER_CORE * rayon::current_num_threads()).min(LARGEST_BATCH)
}

/// Failing calls kept by name; further ones are only counted.
const MAX_FAILING_CALLS: usize = 10_000;

/// Calls that introduced an error, kept with their evidence; further ones are only counted.
const MAX_DIVERGENCES: usize = 1_000;

/// Receives the rows of a comparison, in order.
pub trait Sink {
    /// The headings, before any row.
    fn columns(&mut self, columns: &[String]) -> io::Result<()>;

    /// The next row.
    fn row(&mut self, row: Row) -> io::Result<()>;

    /// The file name of the sheet with the rows, if one is written.
    fn sheet(&self) -> Option<String> {
        None
    }
}

/// Receives the progress of a comparison.
pub trait Progress: Sync {
    /// The number of units to compare.
    fn start(&self, units: u64);

    /// One more unit was compared; `bytes` were read for it, on both sides together.
    fn advance(&self, bytes: u64);

    /// A flag that is set when the result is no longer needed; `None` if that cannot happen.
    fn stop(&self) -> Option<&Arc<AtomicBool>> {
        None
    }
}

/// Ignores the progress.
pub struct NoProgress;

impl Progress for NoProgress {
    fn start(&self, _units: u64) {}
    fn advance(&self, _bytes: u64) {}
}

/// Rows by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub rows: u64,
    /// In agreement.
    pub passed: u64,
    /// Worth a look.
    pub warned: u64,
    /// Not in agreement.
    pub failed: u64,
    /// Not compared.
    pub not_compared: u64,
}

impl Counts {
    fn count(&mut self, verdict: Verdict) {
        self.rows += 1;
        *match verdict {
            Verdict::Pass => &mut self.passed,
            Verdict::NotCompared => &mut self.not_compared,
            Verdict::Warn => &mut self.warned,
            Verdict::Fail => &mut self.failed,
        } += 1;
    }

    /// The counts of both.
    pub fn add(&mut self, more: &Counts) {
        self.rows += more.rows;
        self.passed += more.passed;
        self.warned += more.warned;
        self.failed += more.failed;
        self.not_compared += more.not_compared;
    }
}

/// A word of [`How`]. Not borrowed from the text that it is read from.
type Way = &'static str;

/// Calls that were paired in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paired {
    /// The way, in a word.
    #[serde(deserialize_with = "known_way")]
    pub how: Way,
    /// Calls of the target.
    pub calls: u64,
    /// Their rows.
    pub rows: u64,
}

fn known_way<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let word = String::deserialize(deserializer)?;
    How::known_word(&word).ok_or_else(|| de::Error::custom(format!("{word:?} is no way of pairing calls")))
}

impl Paired {
    /// Adds to the entry for the same way.
    pub fn add_to(self, all: &mut Vec<Paired>) {
        match all.iter_mut().find(|known| known.how == self.how) {
            Some(known) => {
                known.calls += self.calls;
                known.rows += self.rows;
            }
            None => all.push(self),
        }
    }
}

/// A call with failing rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingCall {
    /// Its name.
    pub name: String,
    /// How many of its rows fail.
    pub rows: u64,
}

/// The result of comparing two ranks, without the rows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RankOutcome {
    /// Rows by verdict.
    pub counts: Counts,
    /// How calls were paired, in order; empty if the style has only one way.
    pub paired: Vec<Paired>,
    /// Rows of tensors that could not be judged.
    pub undecided: u64,
    /// Calls and entries that only one side has.
    pub partnerless: Vec<Partnerless>,
    /// The first of the calls with failing rows, in order.
    pub failing: Vec<FailingCall>,
    /// How many there are in total.
    pub failing_calls: u64,
    /// The calls that introduced an error, in order; in an older tool's style the first with a failing row.
    pub divergences: Vec<Divergence>,
    /// How many there are in total.
    pub divergence_count: u64,
    /// Calls that were blamed until replay refuted it, in order.
    pub refuted: Vec<Divergence>,
    /// The final result that differs most, if it differs by more than accumulated rounding allows and no call
    /// introduced an error.
    pub unexplained: Option<FinalResult>,
    /// Whether every final result was compared with what accumulated rounding allows.
    pub are_final_results_bounded: bool,
    /// Where final results differ by rounding and only their statistics are known: the relative error of elements below
    /// which nothing may show.
    pub hidden_error: Option<f64>,
    /// The side that has no backward pass, if the other has one.
    pub forward_only: Option<Side>,
    /// Calls by class, for styles that judge calls.
    pub classes: Option<ClassCounts>,
    /// How many parameters and buffers differ, if a call was found that uses one.
    pub origins: Option<OriginCounts>,
    /// Whether neither side has calls, but only tensors with names, as two checkpoints have.
    pub only_tensors: bool,
    /// The file name of the sheet with the rows, if one is written.
    pub sheet: Option<String>,
    /// The capture levels of the target and the golden, if recorded.
    pub levels: [Option<String>; 2],
    /// What could not be read, on either side.
    pub problems: Problems,
    /// Notes on how the comparison was done.
    pub notes: Vec<Note>,
    /// Whether a run was killed: only the recorded part is compared.
    pub is_cut: bool,
    /// The advice of the style, if it gives any.
    pub advice: Option<String>,
    /// Bytes of tensors compared, on both sides together.
    pub bytes: u64,
}

impl RankOutcome {
    /// The first call that introduced an error.
    pub fn first_divergence(&self) -> Option<&Divergence> {
        self.divergences.first()
    }

    /// How many calls or entries only that side has.
    pub fn only_in(&self, side: Side) -> usize {
        self.partnerless.iter().filter(|lone| lone.side == side).count()
    }
}

/// An error of a whole comparison.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A dump cannot be read, or cannot be compared in this style.
    #[error(transparent)]
    Dump(#[from] Error),
    /// The rows cannot be written.
    #[error("cannot write the result: {0}")]
    Write(#[from] io::Error),
    /// It was compared elsewhere, and this is what was reported.
    #[error("{0}")]
    Elsewhere(String),
}

/// Compares two ranks in a style; rows go to the sink in order.
pub fn compare_ranks(
    style: &dyn Style,
    target: &Rank,
    golden: &Rank,
    sink: &mut (dyn Sink + Send),
    progress: &dyn Progress,
) -> Result<RankOutcome, CompareError> {
    compare_ranks_knowing(style, target, golden, Known::default(), sink, progress)
}

/// The same, with what is known besides the two ranks.
pub fn compare_ranks_knowing(
    style: &dyn Style,
    target: &Rank,
    golden: &Rank,
    known: Known<'_>,
    sink: &mut (dyn Sink + Send),
    progress: &dyn Progress,
) -> Result<RankOutcome, CompareError> {
    let plan = style.plan_knowing(target, golden, known, progress)?;
    sink.columns(&plan.columns())?;
    let units = plan.units();
    progress.start(units as u64);
    let stop = progress.stop();
    let judge = |unit| {
        let judged = match stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Judged::default(),
            Some(stop) => stoppable(stop, || plan.judge(unit)),
            None => plan.judge(unit),
        };
        progress.advance(judged.bytes);
        judged
    };
    let mut record = Record {
        has_hindsight: plan.has_hindsight(),
        ranks: (target, golden),
        sink,
        outcome: RankOutcome::default(),
        advised: None,
        lone_before: None,
        origins: TakenOrigins::default(),
    };
    let conclusions = if plan.has_hindsight() {
        let mut waiting = Waiting::default();
        let judge_and_pack = |unit| {
            let mut judged = judge(unit);
            let rows = PackedUnit::of(&std::mem::take(&mut judged.rows));
            (judged, rows)
        };
        in_batches(units, stop, judge_and_pack, |(judged, rows)| waiting.take(judged, &rows))?;
        let conclusions = plan.conclude();
        waiting.settle(&conclusions, &mut record)?;
        conclusions
    } else {
        in_batches(units, stop, judge, |judged| record.take(judged))?;
        plan.conclude()
    };
    let Record { mut outcome, advised, origins, .. } = record;
    let mut found = outcome.divergences.iter().map(|one| &one.finding);
    if found.any(|one| one.cause == FindingCause::Origin) {
        outcome.origins = Some(origins.count(target));
    }
    if outcome.divergence_count == 0 {
        outcome.unexplained = conclusions.unexplained;
        outcome.are_final_results_bounded = conclusions.are_final_results_bounded;
        outcome.hidden_error = conclusions.hidden_error;
        outcome.undecided += conclusions.unjudged_final_results;
    }
    let has_calls = |rank: &Rank| rank.calls().iter().any(|call| call.kind != CallKind::Saved);
    outcome.only_tensors = !has_calls(target) && !has_calls(golden);
    outcome.forward_only = forward_only(target, golden);
    outcome.levels = [target.level.clone(), golden.level.clone()];
    outcome.partnerless.extend(conclusions.partnerless);
    outcome.notes = conclusions.notes;
    if let Some(side) = outcome.forward_only {
        outcome.notes.push(Note::NoBackwardPass { side });
    }
    outcome.notes.extend(ledgers::notes(target, golden));
    let ended = [target.notes(), golden.notes()].concat();
    let is_cut = |rank: &Rank| rank.ledger().is_some_and(|ledger| ledger.is_cut());
    // Two runs ended by a limit may end at the same place; one of them alone lacks a part of the other.
    let is_limited = |rank: &Rank| rank.ledger().is_some_and(|ledger| ledger.limited);
    let is_one_limited = is_limited(target) != is_limited(golden);
    outcome.is_cut = !ended.is_empty() || is_cut(target) || is_cut(golden) || is_one_limited;
    outcome.notes.extend(ended.into_iter().map(Note::Text));
    conclusions.problems.into_iter().for_each(|problem| outcome.problems.note(problem));
    outcome.problems.extend(target.problems());
    outcome.problems.extend(golden.problems());
    explain_damage(&mut outcome.partnerless, target, golden);
    outcome.advice = style.advice(advised.as_ref().map(|(line, name)| (*line, name.as_str())));
    Ok(outcome)
}

/// The side without a backward pass, if the other has one.
fn forward_only(target: &Rank, golden: &Rank) -> Option<Side> {
    let has_backward = |rank: &Rank| {
        rank.calls().iter().any(|call| matches!(call.kind, CallKind::Backward | CallKind::ParametersGrad))
    };
    match [target, golden].map(has_backward) {
        [false, true] => Some(Side::Target),
        [true, false] => Some(Side::Golden),
        _ => None,
    }
}

/// Judges all units on all cores, and passes them on in order: while one batch is judged, the one before is processed.
fn in_batches<T: Send>(
    units: usize,
    stop: Option<&Arc<AtomicBool>>,
    judge: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(T) -> io::Result<()> + Send,
) -> io::Result<()> {
    let mut judged = Vec::new();
    let size = batch_size();
    for start in (0..units).step_by(size) {
        let batch = start..units.min(start + size);
        let before = std::mem::take(&mut judged);
        let (now, taken) = rayon::join(
            || batch.into_par_iter().map(&judge).collect::<Vec<T>>(),
            || before.into_iter().try_for_each(&mut take),
        );
        taken?;
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        judged = now;
    }
    judged.into_iter().try_for_each(take)
}

/// Units that are kept until all are known.
#[derive(Default)]
struct Waiting {
    rows: RowSpool,
    units: Vec<WaitingUnit>,
    /// Entries without a counterpart, of units that have any.
    partnerless: HashMap<usize, Vec<Partnerless>>,
    /// The words of [`Judged::how`], each once.
    ways: Vec<&'static str>,
    /// Sums over all units.
    undecided: u64,
    bytes: u64,
    problems: Problems,
}

/// What is kept of a unit, apart from its rows: there are millions.
struct WaitingUnit {
    target: u32,
    golden: u32,
    /// The number of the word.
    how: u32,
}

/// A unit with its number, its entries without a counterpart, and its rows.
type SpooledUnit = (usize, WaitingUnit, Vec<Partnerless>, PackedUnit);

/// No call, or no word.
const NONE: u32 = u32::MAX;

impl Waiting {
    fn take(&mut self, mut unit: Judged, rows: &PackedUnit) -> io::Result<()> {
        self.rows.push(rows)?;
        std::mem::take(&mut unit.problems).into_iter().for_each(|problem| self.problems.note(problem));
        self.undecided += unit.undecided;
        self.bytes = self.bytes.saturating_add(unit.bytes);
        if !unit.partnerless.is_empty() {
            self.partnerless.insert(self.units.len(), unit.partnerless);
        }
        let how = unit.how.map_or(NONE, |how| self.number_of(how));
        let call = |call: Option<usize>| call.map_or(NONE, |call| call as u32);
        let (target, golden) = (call(unit.target), call(unit.golden));
        self.units.push(WaitingUnit { target, golden, how });
        Ok(())
    }

    fn number_of(&mut self, how: &'static str) -> u32 {
        let known = self.ways.iter().position(|way| *way == how);
        known.unwrap_or_else(|| {
            self.ways.push(how);
            self.ways.len() - 1
        }) as u32
    }

    fn settle(self, conclusions: &Conclusions<'_>, record: &mut Record<'_>) -> io::Result<()> {
        record.outcome.problems.extend(self.problems);
        record.outcome.undecided += self.undecided;
        record.outcome.bytes = record.outcome.bytes.saturating_add(self.bytes);
        let mut rows = self.rows.read_back()?;
        let (ways, mut partnerless, size) = (self.ways, self.partnerless, batch_size());
        let call = |call: u32| (call != NONE).then_some(call as usize);
        let settle = |(number, waiting, partnerless, packed): SpooledUnit| {
            let mut unit = Judged {
                rows: packed.rows()?,
                target: call(waiting.target),
                golden: call(waiting.golden),
                how: ways.get(waiting.how as usize).copied(),
                partnerless,
                ..Judged::default()
            };
            (conclusions.settle)(number, &mut unit);
            Ok(unit)
        };
        let mut units = self.units.into_iter().enumerate();
        let mut settled = Vec::new();
        // While one batch is settled, the rows of the one before are written.
        loop {
            let before = std::mem::take(&mut settled);
            let next = |(number, unit)| {
                Ok((number, unit, partnerless.remove(&number).unwrap_or_default(), rows.next_unit()?))
            };
            let batch = units.by_ref().take(size).map(next);
            let batch: Vec<SpooledUnit> = batch.collect::<io::Result<_>>()?;
            if batch.is_empty() && before.is_empty() {
                return Ok(());
            }
            let (now, taken) = rayon::join(
                || batch.into_par_iter().map(settle).collect::<io::Result<Vec<Judged>>>(),
                || before.into_iter().try_for_each(|unit| record.take(unit)),
            );
            taken?;
            settled = now?;
        }
    }
}

/// The results so far, and the sink for rows.
struct Record<'a> {
    /// Whether the style judges calls: then failing rows are no divergences.
    has_hindsight: bool,
    ranks: (&'a Rank, &'a Rank),
    sink: &'a mut (dyn Sink + Send),
    outcome: RankOutcome,
    /// Line and name of the row for the advice.
    advised: Option<(u64, String)>,
    /// The call just before, if it is unpaired.
    lone_before: Option<LoneCall>,
    /// The parameters and buffers so far.
    origins: TakenOrigins,
}

impl Record<'_> {
    /// Processes the next unit.
    fn take(&mut self, mut unit: Judged) -> io::Result<()> {
        let outcome = &mut self.outcome;
        outcome.bytes = outcome.bytes.saturating_add(unit.bytes);
        outcome.undecided += unit.undecided;
        if let Some(how) = unit.how {
            Paired { how, calls: 1, rows: unit.rows.len() as u64 }.add_to(&mut outcome.paired);
        }
        outcome.partnerless.append(&mut unit.partnerless);
        if let Some(call) = unit.target {
            self.origins.extend(call, std::mem::take(&mut unit.origins));
        }
        for problem in std::mem::take(&mut unit.problems) {
            outcome.problems.note(problem);
        }
        if let Some(class) = unit.class {
            outcome.classes.get_or_insert_default().count(class);
        }
        let before = outcome.counts.rows;
        let mut first_failing: Option<(u64, String)> = None;
        let mut failing = 0;
        for row in std::mem::take(&mut unit.rows) {
            outcome.counts.count(row.verdict);
            if row.verdict == Verdict::Fail {
                failing += 1;
                first_failing.get_or_insert_with(|| {
                    let name = row.cells.first().map(ToString::to_string).unwrap_or_default();
                    (outcome.counts.rows + 1, name)
                });
            }
            self.sink.row(row)?;
        }
        let (target, golden) = self.ranks;
        let side = if unit.target.is_some() { Side::Target } else { Side::Golden };
        let is_lone = unit.target.is_some() != unit.golden.is_some();
        let name = if is_lone { call_name(&unit, target, golden) } else { None };
        let here = name.map(|name| LoneCall { name, side });
        let other_level = if side == Side::Target { &golden.level } else { &target.level };
        // A call that the other level does not record says nothing about the other program.
        let is_left_out = here.as_ref().is_some_and(|lone| levels::leaves_out(other_level, &lone.name));
        let lone_before = if is_left_out { None } else { std::mem::replace(&mut self.lone_before, here) };
        if let Some(finding) = &unit.finding {
            self.advised.get_or_insert_with(|| (before + 2 + finding.row as u64, finding.entry.clone()));
            outcome.divergence_count += 1;
            if outcome.divergences.len() < MAX_DIVERGENCES {
                let line = before + 2 + finding.row as u64;
                let mut divergence = divergence_at(&unit, line, "", target, golden);
                // Where two programs part, many calls are of one side: none of them says more than the others.
                let is_region = finding.cause.region().is_some();
                divergence.lone_before = lone_before.filter(|_| !is_region);
                if outcome.divergences.is_empty() {
                    divergence.collectives_before = collectives_before(&unit, target, golden);
                }
                outcome.divergences.push(divergence);
            }
        }
        if let Some(refuted) = unit.refuted.take() {
            let line = before + 2 + refuted.row as u64;
            let unit = Judged {
                finding: Some(refuted),
                target: unit.target,
                golden: unit.golden,
                ..Judged::default()
            };
            outcome.refuted.push(divergence_at(&unit, line, "", target, golden));
        }
        let Some((line, row_name)) = first_failing else { return Ok(()) };
        if !self.has_hindsight {
            self.advised.get_or_insert_with(|| (line, row_name.clone()));
            outcome.divergence_count += 1;
            if outcome.divergences.is_empty() {
                outcome.divergences.push(divergence_at(&unit, line, &row_name, target, golden));
            }
        }
        outcome.failing_calls += 1;
        if outcome.failing.len() < MAX_FAILING_CALLS {
            let name = call_name(&unit, target, golden).unwrap_or(row_name);
            outcome.failing.push(FailingCall { name, rows: failing });
        }
        Ok(())
    }
}

/// How many collectives a rank had made before a call.
fn collectives_before(unit: &Judged, target: &Rank, golden: &Rank) -> u64 {
    let count = |rank: &Rank, call: usize| {
        let before = rank.calls().iter().take(call);
        before.filter(|one| rank.base(one.base).starts_with(COLLECTIVES)).count() as u64
    };
    let of_target = unit.target.map(|call| count(target, call));
    of_target.or_else(|| unit.golden.map(|call| count(golden, call))).unwrap_or(0)
}

/// Calls missing from a damaged dump may have been lost: adds that to the reasons.
fn explain_damage(partnerless: &mut [Partnerless], target: &Rank, golden: &Rank) {
    let damaged = |side: Side| match side {
        Side::Target => !target.problems().is_empty(),
        Side::Golden => !golden.problems().is_empty(),
    };
    let damaged = [damaged(Side::Target), damaged(Side::Golden)];
    for lone in partnerless {
        let other = match lone.side {
            Side::Target => Side::Golden,
            Side::Golden => Side::Target,
        };
        if damaged[other as usize] {
            lone.reason +=
                &format!("; part of the {} could not be read, so it may have been lost", other.word());
        }
    }
}

fn call_name(unit: &Judged, target: &Rank, golden: &Rank) -> Option<String> {
    let named = unit.target.map(|call| target.name(call));
    named.or_else(|| unit.golden.map(|call| golden.name(call)))
}

/// The golden's call in the place of one that only the target makes, where two programs part.
fn partner_in_region(unit: &Judged) -> Option<String> {
    unit.finding.as_ref()?.cause.region()?.partner.clone()
}

pub(crate) fn divergence_at(unit: &Judged, line: u64, row: &str, target: &Rank, golden: &Rank) -> Divergence {
    let stack = unit.target.and_then(|call| target.stack(call));
    let stack = stack.or_else(|| unit.golden.and_then(|call| golden.stack(call))).unwrap_or_default();
    let golden_stack = unit.golden.and_then(|call| golden.stack(call)).unwrap_or_default();
    let [code, golden_code] = [&stack, &golden_stack].map(|stack| CodeLines::of(stack));
    let module = unit.target.and_then(|call| target.parent(call));
    let entry = unit.finding.as_ref().map_or(row, |finding| finding.entry.as_str());
    Divergence {
        call: call_name(unit, target, golden).unwrap_or_else(|| row.to_owned()),
        golden_call: partner_in_region(unit).or_else(|| unit.golden.map(|call| golden.name(call))),
        module: module.or_else(|| unit.golden.and_then(|call| golden.parent(call))),
        code: code.own,
        inner_code: code.inner,
        golden_code: golden_code.own,
        golden_inner_code: golden_code.inner,
        shown: DivergenceEntry::of(entry, (target, unit.target), (golden, unit.golden)),
        stack,
        lone_before: None,
        collectives_before: 0,
        line,
        finding: unit.finding.clone().unwrap_or_else(|| Finding {
            row: 0,
            kind: FindingKind::FailedRule,
            cause: FindingCause::Rule,
            entry: row.to_owned(),
            seen: None,
            looks_like: None,
            confidence: 0.0,
            measure: None,
            downstream: 0,
            in_backward: false,
            proof: None,
        }),
    }
}
