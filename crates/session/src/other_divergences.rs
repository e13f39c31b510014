//! The divergences behind the first, shortly: those of one kind and cause are one thing to a reader, and are counted.

use ulpscope_compare::{Divergence, FindingCause, FindingKind, RankOutcome, RankResult};
use ulpscope_dump::{CallKind, parse_key};

use crate::cause::{kind_words, spoken};
use crate::{Compared, rank_label};

/// Groups that are listed.
const SHOWN: usize = 5;

/// Characters of the reason that a group is listed with.
const REASON: usize = 100;

/// What divergences have in common that are told as one.
type Alike<'a> = (&'a str, CallKind, FindingKind, &'a FindingCause);

fn alike(one: &Divergence) -> Alike<'_> {
    let (base, _, kind) = parse_key(&one.call);
    // Gradients of parameters are of a module each; so are weights that differ.
    let is_one_thing = kind == CallKind::ParametersGrad || one.finding.cause == FindingCause::Origin;
    (if is_one_thing { "" } else { base }, kind, one.finding.kind, &one.finding.cause)
}

/// How many more of the same kind and cause as the first there are.
pub(super) fn likewise(outcome: &RankOutcome, first: &Divergence) -> Option<String> {
    let like_first = outcome.divergences.iter().skip(1).filter(|one| alike(one) == alike(first));
    more(first, like_first.count() as u64).map(|more| format!("{more}."))
}

fn more(first: &Divergence, count: u64) -> Option<String> {
    (count > 0).then(|| match first.finding.cause {
        FindingCause::Origin if count == 1 => {
            "What 1 more call takes from outside differs likewise".to_owned()
        }
        FindingCause::Origin => format!("What {count} more calls take from outside differs likewise"),
        _ => format!("Likewise {count} more {}", kind_words(&first.call, count)),
    })
}

/// The others of the same rank, then where each other step and rank begins.
pub(super) fn lines<S>(compared: &Compared<S>, rank: &RankResult<S>, outcome: &RankOutcome) -> Vec<String> {
    let mut groups: Vec<(&Divergence, u64)> = Vec::new();
    for one in &outcome.divergences {
        match groups.iter_mut().find(|(first, _)| alike(first) == alike(one)) {
            Some((_, count)) => *count += 1,
            None => groups.push((one, 1)),
        }
    }
    let listed = groups.iter().skip(1).take(SHOWN);
    let mut lines: Vec<String> = listed
        .map(|(one, count)| {
            let likewise = more(one, count - 1).map(|more| format!(". {more}")).unwrap_or_default();
            format!("{}: {}{likewise}", brief(one), reason(one))
        })
        .collect();
    let kept = outcome.divergences.len() as u64;
    let unlisted = groups.iter().skip(1 + SHOWN).map(|(_, count)| count).sum::<u64>();
    let more = unlisted + outcome.divergence_count.saturating_sub(kept);
    if more > 0 {
        lines.push(format!("and {more} more in result.json"));
    }
    lines.extend(other_ranks(compared, rank));
    lines
}

fn other_ranks<S>(compared: &Compared<S>, rank: &RankResult<S>) -> Vec<String> {
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
    let mut lines: Vec<String> = groups
        .iter()
        .take(SHOWN)
        .map(|(first, labels)| {
            let begin = if labels.len() == 1 { "begins" } else { "begin" };
            let more = labels.len().saturating_sub(SHOWN);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            let labels = &labels[..labels.len().min(SHOWN)];
            format!("{}{more} {begin} with {}", labels.join(", "), brief(first))
        })
        .collect();
    let more: usize = groups.iter().skip(SHOWN).map(|(_, labels)| labels.len()).sum();
    if more > 0 {
        let steps = if more == 1 { "step or rank" } else { "steps or ranks" };
        lines.push(format!("and {more} more {steps}"));
    }
    let steps_follow = compared.ranks.iter().any(|other| other.step > rank.step);
    if !groups.is_empty() && steps_follow {
        lines.push("Later steps start from weights that the first error may have changed.".to_owned());
    }
    lines
}

fn brief(one: &Divergence) -> String {
    format!("{} ({})", one.call, one.finding.kind.words())
}

/// Why, as much of it as fits into a list.
fn reason(one: &Divergence) -> String {
    let (finding, before) = (&one.finding, &one.lone_before);
    let why = match (&finding.cause, before) {
        (FindingCause::Arguments(arguments), _) => format!("called with {arguments}"),
        (FindingCause::Lone(side), Some(before)) if *side != before.side => {
            format!("only in the {}; the {} calls {}", side.word(), before.side.word(), spoken(&before.name))
        }
        (FindingCause::Lone(side) | FindingCause::Left(side, _), _) => format!("only in the {}", side.word()),
        _ if finding.seen.is_empty() => finding.why.clone(),
        _ => finding.seen.clone(),
    };
    match why.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why,
    }
}
