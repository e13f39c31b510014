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

use ulpscope_dump::{Content, Entry, Error, Rank, Role};
use ulpscope_report::Emphasis;

use crate::pairing::{CallPair, EntryPair, EntryUnit, How, PairOptions, Pairing, Unit, pair, pair_entries};
use crate::style::{Finding, FindingKind, Judged, Partnerless, Plan, Side, Style, Verdict};
pub use columns::COLUMNS;
use columns::Line;
use measure::{Basis, Measured, State, measure};

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

    /// What was rounded to bfloat16 once is no better for being float32 afterwards.
    fn settle(&self, judged: &mut Judged, coarsest: &mut f64) {
        *coarsest = coarsest.max(judged.coarsest);
        for finding in judged.findings.extract_if(.., |finding| finding.needed <= *coarsest) {
            columns::forgive(&mut judged.rows[finding.row]);
        }
    }

    fn paired(&self) -> Vec<(String, u64)> {
        let counts = &self.pairing.counts;
        let ways = [
            (How::Exact, counts.exact),
            (How::Shape, counts.shape),
            (How::Fuzzy, counts.fuzzy),
            (How::Aligned, counts.aligned),
            (How::Mapped, counts.mapped),
        ];
        ways.into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(how, count)| (how.to_string(), count))
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        self.pairing.notes.clone()
    }
}

impl NativePlan<'_> {
    fn judge_pair(&self, pair: &CallPair) -> Judged {
        let mut judged = Judged { target: Some(pair.target), golden: Some(pair.golden), ..Judged::default() };
        let name = self.target.name(pair.target);
        let how = pair.how.to_string();
        let entries = (self.target.entries(pair.target), self.golden.entries(pair.golden));
        let (target, golden) = match entries {
            (Ok(target), Ok(golden)) => (target, golden),
            (target, golden) => {
                for error in [target.err(), golden.err()].into_iter().flatten() {
                    judged.problems.push(error.to_string());
                }
                let line = Line { call: &name, how: &how, ..Line::default() };
                judged.rows.push(line.row(
                    "not compared",
                    "the call could not be read",
                    Verdict::NotCompared,
                ));
                return judged;
            }
        };
        let (module, code) = self.place(pair);
        let mut first = true;
        for unit in pair_entries(&target, &golden, &self.options.mapping) {
            let mut line = Line { call: &name, how: &how, ..Line::default() };
            if first {
                line.module = module.as_deref();
                line.code = code.as_deref();
                first = false;
            }
            match unit {
                EntryUnit::Pair(EntryPair { target: one, golden: other, .. }) => {
                    let measured = measure((self.target, one), (self.golden, other));
                    line.target = Some(one);
                    line.golden = Some(other);
                    line.measured = Some(&measured);
                    let (word, verdict) = verdict_of(&measured.state);
                    let why = why(&measured);
                    judged.coarsest = judged.coarsest.max(measured.limit);
                    judged.undecided += u64::from(measured.is_undecided(one));
                    if verdict == Verdict::Fail {
                        judged.findings.push(finding(judged.rows.len(), one, &measured, why.clone()));
                    }
                    judged.rows.push(line.row(word, &why, verdict));
                    judged.bytes += measured.bytes;
                    judged.problems.extend(measured.problems);
                }
                EntryUnit::TargetOnly { entry, reason } => {
                    line.target = Some(entry);
                    judge_lone_entry(&line, Side::Target, entry, reason.to_string(), &mut judged);
                }
                EntryUnit::GoldenOnly { entry, reason } => {
                    line.golden = Some(entry);
                    judge_lone_entry(&line, Side::Golden, entry, reason.to_string(), &mut judged);
                }
            }
        }
        judged
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

fn verdict_of(state: &State) -> (&'static str, Verdict) {
    match state {
        State::Equal => ("equal", Verdict::Pass),
        State::Close(_) => ("close", Verdict::Pass),
        State::Far(_) | State::Different(_) => ("differs", Verdict::Fail),
        State::NonFinite(_) => ("not finite", Verdict::Fail),
        State::BothNan(_) => ("both NaN", Verdict::Warn),
        State::Unknown(_) => ("not compared", Verdict::NotCompared),
    }
}

/// The reason of a verdict, for a person.
fn why(measured: &Measured) -> String {
    let number = ulpscope_report::format_number;
    match &measured.state {
        State::Equal | State::Close(_) => String::new(),
        State::Far(times) => match &measured.comparison {
            Some(comparison) => {
                let distances = &comparison.distances;
                format!(
                    "{} × the limit of its dtype: relative distance {}, largest error {}",
                    number(*times),
                    number(distances.rel_l2),
                    number(distances.max_abs)
                )
            }
            None => format!("{} × the limit of its dtype, by statistics", number(*times)),
        },
        State::Different(how) | State::Unknown(how) => how.clone(),
        State::NonFinite(0) => "NaN or infinite statistics on one side only".to_owned(),
        State::NonFinite(count) => format!("{count} elements are NaN or infinite on one side only"),
        State::BothNan(0) => "NaN among the statistics of both sides: nothing can be said".to_owned(),
        State::BothNan(count) => format!("{count} elements are NaN on both sides; all others agree"),
    }
}

/// What a failing entry says of its call.
fn finding(row: usize, entry: &Entry, measured: &Measured, why: String) -> Finding {
    let made_here = entry.role == Role::Output;
    let kind = match (&measured.state, made_here) {
        (State::Different(_), _) if measured.basis != Basis::Digest && measured.comparison.is_none() => {
            FindingKind::DifferentProgram
        }
        (State::NonFinite(_), true) => FindingKind::NonFiniteBornHere,
        (_, true) => FindingKind::DivergedHere,
        (_, false) => FindingKind::OriginDiffers,
    };
    // What the dump does not hold cannot make one sure; neither can an error that barely passes the limit.
    let seen = match measured.basis {
        Basis::Elements | Basis::Value => 0.95,
        Basis::Statistics => 0.7,
        Basis::Digest | Basis::Nothing => 0.5,
    };
    let margin = match measured.state {
        State::Far(times) if times.is_finite() => times / (1.0 + times),
        _ => 1.0,
    };
    let needed = match measured.state {
        State::Far(times) => times * measured.limit,
        _ => f64::INFINITY,
    };
    Finding { row, needed, kind, entry: entry.name.clone(), why, confidence: seen * margin }
}

/// Colour for a verdict.
fn emphasis(verdict: Verdict) -> Emphasis {
    match verdict {
        Verdict::Fail => Emphasis::Bad,
        Verdict::Warn => Emphasis::Warn,
        Verdict::Pass | Verdict::NotCompared => Emphasis::Plain,
    }
}
