//! The summary of a comparison: whether the runs agree, where they differ first, and where the files are.

use std::collections::HashMap;
use std::path::PathBuf;

use ulpscope_compare::{Answer, ClassCounts, RankResult, Side};
use ulpscope_report::{Align, Cell, Emphasis, Record, Table, format_count};

use crate::deviating::deviating;
use crate::explanation::explain;
use crate::words::{Label, Parts, SummaryLine, Words};
use crate::{Compared, StyleName, rank_label};

/// Items shown of a long list.
const SHOWN: usize = 10;

/// A piece of the summary, for a terminal to lay out.
#[derive(Clone, Debug)]
pub enum Block {
    /// A table.
    Table(Table),
    /// A line of text, wrapped to the terminal.
    Prose(String),
    /// A line that is not wrapped.
    Line(String),
}

/// The summary of a comparison and of the files it wrote.
pub fn summary<S>(compared: &Compared<S>, files: &[PathBuf]) -> Vec<Block> {
    let words = compared.request.language.words();
    let mut blocks = vec![Block::Table(overview(compared, words))];
    // Full agreement needs no text; read errors are reported on standard error.
    let is_native = compared.request.style == StyleName::Native;
    if compared.first_divergence().is_some() || is_native && compared.agreement.exit_code() == 1 {
        blocks.extend(explain(compared).lines(words, false).into_iter().map(Block::Prose));
    }
    if compared.ranks.len() > 1 {
        blocks.push(Block::Table(ranks(compared, words)));
        blocks.extend(calls_by_rank(compared, words).map(Block::Table));
        let unlike = deviating(compared);
        if !unlike.is_empty() {
            let (shown, more) = unlike.split_at(unlike.len().min(SHOWN));
            blocks.push(Block::Prose(words.summary(&SummaryLine::Deviating { shown, more: more.len() })));
        }
    }
    blocks.extend(unpaired(compared, words).map(Block::Table));
    let wrote = |file: &PathBuf| words.summary(&SummaryLine::Wrote(file.display().to_string()));
    blocks.extend(files.iter().map(|file| Block::Line(wrote(file))));
    blocks
}

fn overview<S>(compared: &Compared<S>, words: &dyn Words) -> Table {
    let bytes: u64 = compared.outcomes().fold(0, |sum: u64, outcome| sum.saturating_add(outcome.bytes));
    let paired = compared.paired();
    let calls = SummaryLine::Calls {
        paired: &paired,
        by_style: compared.request.style != StyleName::Native,
        target: compared.only_in(Side::Target),
        golden: compared.only_in(Side::Golden),
    };
    let mut lines = vec![
        (Label::Verdict, words.verdict(&compared.agreement)),
        (Label::Rows, words.summary(&SummaryLine::Rows(compared.counts()))),
        (Label::Calls, words.summary(&calls)),
    ];
    lines.extend(compared.classes().map(|classes| (Label::Classes, by_class(&classes, words))));
    lines.push((Label::Time, words.summary(&SummaryLine::Time { seconds: compared.seconds, bytes })));
    if compared.problem_count() > 0 {
        lines.push((Label::Problems, words.summary(&SummaryLine::Problems(compared.problem_count()))));
    }
    let cells = lines.into_iter().map(|(label, text)| (words.label(label), Cell::text(text)));
    let mut table = Table::of_record("", &Record::new(cells.collect()));
    if let Some(verdict) = table.rows.first_mut() {
        verdict.emphasis = match compared.agreement.answer() {
            Answer::Agree => Emphasis::Good,
            Answer::Differ => Emphasis::Bad,
            Answer::Inconclusive => Emphasis::Warn,
        };
    }
    table
}

/// The classes that occur.
fn by_class(classes: &ClassCounts, words: &dyn Words) -> String {
    let occurring = classes.iter().filter(|(_, calls)| *calls > 0);
    let counted = occurring.map(|(class, calls)| format!("{} {}", format_count(calls), words.class(class)));
    counted.collect::<Vec<String>>().join(", ")
}

/// Of what there are several.
fn parts<S>(compared: &Compared<S>) -> Parts {
    let first = compared.ranks.first();
    let other = |differs: fn(&RankResult<S>, &RankResult<S>) -> bool| {
        compared.ranks.iter().any(|rank| first.is_some_and(|first| differs(first, rank)))
    };
    let steps = other(|one, rank| (one.step, one.is_after_last) != (rank.step, rank.is_after_last));
    let ranks = other(|one, rank| one.target != rank.target);
    match (steps, ranks) {
        (true, true) => Parts::StepsAndRanks,
        (true, false) => Parts::Steps,
        (false, _) => Parts::Ranks,
    }
}

/// The steps and ranks, worst first.
fn ranks<S>(compared: &Compared<S>, words: &dyn Words) -> Table {
    let columns = [
        (Label::Part(parts(compared)), Align::Left),
        (Label::Rows, Align::Right),
        (Label::Differ, Align::Right),
        (Label::CallsDiffer, Align::Right),
        (Label::NoCounterpart, Align::Right),
        (Label::FirstDivergence, Align::Left),
    ];
    let columns = columns.map(|(label, align)| (words.label(label), align));
    let mut order: Vec<_> = compared.ranks.iter().collect();
    let failing = |rank: &&RankResult<S>| match &rank.result {
        Err(_) => u64::MAX,
        Ok((outcome, _)) => outcome.counts.failed,
    };
    order.sort_by_key(|rank| std::cmp::Reverse(failing(rank)));
    let more = order.len().saturating_sub(SHOWN);
    let mut table = Table::new(words.summary(&SummaryLine::PartsTitle(parts(compared), more)), &columns);
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
fn calls_by_rank<S>(compared: &Compared<S>, words: &dyn Words) -> Option<Table> {
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
    // Most ranks first; among equals, the call that came first.
    calls.sort_by_key(|(_, (order, ranks))| (std::cmp::Reverse(ranks.len()), *order));
    let more = calls.len().saturating_sub(SHOWN);
    let columns = [
        (Label::Call, Align::Left),
        (Label::Parts(parts(compared)), Align::Right),
        (Label::Which, Align::Left),
    ];
    let columns = columns.map(|(label, align)| (words.label(label), align));
    let mut table =
        Table::new(words.summary(&SummaryLine::CallsByPartTitle(parts(compared), more)), &columns);
    for (call, (_, ranks)) in calls.into_iter().take(SHOWN) {
        let cells = vec![Cell::text(call), Cell::count(ranks.len() as u64), Cell::text(ranks.join(", "))];
        table.push(cells, Emphasis::Plain);
    }
    Some(table)
}

/// What only one side has.
fn unpaired<S>(compared: &Compared<S>, words: &dyn Words) -> Option<Table> {
    let all = || compared.outcomes().flat_map(|outcome| &outcome.partnerless);
    let more = all().count().saturating_sub(SHOWN);
    let columns =
        [(Label::OnlyIn, Align::Left), (Label::CallOrEntry, Align::Left), (Label::Reason, Align::Left)];
    let columns = columns.map(|(label, align)| (words.label(label), align));
    let mut table = Table::new(words.summary(&SummaryLine::UnpairedTitle(more)), &columns);
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
