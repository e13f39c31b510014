//! Which rank is to blame, where one stands out: explains what the comparison of merged ranks found.

use std::collections::HashMap;
use std::io;

use serde::{Deserialize, Serialize};
use ulpscope_dump::{CallKind, Rank};
use ulpscope_report::format_short;

use super::parameters::{ParameterFault, ParameterFaultKind};
use super::survey::{Ranks, SurveyedCall};
use super::transport::Transports;
use crate::finding::{Finding, FindingCause, FindingKind};
use crate::note::Note;
use crate::run::{RankOutcome, Sink, divergence_at};
use crate::style::{Judged, Row};
use crate::verdict::Divergence;

/// What is wrong with some ranks of a run that is compared with a single process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardFault {
    /// A parameter, or a shard of it.
    Parameter(ParameterFault),
    /// A call uses the parts of a sum that was not reduced.
    Unreduced {
        /// The result that is a part of a sum on each rank.
        partial: String,
        /// The argument of the call.
        entry: String,
        /// The ranks.
        ranks: Vec<u64>,
    },
    /// A tensor that all ranks should have in common.
    Replica {
        /// The entry.
        entry: String,
        /// The rank that is furthest from the golden.
        rank: u64,
    },
}

impl ShardFault {
    /// In words, without a full stop.
    pub fn words(&self) -> String {
        match self {
            ShardFault::Parameter(fault) => parameter_words(fault),
            ShardFault::Unreduced { partial, entry, ranks } => format!(
                "{} use {entry}, their part of the sum {partial}, although no collective has summed it: an all-reduce is missing",
                named(ranks)
            ),
            ShardFault::Replica { entry, rank } => {
                format!(
                    "{entry} should be the same on all ranks, and that of rank {rank} is not the golden's"
                )
            }
        }
    }

    fn entry(&self) -> &str {
        match self {
            ShardFault::Parameter(fault) => &fault.entry,
            ShardFault::Unreduced { entry, .. } | ShardFault::Replica { entry, .. } => entry,
        }
    }
}

fn parameter_words(fault: &ParameterFault) -> String {
    let ParameterFault { parameter, ranks, kind, .. } = fault;
    match kind {
        ParameterFaultKind::OtherSlice { found, expected } => format!(
            "{}'s shard of {parameter} equals {} of the golden's; expected {}",
            named(ranks),
            found.words(),
            expected.words()
        ),
        ParameterFaultKind::SameAs(others) => format!(
            "{}'s shard of {parameter} has the same statistics as that of {}, and together they do not make the golden's",
            named(ranks),
            named(others)
        ),
        ParameterFaultKind::Differs { expected, error } => {
            let error = format_short(error * 100.0);
            match (expected, &ranks[..]) {
                (Some(expected), _) => format!(
                    "{}'s shard of {parameter} differs from {} of the golden's by {error} %",
                    named(ranks),
                    expected.words()
                ),
                (None, [rank]) => format!("rank {rank}'s {parameter} differs from the golden's by {error} %"),
                (None, ranks) => {
                    format!("the {parameter} of {} differs from the golden's by {error} %", named(ranks))
                }
            }
        }
    }
}

/// `rank 1`, `ranks 0 and 1`, `ranks 0, 1, 2 and 5 others`.
fn named(ranks: &[u64]) -> String {
    const SHOWN: usize = 4;
    let numbers: Vec<String> = ranks.iter().map(u64::to_string).collect();
    match &numbers[..] {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [before @ .., last] if before.len() < SHOWN => format!("ranks {} and {last}", before.join(", ")),
        many => format!("ranks {} and {} others", many[..SHOWN].join(", "), many.len() - SHOWN),
    }
}

/// A fault, and the call that shows it.
pub(super) struct Found {
    call: String,
    kind: FindingKind,
    fault: ShardFault,
    /// Whether it is one on its own, and not only where something differs.
    is_certain: bool,
}

/// Everything that stands out on some ranks: in order of execution, each parameter once.
pub(super) fn find(ranks: &Ranks, calls: &[SurveyedCall], transports: &Transports) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut by_parameter: HashMap<String, usize> = HashMap::new();
    for (number, call) in calls.iter().enumerate() {
        for fault in all_together(&call.faults, ranks) {
            let is_slice = |fault: &ParameterFault| match &fault.kind {
                ParameterFaultKind::Differs { expected, .. } => expected.is_some() || fault.ranks.len() == 1,
                ParameterFaultKind::OtherSlice { .. } | ParameterFaultKind::SameAs(_) => true,
            };
            match by_parameter.get(&fault.parameter).copied() {
                // A gathered parameter is wrong on all ranks; its shard says on which it was wrong before.
                Some(known) => {
                    if let ShardFault::Parameter(before) = &mut found[known].fault
                        && !is_slice(before)
                        && is_slice(&fault)
                    {
                        *before = ParameterFault { entry: before.entry.clone(), ..fault };
                    }
                }
                None => {
                    by_parameter.insert(fault.parameter.clone(), found.len());
                    found.push(Found {
                        call: call.name.clone(),
                        kind: FindingKind::OriginDiffers,
                        fault: ShardFault::Parameter(fault),
                        is_certain: true,
                    });
                }
            }
        }
        if !transports.is_left_out[number] && call.kind == CallKind::Forward {
            found.extend(unreduced(ranks, call, transports));
        }
    }
    found
}

/// Where every rank has the same fault, one of all.
fn all_together(faults: &[ParameterFault], ranks: &Ranks) -> Vec<ParameterFault> {
    let is_whole =
        |fault: &ParameterFault| matches!(fault.kind, ParameterFaultKind::Differs { expected: None, .. });
    match faults {
        [first, ..] if faults.len() == ranks.grid.len() && faults.iter().all(is_whole) => {
            vec![ParameterFault { ranks: ranks.grid.numbers.clone(), ..first.clone() }]
        }
        faults => faults.to_vec(),
    }
}

/// A part of a sum that a call uses which is no collective, and whose result differs from rank to rank.
fn unreduced(ranks: &Ranks, call: &SurveyedCall, transports: &Transports) -> Option<Found> {
    let is_plain_sum = |rule: &super::rule::Rule| rule.is_sum() && rule.scale == 1.0;
    let differs = call.entries.iter().filter(|entry| entry.is_output).any(|output| {
        let is_unequal = output.decision.as_ref().is_some_and(|decision| decision.is_equal.contains(&false));
        let is_open = output.rule.as_ref().is_none_or(|rule| rule.only.is_some() || is_plain_sum(rule));
        is_unequal && is_open
    });
    let partial = call
        .entries
        .iter()
        .find(|entry| !entry.is_output && entry.rule.as_ref().is_some_and(is_plain_sum))?;
    let source = transports.resolved(partial.source.clone()).unwrap_or_else(|| partial.name.clone());
    (differs && !call.is_collective() && !call.name.starts_with("Module.")).then(|| Found {
        call: call.name.clone(),
        kind: FindingKind::DivergedHere,
        fault: ShardFault::Unreduced {
            partial: source,
            entry: partial.name.clone(),
            ranks: ranks.grid.numbers.clone(),
        },
        is_certain: false,
    })
}

/// Adds what stands out on some ranks to the outcome of the comparison. A parameter that is not the golden's is a divergence
/// whatever else is; a sum that was not reduced explains one that is there.
pub(super) fn explain(
    outcome: &mut RankOutcome,
    found: Vec<Found>,
    lines: &HashMap<String, u64>,
    (target, golden): (&Rank, &Rank),
    (ranks, calls): (&Ranks, &[SurveyedCall]),
) {
    let numbers: HashMap<String, usize> =
        (0..target.calls().len()).map(|call| (target.name(call), call)).collect();
    let place = |name: &str| numbers.get(name).copied().unwrap_or(usize::MAX);
    let is_clean =
        outcome.divergences.is_empty() && outcome.unexplained.is_none() && outcome.counts.failed == 0;
    let certain: Vec<Found> = found.into_iter().filter(|one| one.is_certain || !is_clean).collect();
    // What differs from the call on that made a part of a sum follows from the sum that was not made.
    let beginning = |one: &Found| match &one.fault {
        ShardFault::Unreduced { partial, .. } => {
            let made = partial.split_once(".output.").map_or(usize::MAX, |(call, _)| place(call));
            made.min(place(&one.call))
        }
        _ => place(&one.call),
    };
    let first_certain = certain.iter().map(beginning).min();
    let mut divergences: Vec<Divergence> = Vec::new();
    // One sum that is not reduced is the cause of what follows from it.
    let mut is_unreduced = false;
    for one in certain {
        let is_sum = matches!(one.fault, ShardFault::Unreduced { .. });
        if is_sum && std::mem::replace(&mut is_unreduced, true) {
            continue;
        }
        let known = outcome.divergences.iter().find(|known| known.call == one.call);
        let finding = Finding {
            row: 0,
            kind: one.kind,
            entry: one.fault.entry().to_owned(),
            confidence: known.map_or(1.0, |known| known.finding.confidence.max(0.9)),
            seen: known.and_then(|known| known.finding.seen.clone()),
            looks_like: None,
            measure: known.and_then(|known| known.finding.measure),
            downstream: known.map_or(0, |known| known.finding.downstream),
            in_backward: false,
            proof: None,
            cause: FindingCause::Sharded(Box::new(one.fault)),
        };
        let line = lines.get(&finding.entry).copied().or(known.map(|known| known.line)).unwrap_or(1);
        let call = numbers.get(&one.call).copied();
        let unit = Judged { target: call, finding: Some(finding), ..Judged::default() };
        divergences.push(Divergence { call: one.call, ..divergence_at(&unit, line, "", target, golden) });
    }
    if let Some(first) = first_certain {
        // What differs before is not explained by it.
        let before = outcome.divergences.iter().filter(|known| {
            place(&known.call) < first && !matches!(known.finding.cause, FindingCause::Region(_))
        });
        divergences.extend(before.cloned().collect::<Vec<_>>());
        divergences.sort_by_key(|one| place(&one.call));
        outcome.divergence_count = divergences.len() as u64;
        outcome.divergences = divergences;
        outcome.unexplained = None;
        return;
    }
    name_replicas(outcome, ranks, calls);
}

/// A gradient that differs is no finding where the sums that it is made of could not be compared: they would show how large
/// rounding is.
pub(super) fn withdraw_gradients(outcome: &mut RankOutcome) {
    let is_gradient = |one: &Divergence| {
        let source = one.shown.source.as_deref().unwrap_or_default();
        one.finding.cause == FindingCause::Origin && source.starts_with("gradient:")
    };
    let (withdrawn, kept): (Vec<Divergence>, Vec<Divergence>) =
        std::mem::take(&mut outcome.divergences).into_iter().partition(is_gradient);
    outcome.divergence_count = outcome.divergence_count.saturating_sub(withdrawn.len() as u64);
    outcome.divergences = kept;
    outcome.undecided += withdrawn.len() as u64;
    outcome.notes.extend(withdrawn.first().map(|first| {
        Note::Text(format!(
            "not judged: {} of {} differs, and the sums that it is made of could not be compared (record tensors to judge it)",
            first.shown.source.as_deref().unwrap_or_default().replacen(':', " of ", 1),
            first.call
        ))
    }));
}

/// Names the rank, where ranks should have the same and do not.
fn name_replicas(outcome: &mut RankOutcome, ranks: &Ranks, calls: &[SurveyedCall]) {
    for divergence in &mut outcome.divergences {
        let call = calls.iter().find(|call| call.name == divergence.call);
        let entry =
            call.and_then(|call| call.entries.iter().find(|entry| entry.name == divergence.finding.entry));
        let place = entry.and_then(|entry| entry.rule.as_ref()?.only);
        if let Some(place) = place {
            let fault = ShardFault::Replica {
                entry: divergence.finding.entry.clone(),
                rank: ranks.grid.numbers[place],
            };
            divergence.finding.cause = FindingCause::Sharded(Box::new(fault));
        }
    }
}

/// Passes rows on, and remembers the lines of the entries that show faults.
pub(super) struct LineFinder<'a, S> {
    sink: &'a mut S,
    wanted: HashMap<String, Option<u64>>,
    line: u64,
    /// The column of the names.
    column: usize,
}

impl<'a, S: Sink> LineFinder<'a, S> {
    pub(super) fn of(sink: &'a mut S, found: &[Found]) -> LineFinder<'a, S> {
        let wanted = found.iter().map(|one| (one.fault.entry().to_owned(), None)).collect();
        // The header is the first line.
        LineFinder { sink, wanted, line: 1, column: 0 }
    }

    pub(super) fn found(self) -> HashMap<String, u64> {
        self.wanted.into_iter().filter_map(|(name, line)| Some((name, line?))).collect()
    }
}

impl<S: Sink> Sink for LineFinder<'_, S> {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.column = columns.iter().position(|column| column == "target_name").unwrap_or(0);
        self.sink.columns(columns)
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        self.line += 1;
        if let Some(name) = row.cells.get(self.column)
            && let Some(line) = self.wanted.get_mut(&name.to_string())
        {
            line.get_or_insert(self.line);
        }
        self.sink.row(row)
    }

    fn sheet(&self) -> Option<String> {
        self.sink.sheet()
    }
}
