//! What a tired person wants to know: do they agree, where do they part, where are the files.

use std::collections::HashMap;
use std::path::PathBuf;

use ulpscope_compare::{Answer, ClassCounts, Side};
use ulpscope_report::{Align, Cell, Emphasis, Record, Table};

use crate::explanation::explain;
use crate::{Compared, StyleName, rank_label};

/// Ranks, calls and the like shown of a long list.
const SHOWN: usize = 10;

/// A piece of the summary, for a terminal to lay out.
#[derive(Clone, Debug)]
pub enum Block {
    /// A table.
    Table(Table),
    /// A line of text, to be broken where the terminal ends.
    Prose(String),
    /// A line that is left whole.
    Line(String),
}

/// The summary of a comparison and of the files it wrote.
pub fn summary<S>(compared: &Compared<S>, files: &[PathBuf]) -> Vec<Block> {
    let mut lines = vec![("verdict", Cell::text(verdict(compared)))];
    lines.push(("rows", Cell::text(rows(compared))));
    lines.push(("calls", Cell::text(calls(compared))));
    lines.extend(compared.classes().map(|classes| ("classes", Cell::text(by_class(&classes)))));
    let bytes: u64 = compared.outcomes().fold(0, |sum: u64, outcome| sum.saturating_add(outcome.bytes));
    lines.push(("time", Cell::text(time(compared.seconds, bytes))));
    if compared.problem_count() > 0 {
        let text = match compared.problem_count() {
            1 => "1 file or tensor could not be read (see the errors)".to_owned(),
            count => format!("{count} files or tensors could not be read (see the errors)"),
        };
        lines.push(("problems", Cell::text(text)));
    }
    let mut table = Table::of_record("", &Record::new(lines));
    if let Some(verdict) = table.rows.first_mut() {
        verdict.emphasis = match compared.agreement.answer() {
            Answer::Agree => Emphasis::Good,
            Answer::Differ => Emphasis::Bad,
            Answer::Inconclusive => Emphasis::Warn,
        };
    }
    let mut blocks = vec![Block::Table(table)];
    // What agrees in full needs no words; what could not be read is reported on standard error.
    let is_native = compared.request.style == StyleName::Native;
    if compared.first_divergence().is_some() || is_native && compared.agreement.exit_code() == 1 {
        blocks.extend(explain(compared).lines(false).into_iter().map(Block::Prose));
    }
    if compared.ranks.len() > 1 {
        blocks.push(Block::Table(ranks(compared)));
        blocks.extend(calls_by_rank(compared).map(Block::Table));
    }
    blocks.extend(partnerless(compared).map(Block::Table));
    blocks.extend(files.iter().map(|file| Block::Line(format!("wrote {}", file.display()))));
    blocks
}

/// The word, then its reason.
fn verdict<S>(compared: &Compared<S>) -> String {
    format!("{}: {}", compared.agreement.answer().shouted(), compared.agreement)
}

fn rows<S>(compared: &Compared<S>) -> String {
    let counts = compared.counts();
    format!(
        "{}: {} agree, {} differ, {} to look at, {} not compared",
        counts.rows, counts.passed, counts.failed, counts.warned, counts.not_compared
    )
}

fn calls<S>(compared: &Compared<S>) -> String {
    let paired: Vec<String> = compared
        .paired()
        .iter()
        .map(|paired| format!("{} {} ({} rows)", paired.calls, paired.how, paired.rows))
        .collect();
    let paired = if paired.is_empty() {
        let native = compared.request.style == StyleName::Native;
        if native { "none paired" } else { "paired by the rule of the style" }.to_owned()
    } else {
        format!("paired {}", paired.join(", "))
    };
    let (target, golden) = (compared.only_in(Side::Target), compared.only_in(Side::Golden));
    format!("{paired}; only in target {target}, only in golden {golden}")
}

/// The classes that occur.
fn by_class(classes: &ClassCounts) -> String {
    let occurring = classes.iter().filter(|(_, calls)| *calls > 0);
    let words: Vec<String> = occurring.map(|(class, calls)| format!("{calls} {}", class.words())).collect();
    words.join(", ")
}

fn time(seconds: f64, bytes: u64) -> String {
    if bytes == 0 {
        return format!("{seconds:.2} s");
    }
    let gigabytes = bytes as f64 / 1e9;
    format!("{seconds:.2} s, {gigabytes:.3} GB of tensors, {:.2} GB/s", gigabytes / seconds.max(1e-9))
}

/// The ranks, worst first.
fn ranks<S>(compared: &Compared<S>) -> Table {
    let columns = [
        ("rank", Align::Left),
        ("rows", Align::Right),
        ("differ", Align::Right),
        ("calls differ", Align::Right),
        ("no counterpart", Align::Right),
        ("first divergence", Align::Left),
    ];
    let mut order: Vec<_> = compared.ranks.iter().collect();
    let failing = |rank: &&ulpscope_compare::RankResult<S>| match &rank.result {
        Err(_) => u64::MAX,
        Ok((outcome, _)) => outcome.counts.failed,
    };
    order.sort_by_key(|rank| std::cmp::Reverse(failing(rank)));
    let more = order.len().saturating_sub(SHOWN);
    let title =
        if more == 0 { "ranks, worst first".to_owned() } else { format!("ranks, worst first ({more} more)") };
    let mut table = Table::new(title, &columns);
    for rank in order.into_iter().take(SHOWN) {
        let label = Cell::text(rank_label(rank, true));
        match &rank.result {
            Err(error) => {
                let missing = std::iter::repeat_n(Cell::Missing, 4);
                let cells = [label].into_iter().chain(missing).chain([Cell::text(error.to_string())]);
                table.push(cells.collect(), Emphasis::Bad);
            }
            Ok((outcome, _)) => {
                let first = outcome.first_divergence().map(|first| first.call.as_str());
                let emphasis = if outcome.counts.failed > 0 { Emphasis::Bad } else { Emphasis::Plain };
                let cells = vec![
                    label,
                    Cell::count(outcome.counts.rows),
                    Cell::count(outcome.counts.failed),
                    Cell::count(outcome.failing_calls),
                    Cell::count(outcome.partnerless.len() as u64),
                    Cell::maybe(first, Cell::text),
                ];
                table.push(cells, emphasis);
            }
        }
    }
    table
}

/// The calls that differ on most ranks.
fn calls_by_rank<S>(compared: &Compared<S>) -> Option<Table> {
    let mut ranks_of: HashMap<&str, (usize, Vec<String>)> = HashMap::new();
    let mut order = 0;
    for rank in &compared.ranks {
        let Ok((outcome, _)) = &rank.result else { continue };
        for call in &outcome.failing {
            let (_, ranks) = ranks_of.entry(&call.name).or_insert_with(|| {
                order += 1;
                (order, Vec::new())
            });
            ranks.push(rank_label(rank, true));
        }
    }
    if ranks_of.is_empty() {
        return None;
    }
    let mut calls: Vec<(&str, (usize, Vec<String>))> = ranks_of.into_iter().collect();
    // Most ranks first; among equals, the call that was met first.
    calls.sort_by_key(|(_, (order, ranks))| (std::cmp::Reverse(ranks.len()), *order));
    let more = calls.len().saturating_sub(SHOWN);
    let title = if more == 0 { "calls by rank".to_owned() } else { format!("calls by rank ({more} more)") };
    let mut table =
        Table::new(title, &[("call", Align::Left), ("ranks", Align::Right), ("which", Align::Left)]);
    for (call, (_, ranks)) in calls.into_iter().take(SHOWN) {
        let cells = vec![Cell::text(call), Cell::count(ranks.len() as u64), Cell::text(ranks.join(", "))];
        table.push(cells, Emphasis::Plain);
    }
    Some(table)
}

/// What only one side has.
fn partnerless<S>(compared: &Compared<S>) -> Option<Table> {
    let all = || compared.outcomes().flat_map(|outcome| &outcome.partnerless);
    let more = all().count().saturating_sub(SHOWN);
    let title = if more == 0 {
        "no counterpart".to_owned()
    } else {
        format!("no counterpart ({more} more in result.json)")
    };
    let columns = [("only in", Align::Left), ("call or entry", Align::Left), ("reason", Align::Left)];
    let mut table = Table::new(title, &columns);
    for lone in all().take(SHOWN) {
        let cells = vec![
            Cell::text(lone.side.word()),
            Cell::text(lone.name.as_str()),
            Cell::text(lone.reason.as_str()),
        ];
        table.push(cells, Emphasis::Plain);
    }
    (!table.rows.is_empty()).then_some(table)
}
