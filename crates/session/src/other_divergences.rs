//! The divergences after the first, briefly: those of the same kind and cause are grouped and counted.

use ulpscope_compare::{Divergence, FindingCause, FindingKind, RankOutcome, RankResult, ShowsIn};
use ulpscope_dump::{CallKind, parse_key};

use crate::statement::{Likewise, Reason, Statement};
use crate::{Compared, cause, rank_label};

/// Groups that are listed.
const SHOWN: usize = 5;

/// The key by which divergences are grouped.
type Alike<'a> = (&'a str, CallKind, FindingKind, &'a FindingCause);

fn alike(one: &Divergence) -> Alike<'_> {
    let (base, _, kind) = parse_key(&one.call);
    // Parameter gradients belong to one module each; so do differing weights.
    let is_origin = one.finding.cause.traits().shows_in == ShowsIn::Origin;
    let is_one_thing = kind == CallKind::ParametersGrad || is_origin;
    (if is_one_thing { "" } else { base }, kind, one.finding.kind, &one.finding.cause)
}

/// How many more have the same kind and cause as the first.
pub(super) fn likewise(outcome: &RankOutcome, first: &Divergence) -> Option<Likewise> {
    let like_first = outcome.divergences.iter().skip(1).filter(|one| alike(one) == alike(first));
    more(first, like_first.count() as u64)
}

fn more(first: &Divergence, count: u64) -> Option<Likewise> {
    (count > 0).then(|| match first.finding.cause.traits().shows_in {
        ShowsIn::Origin => Likewise::Origins(count),
        ShowsIn::Results | ShowsIn::Gradients | ShowsIn::RandomNumbers => {
            Likewise::Calls { call: first.call.clone(), count }
        }
    })
}

/// The others of the same rank, then the first of each other step and rank.
pub(super) fn statements<S>(
    compared: &Compared<S>,
    rank: &RankResult<S>,
    outcome: &RankOutcome,
) -> Vec<Statement> {
    let mut groups: Vec<(&Divergence, u64)> = Vec::new();
    for one in &outcome.divergences {
        match groups.iter_mut().find(|(first, _)| alike(first) == alike(one)) {
            Some((_, count)) => *count += 1,
            None => groups.push((one, 1)),
        }
    }
    let listed = groups.iter().skip(1).take(SHOWN);
    let mut said: Vec<Statement> = listed
        .map(|(one, count)| Statement::OtherDivergence {
            call: one.call.clone(),
            kind: one.finding.kind,
            reason: reason(one),
            likewise: more(one, count - 1),
        })
        .collect();
    let kept = outcome.divergences.len() as u64;
    let unlisted = groups.iter().skip(1 + SHOWN).map(|(_, count)| count).sum::<u64>();
    let more = unlisted + outcome.divergence_count.saturating_sub(kept);
    if more > 0 {
        said.push(Statement::MoreDivergences(more));
    }
    said.extend(other_ranks(compared, rank));
    said
}

/// The calls that were blamed until replay refuted it.
pub(super) fn refuted(outcome: &RankOutcome) -> Vec<Statement> {
    let refuted = outcome.refuted.iter().take(SHOWN);
    let named = refuted.filter_map(|one| {
        let proof = one.finding.proof.clone()?;
        Some(Statement::Proof { call: Some(one.call.clone()), proof })
    });
    named.collect()
}

pub(super) fn other_ranks<S>(compared: &Compared<S>, rank: &RankResult<S>) -> Vec<Statement> {
    let mut groups: Vec<(&Divergence, Vec<String>)> = Vec::new();
    for other in compared.ranks.iter().filter(|other| !std::ptr::eq(*other, rank)) {
        let Some(first) = other.result.as_ref().ok().and_then(|(outcome, _)| outcome.first_divergence())
        else {
            continue;
        };
        let label = rank_label(other, true).trim().to_owned();
        let same = |known: &&Divergence| known.call == first.call && alike(known) == alike(first);
        match groups.iter_mut().find(|(known, _)| same(known)) {
            Some((_, labels)) => labels.push(label),
            None => groups.push((first, vec![label])),
        }
    }
    let mut said: Vec<Statement> = groups
        .iter()
        .take(SHOWN)
        .map(|(first, labels)| Statement::OtherRanks {
            ranks: labels[..labels.len().min(SHOWN)].to_vec(),
            more: labels.len().saturating_sub(SHOWN) as u64,
            call: first.call.clone(),
            kind: first.finding.kind,
        })
        .collect();
    let more: usize = groups.iter().skip(SHOWN).map(|(_, labels)| labels.len()).sum();
    if more > 0 {
        said.push(Statement::MoreRanks(more as u64));
    }
    let steps_follow = compared.ranks.iter().any(|other| other.step > rank.step);
    if !groups.is_empty() && steps_follow {
        said.push(Statement::LaterStepsFollow);
    }
    said
}

pub(super) fn reason(one: &Divergence) -> Reason {
    if let FindingCause::Arguments(arguments) = &one.finding.cause {
        return Reason::CalledWith(arguments.clone());
    }
    match (one.finding.cause.traits().only_side, &one.finding.seen) {
        (Some(side), _) => Reason::OnlyIn { side, instead: cause::instead(one).map(str::to_owned) },
        (None, Some(seen)) => Reason::Seen(seen.clone()),
        (None, None) => Reason::Said(Box::new(cause::statement(one))),
    }
}
