//! `advisor_{timestamp}.txt`: which row to look at first, what to do, and why.

use ulpscope_compare::{FirstDivergence, RankOutcome};

use super::style_name::StyleName;

/// The text for one pair of ranks; nothing where the style gives no advice. The older tools' fields come first and as
/// they write them; what they do not say follows, in our own style only.
pub(crate) fn text(style: StyleName, outcome: &RankOutcome) -> Option<String> {
    let mut text = outcome.advice.clone()?;
    if style == StyleName::Native {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        if let Some(first) = &outcome.first_divergence {
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

fn reasons(first: &FirstDivergence) -> String {
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
