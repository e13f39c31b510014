//! `advisor_{timestamp}.txt`: which row to look at first, what to do, and why.

use ulpscope_compare::{Divergence, RankOutcome};

use super::style_name::StyleName;

/// The text for one pair of ranks; nothing where the style gives no advice. The older tools' fields come first and as
/// they write them; what they do not say follows, in our own style only.
pub(crate) fn text(style: StyleName, outcome: &RankOutcome) -> Option<String> {
    let mut text = outcome.advice.clone()?;
    if style == StyleName::Native {
        if let Some(own) = own_advice(outcome) {
            // The older tools' categories do not fit: they know calls that fail, and nothing else.
            text = own;
        }
        if let Some(first) = outcome.first_divergence() {
            text += &reasons(first);
        }
        if !outcome.partnerless.is_empty() {
            text += &format!("Without Partner: {} calls or entries\n", outcome.partnerless.len());
        }
        if !outcome.problems.is_empty() {
            text += &format!("Could Not Be Read: {}\n", outcome.problems.count());
        }
    }
    Some(text)
}

/// Advice where the first failing row is no argument or result of a call, or where no row fails and yet not all is well.
fn own_advice(outcome: &RankOutcome) -> Option<String> {
    let (line, node, advice) = match outcome.first_divergence() {
        Some(first) if !["forward", "backward"].iter().any(|word| first.finding.entry.contains(word)) => {
            (first.line.to_string(), first.finding.entry.as_str(), "Check where this tensor comes from.")
        }
        Some(_) => return None,
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

fn reasons(first: &Divergence) -> String {
    let mut text = format!(
        "Finding: {} at {} (confidence {:.2})\nWhy: {}: {}\n",
        first.finding.kind.words(),
        first.call,
        first.finding.confidence,
        first.finding.entry,
        first.finding.why
    );
    for (field, value) in [("Module", &first.module), ("Code", &first.code)] {
        if let Some(value) = value {
            text += &format!("{field}: {value}\n");
        }
    }
    text
}
