//! What broke: the cause, without the size of the error.

use ulpscope_compare::{CauseRemark, Divergence, FindingCause, LoneCall, RankOutcome, ShowsIn, Side};

use crate::statement::{Cause, Producer, Statement, pair};
use crate::{origin, other_divergences};

/// What happened, in a few sentences.
pub(super) fn statements(step: Option<u64>, outcome: &RankOutcome, first: &Divergence) -> Vec<Statement> {
    let mut said = vec![statement(first)];
    let mut is_counted = false;
    let traits = first.finding.cause.traits();
    said.extend(traits.remark.map(|remark| match remark {
        CauseRemark::ChangedUnrecorded => Statement::ChangedUnrecorded,
        CauseRemark::GradientLeftOver => Statement::GradientLeftOver,
        CauseRemark::ResultsDiffer => Statement::ResultsDiffer,
        CauseRemark::LeftDiffering(what) => Statement::LeftDiffering { what: what.to_owned() },
    }));
    if traits.shows_in == ShowsIn::Origin {
        let counted = counted(outcome, first);
        is_counted = counted.is_some();
        said.extend(counted);
        // Two tensor files have no calls; nothing to add.
        if !first.call.is_empty() {
            let history = origin::history(step, outcome, first);
            said.push(Statement::OriginHistory { history, call: first.call.clone() });
        }
    }
    if let Some(LoneCall { name, side }) = first.lone_before.as_ref().filter(|_| instead(first).is_none()) {
        said.push(Statement::JustBefore { call: name.clone(), side: *side });
    }
    if !is_counted {
        said.extend(other_divergences::likewise(outcome, first).map(Statement::Likewise));
    }
    said
}

/// The cause.
pub(super) fn statement(first: &Divergence) -> Statement {
    Statement::Cause(Box::new(Cause {
        call: first.call.clone(),
        cause: first.finding.cause.clone(),
        entry: origin::entry_within_call(first).to_owned(),
        origin: origin::of(first),
        producers: first.shown.sources.each_ref().map(|source| source.as_deref().map(producer)),
        dtypes: first.shown.dtypes.clone(),
        instead: instead(first).map(str::to_owned),
    }))
}

/// The other side's call at the place of a call that only one side makes.
pub(super) fn instead(first: &Divergence) -> Option<&str> {
    let before = first.lone_before.as_ref()?;
    let is_instead = |side: &Side| *side != before.side;
    match &first.finding.cause {
        FindingCause::Lone(side) if is_instead(side) => Some(&before.name),
        _ => None,
    }
}

/// The call and entry that a source names.
fn producer(source: &str) -> Producer {
    match [".output.", ".input."].iter().filter_map(|word| source.rfind(word)).max() {
        Some(end) => Producer::Call { name: source[..end].to_owned(), entry: source[end + 1..].to_owned() },
        None => match source.split_once(':') {
            Some((kind, name)) => Producer::Named { kind: kind.to_owned(), name: name.to_owned() },
            None => Producer::Outside,
        },
    }
}

/// How many parameters and buffers differ, if one of them is the cause.
fn counted(outcome: &RankOutcome, first: &Divergence) -> Option<Statement> {
    let counts = outcome.origins?;
    if !matches!(origin::named(first), Some(("parameter" | "buffer", _))) {
        return None;
    }
    let differ = counts.parameters.differ + counts.buffers.differ;
    (differ > 0).then(|| Statement::OriginsCounted {
        parameters: pair(counts.parameters),
        buffers: pair(counts.buffers),
    })
}
