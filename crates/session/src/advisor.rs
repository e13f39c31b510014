//! `advisor_{timestamp}.txt`: in our own style the explanation first; then which row to look at, in the older tools' fields.

use ulpscope_compare::{RankOutcome, RankResult};

use crate::explanation::explain_rank;
use crate::{Compared, StyleName};

/// The text for one pair of ranks; nothing where the style gives no advice. An older style's is what its tool writes, and
/// no more.
pub(crate) fn text<S>(compared: &Compared<S>, rank: &RankResult<S>, outcome: &RankOutcome) -> Option<String> {
    let advice = outcome.advice.clone()?;
    if compared.request.style != StyleName::Native {
        return Some(advice);
    }
    // The older tools' categories know calls that fail, and nothing else.
    let fields = own_advice(outcome).unwrap_or(advice);
    let words = compared.request.language.words();
    Some(format!("{}\n{fields}", explain_rank(compared, Some(rank)).text(words)))
}

/// Advice where the first failing row is no argument or result of a call, or where no row fails and yet not all is well.
fn own_advice(outcome: &RankOutcome) -> Option<String> {
    let (line, node, advice) = match outcome.first_divergence() {
        Some(first) if !["forward", "backward"].iter().any(|word| first.finding.entry.contains(word)) => {
            (first.line.to_string(), first.finding.entry.as_str(), "Check where this tensor comes from.")
        }
        Some(_) => return None,
        None if outcome.unexplained.is_some() => (
            "NA".to_owned(),
            "NA",
            "A final result differs, and no call explains it. See the explanation above.",
        ),
        None if !outcome.problems.is_empty() || outcome.undecided > 0 => {
            ("NA".to_owned(), "NA", "No row fails, but not everything could be read or judged.")
        }
        None if !outcome.partnerless.is_empty() => {
            ("NA".to_owned(), "NA", "No row fails, but the two did not make the same calls.")
        }
        None => return None,
    };
    Some(format!("Line: {line}\nSuspect Nodes: {node}\nExpert Advice: {advice}\n"))
}
