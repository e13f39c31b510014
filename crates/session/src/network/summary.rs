//! The comparison of a network in words.

use ulpscope_report::{Align, Cell, Emphasis, Table};

use super::{ComparedNetwork, NetworkOutcome};
use crate::summary::Block;

/// Items shown of a long list.
const SHOWN: usize = 10;

/// The summary of a comparison and of the files that it wrote.
pub fn network_summary(compared: &ComparedNetwork) -> Vec<Block> {
    let mut blocks = Vec::new();
    for outcome in &compared.outcomes {
        blocks.extend(of_outcome(outcome, compared.outcomes.len() > 1));
    }
    blocks.extend(compared.files.iter().map(|file| Block::Line(format!("wrote {}", file.display()))));
    blocks
}

fn of_outcome(outcome: &NetworkOutcome, several: bool) -> Vec<Block> {
    let place = match (outcome.step, several) {
        (Some(step), true) => format!("step {step} {}: ", outcome.device),
        (None, true) => format!("{}: ", outcome.device),
        (_, false) => String::new(),
    };
    let mut blocks = vec![Block::Prose(format!(
        "{place}{} tensors of {} operators were compared: {} agree, {} differ.",
        outcome.agree + outcome.differ,
        outcome.operators,
        outcome.agree,
        outcome.differ,
    ))];
    let not_compared = [
        (outcome.not_dumped, "operators have no dump file"),
        (outcome.unmatched, "tensors have no counterpart"),
        (outcome.not_compared, "tensors could not be read or compared"),
    ];
    let reasons: Vec<String> = not_compared
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !reasons.is_empty() {
        blocks.push(Block::Prose(format!("Not compared: {}.", reasons.join(", "))));
    }
    if !outcome.diverging.is_empty() {
        blocks.push(Block::Table(diverging(outcome)));
    } else if outcome.differ > 0 {
        blocks.push(Block::Prose(
            "No operator differs in its outputs alone: the first inputs differ already.".to_owned(),
        ));
    }
    blocks
}

fn diverging(outcome: &NetworkOutcome) -> Table {
    let title = match outcome.diverging.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => {
            format!("Outputs that differ from matching inputs (first {SHOWN}, {more} more)")
        }
        _ => "Outputs that differ from matching inputs".to_owned(),
    };
    let columns = [
        ("operator", Align::Left),
        ("type", Align::Left),
        ("output", Align::Right),
        ("compared with", Align::Left),
        ("cosine", Align::Right),
        ("relative distance", Align::Right),
    ];
    let mut table = Table::new(title, &columns);
    for one in outcome.diverging.iter().take(SHOWN) {
        let number =
            |value: Option<f64>| Cell::text(value.map_or_else(String::new, |value| format!("{value:.6}")));
        let cells = vec![
            Cell::text(one.op.clone()),
            Cell::text(one.op_type.clone()),
            Cell::text(one.output.to_string()),
            Cell::text(one.origin.clone().unwrap_or_default()),
            number(one.cosine),
            number(one.relative_distance),
        ];
        table.push(cells, Emphasis::Bad);
    }
    table
}
