//! Which rank is to blame, where one stands out: explains what the comparison of merged ranks found.

use std::collections::HashMap;
use std::io;

use ulpscope_dump::{CallKind, Rank};

use super::parameters::{ParameterFault, ParameterFaultKind, StagePlace};
use super::ranks::Ranks;
use super::rule::Rule;
use super::shard_fault::ShardFault;
use super::survey::{SurveyedCall, SurveyedEntry};
use super::transport::Transports;
use crate::finding::{Finding, FindingCause, FindingKind};
use crate::note::Note;
use crate::run::{RankOutcome, Sink, divergence_at};
use crate::style::{Judged, Row};
use crate::verdict::Divergence;

/// A fault, and the call that shows it.
pub(super) struct Found {
    pub(super) call: String,
    pub(super) kind: FindingKind,
    pub(super) fault: ShardFault,
    /// Whether it is one on its own, and not only where something differs.
    pub(super) is_certain: bool,
}

impl Found {
    /// A parameter that is gathered for a call has no name there; its name shows in a later one. The first call that gets it
    /// shows the fault.
    fn move_to_first_use(
        &mut self,
        outcome: &RankOutcome,
        calls: &[SurveyedCall],
        place: impl Fn(&str) -> usize,
    ) {
        let ShardFault::Parameter(fault) = &mut self.fault else { return };
        let first = outcome.divergences.iter().find(|known| {
            let call = calls.iter().find(|call| call.name == known.call);
            let entry =
                call.and_then(|call| call.entries.iter().find(|entry| entry.name == known.finding.entry));
            let source = entry.and_then(|entry| entry.golden_source.as_deref()?.strip_prefix("parameter:"));
            known.finding.cause == FindingCause::Origin && source == Some(&fault.parameter)
        });
        if let Some(first) = first.filter(|first| place(&first.call) < place(&self.call)) {
            self.call.clone_from(&first.call);
            fault.entry.clone_from(&first.finding.entry);
        }
    }
}

/// Everything that stands out on some ranks: in order of execution, each parameter once.
pub(super) fn find(ranks: &Ranks, calls: &[SurveyedCall], transports: &Transports) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut by_parameter: HashMap<String, usize> = HashMap::new();
    for (number, call) in calls.iter().enumerate() {
        for fault in all_together(&call.faults, ranks.numbers(number)) {
            if let ParameterFaultKind::OtherParameter { .. } = &fault.kind
                && let Some(before) = found.iter_mut().find_map(|one| of_other_layers(&mut one.fault, &fault))
            {
                *before += u64::from(!by_parameter.contains_key(&fault.parameter));
                by_parameter.entry(fault.parameter.clone()).or_insert(usize::MAX);
                continue;
            }
            let is_slice = |fault: &ParameterFault| match &fault.kind {
                ParameterFaultKind::Differs { expected, .. } => expected.is_some() || fault.ranks.len() == 1,
                ParameterFaultKind::OtherSlice { .. }
                | ParameterFaultKind::OtherParameter { .. }
                | ParameterFaultKind::SameAs(_) => true,
            };
            match by_parameter.get(&fault.parameter).copied() {
                // A gathered parameter is wrong on all ranks; its shard says on which it was wrong before.
                Some(known) => {
                    if let Some(Found { fault: ShardFault::Parameter(before), .. }) = found.get_mut(known)
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
            found.extend(unreduced(ranks.numbers(number), call, transports));
        }
    }
    found
}

/// Where every rank has the same fault, one of all.
fn all_together(faults: &[ParameterFault], ranks: Vec<u64>) -> Vec<ParameterFault> {
    let is_whole = |fault: &ParameterFault| {
        matches!(
            fault.kind,
            ParameterFaultKind::Differs { expected: None, .. } | ParameterFaultKind::OtherParameter { .. }
        )
    };
    match faults {
        [first, ..] => {
            // A call may show several parameters.
            let is_of_first = |fault: &&ParameterFault| fault.parameter == first.parameter;
            let (own, rest): (Vec<&ParameterFault>, Vec<&ParameterFault>) =
                faults.iter().partition(is_of_first);
            let mut together = match own.len() == ranks.len() && own.iter().all(|fault| is_whole(fault)) {
                true => vec![ParameterFault { ranks: ranks.clone(), ..first.clone() }],
                false => own.into_iter().cloned().collect(),
            };
            let rest: Vec<ParameterFault> = rest.into_iter().cloned().collect();
            together.extend(all_together(&rest, ranks));
            together
        }
        [] => Vec::new(),
    }
}

/// How many parameters a fault that is known counts, if the same ranks have those of other layers in both.
fn of_other_layers<'a>(known: &'a mut ShardFault, fault: &ParameterFault) -> Option<&'a mut u64> {
    match known {
        ShardFault::Parameter(ParameterFault {
            ranks,
            stage,
            kind: ParameterFaultKind::OtherParameter { parameters, .. },
            ..
        }) => {
            let stage_of = |place: &Option<StagePlace>| place.as_ref().map(|place| place.stage);
            (*ranks == fault.ranks && stage_of(stage) == stage_of(&fault.stage)).then_some(parameters)
        }
        _ => None,
    }
}

/// A part of a sum that a call uses which is no collective, and whose result differs from rank to rank.
fn unreduced(ranks: Vec<u64>, call: &SurveyedCall, transports: &Transports) -> Option<Found> {
    let is_plain_sum = |rule: &Rule| rule.is_sum() && rule.scale == 1.0;
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
        fault: ShardFault::Unreduced { partial: source, entry: partial.name.clone(), ranks },
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
    let mut certain: Vec<Found> = found.into_iter().filter(|one| one.is_certain || !is_clean).collect();
    for one in &mut certain {
        one.move_to_first_use(outcome, calls, place);
    }
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
        // What differs before is not explained by it, except where it is about the same gradients.
        let is_explained = |known: &Divergence| {
            let call = calls.iter().find(|call| call.name == known.call);
            let entry =
                call.and_then(|call| call.entries.iter().find(|entry| entry.name == known.finding.entry));
            divergences.iter().any(|one| match &one.finding.cause {
                FindingCause::Sharded(fault) => explains(fault, known, entry),
                _ => false,
            })
        };
        let before = outcome.divergences.iter().filter(|known| {
            place(&known.call) < first
                && !matches!(known.finding.cause, FindingCause::Region(_))
                && !is_explained(known)
        });
        let before: Vec<Divergence> = before.cloned().collect();
        divergences.extend(before);
        divergences.sort_by_key(|one| place(&one.call));
        outcome.divergence_count = divergences.len() as u64;
        outcome.divergences = divergences;
        outcome.unexplained = None;
        return;
    }
    name_replicas(outcome, ranks, calls);
}

/// Whether an earlier difference follows from a fault of gradients: an optimizer's argument, or a sum that is known by the
/// gradient that it ends in.
fn explains(fault: &ShardFault, known: &Divergence, entry: Option<&SurveyedEntry>) -> bool {
    match fault {
        ShardFault::TiedGradients { parameter, .. } => {
            let source = known.shown.source.as_deref().unwrap_or_default();
            source.strip_prefix("gradient:") == Some(parameter)
        }
        ShardFault::Undivided { .. } => {
            entry.is_some_and(|entry| entry.sum.is_none() && entry.rule.as_ref().is_some_and(Rule::is_sum))
        }
        _ => false,
    }
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

/// What optimizer steps leave is no finding where stages update their parameters by one call each, and the golden all of them by
/// one: these calls have different arguments.
pub(super) fn withdraw_updates(outcome: &mut RankOutcome, ranks: &Ranks, calls: &[SurveyedCall]) {
    let is_of_stages = |(number, call): &(usize, &SurveyedCall)| {
        call.kind == CallKind::Forward
            && call.partner.is_some()
            && !ranks.is_of_piece(*number)
            && call.entries.iter().any(|entry| entry.unfit.is_some())
    };
    let found = calls.iter().enumerate().filter(|_| ranks.stages() > 1).find(is_of_stages);
    let Some((_, call)) = found else { return };
    let is_update = |one: &Divergence| matches!(one.finding.cause, FindingCause::Updates(_));
    let (withdrawn, kept): (Vec<Divergence>, Vec<Divergence>) =
        std::mem::take(&mut outcome.divergences).into_iter().partition(is_update);
    outcome.divergence_count = outcome.divergence_count.saturating_sub(withdrawn.len() as u64);
    outcome.divergences = kept;
    outcome.undecided += 1;
    outcome.notes.push(Note::Text(format!(
        "not judged: what optimizer steps leave in parameters, because each stage updates its own by one call ({}) and the golden \
         updates all by one; the gradients were compared (create the optimizers with foreach=False to compare updates)",
        call.name
    )));
}

/// Names the rank, where ranks should have the same and do not.
fn name_replicas(outcome: &mut RankOutcome, ranks: &Ranks, calls: &[SurveyedCall]) {
    for divergence in &mut outcome.divergences {
        let call = calls.iter().enumerate().find(|(_, call)| call.name == divergence.call);
        let entry = call
            .and_then(|(_, call)| call.entries.iter().find(|entry| entry.name == divergence.finding.entry));
        let place = entry.and_then(|entry| entry.rule.as_ref()?.only);
        if let (Some(place), Some((call, _))) = (place, call) {
            let fault = ShardFault::Replica {
                entry: divergence.finding.entry.clone(),
                rank: ranks.grid_of(call).numbers[place],
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
