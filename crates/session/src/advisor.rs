//! `advisor_{timestamp}.txt`: in the native style first the explanation, then the row to look at, in the older fields.

use ulpscope_compare::{RankOutcome, RankResult};

use crate::explanation::explain_rank;
use crate::{Compared, StyleName};

/// The text for one pair of ranks; `None` if the style gives no advice. For an older style it is exactly what the older
/// tool writes.
pub(crate) fn text<S>(compared: &Compared<S>, rank: &RankResult<S>, outcome: &RankOutcome) -> Option<String> {
    let fields = fields(compared.request.style, outcome)?;
    if compared.request.style != StyleName::Native {
        return Some(fields);
    }
    let words = compared.request.language.words();
    Some(format!("{}\n{fields}", explain_rank(compared, Some(rank)).text(words)))
}

/// The row to look at, in the older fields; `None` if the style gives no advice.
pub(crate) fn fields(style: StyleName, outcome: &RankOutcome) -> Option<String> {
    let advice = outcome.advice.clone()?;
    // The older tools' categories cover failing calls only.
    let own = (style == StyleName::Native).then(|| own_advice(outcome)).flatten();
    Some(own.unwrap_or(advice))
}

/// Advice if the first failing row is no argument or result of a call, or if no row fails but the runs do not agree.
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
