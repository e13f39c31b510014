//! An unfinished row: the two entries, their measurements, and the verdict.

use std::fmt::Write;

use ulpscope_report::{Cell, Emphasis};

use super::columns::ColumnType;
use super::item::{Item, Stat};
use super::mode::Mode;
use super::real::Measured;
use super::statistics::{RelativeError, difference};
use crate::style::{Row, Verdict};
use crate::styles::python_text;

/// The tool's text for a missing value.
pub(crate) const ABSENT: &str = "N/A";

/// The tool's text for a missing file name.
pub(crate) const NO_FILE: &str = "-1";

/// An unfinished row.
pub(crate) struct Draft<'a> {
    pub(crate) target: Item<'a>,
    /// The counterpart, if there is one that may be compared.
    pub(crate) golden: Option<Item<'a>>,
    /// The statistics of target and golden as their columns hold them.
    pub(crate) stats: [[Stat<'a>; 4]; 2],
    measures: Measures,
    verdict: Verdict,
    messages: Vec<&'static str>,
}

/// What was measured.
enum Measures {
    Real(Measured),
    Statistics { cells: Box<[Cell; 8]>, norm: RelativeError },
    Digests,
}

impl<'a> Draft<'a> {
    /// A row of two entries, not measured yet.
    pub(crate) fn new(target: Item<'a>, golden: Option<Item<'a>>, types: &[[ColumnType; 4]; 2]) -> Draft<'a> {
        let hold = |stats: [Stat<'a>; 4], types: [ColumnType; 4]| {
            let mut types = types.into_iter();
            stats.map(|stat| types.next().unwrap_or(ColumnType::Mixed).hold(stat))
        };
        let of_target = hold(target.stats.clone(), types[0]);
        let of_golden = match &golden {
            Some(golden) => hold(golden.stats.clone(), types[1]),
            None => [const { Stat::Text(std::borrow::Cow::Borrowed(ABSENT)) }; 4],
        };
        Draft {
            target,
            golden,
            stats: [of_target, of_golden],
            measures: Measures::Digests,
            verdict: Verdict::Pass,
            messages: Vec::new(),
        }
    }

    /// Computes the differences of the statistics.
    pub(crate) fn compare_statistics(&mut self, types: &[[ColumnType; 4]; 2]) {
        let [target, golden] = &self.stats;
        let mut norm = RelativeError::Zero;
        let mut cells = Box::new([const { Cell::Missing }; 8]);
        for column in 0..4 {
            let integers = types.iter().all(|types| types[column] == ColumnType::Integers);
            let difference = difference(&target[column], &golden[column], integers);
            cells[column] = difference.absolute;
            cells[column + 4] = difference.relative;
            norm = difference.error;
        }
        self.measures = Measures::Statistics { cells, norm };
    }

    /// Adds the measurements of the elements.
    pub(crate) fn take(&mut self, measured: Measured) {
        self.measures = Measures::Real(measured);
    }

    /// Whether it counts as a result: the tool searches the whole name for the word.
    pub(crate) fn is_output(&self) -> bool {
        self.target.name.contains(".output.")
    }

    /// The relative error of the norm.
    pub(crate) fn norm_error(&self) -> Option<RelativeError> {
        match &self.measures {
            Measures::Statistics { norm, .. } => Some(*norm),
            _ => None,
        }
    }

    /// The share of elements within 1/1000, where it was measured.
    pub(crate) fn one_thousandth(&self) -> Option<f64> {
        match &self.measures {
            Measures::Real(measured) => measured.one_thousandth,
            _ => None,
        }
    }

    /// The cosine, where it was measured.
    pub(crate) fn cosine(&self) -> Option<f64> {
        match &self.measures {
            Measures::Real(measured) => measured.cosine,
            _ => None,
        }
    }

    /// The digests of both sides.
    pub(crate) fn digests(&self) -> [&str; 2] {
        let golden = self.golden.as_ref().and_then(|golden| golden.digest.as_deref());
        [self.target.digest.as_deref().unwrap_or(ABSENT), golden.unwrap_or(ABSENT)]
    }

    /// Adds the verdict of a rule. The worst counts.
    pub(crate) fn mark(&mut self, verdict: Verdict, message: &'static str) {
        self.verdict = self.verdict.max(verdict);
        self.messages.push(message);
    }

    /// The finished row. `stack` is the text of its last column, if there is that column.
    pub(crate) fn finish(self, mode: Mode, stack: Option<String>) -> Row {
        let golden = self.golden.as_ref();
        let text = |text: Option<&str>| Cell::text(text.unwrap_or(ABSENT));
        let mut cells = Vec::with_capacity(28);
        cells.push(Cell::text(self.target.name.as_ref()));
        cells.push(text(golden.map(|golden| golden.name.as_ref())));
        cells.push(text(self.target.dtype.as_deref()));
        cells.push(text(golden.and_then(|golden| golden.dtype.as_deref())));
        cells.push(text(self.target.shape.as_deref()));
        cells.push(text(golden.and_then(|golden| golden.shape.as_deref())));
        cells.push(text(self.target.requires_grad));
        cells.push(text(golden.and_then(|golden| golden.requires_grad)));
        let digests = (mode == Mode::Digests).then(|| self.digests().map(Cell::text));
        let grads_agree = self.target.requires_grad == golden.and_then(|golden| golden.requires_grad);
        let verdict = match self.verdict {
            Verdict::Pass if golden.is_none() => Verdict::NotCompared,
            verdict => verdict,
        };
        let files = (mode == Mode::Real).then(|| {
            let target = self.target.file().unwrap_or(NO_FILE);
            python_text::texts(&[target, golden.map_or(ABSENT, |golden| golden.file().unwrap_or(NO_FILE))])
        });
        cells.extend(digests.into_iter().flatten());
        match self.measures {
            Measures::Real(measured) => cells.extend(measured.cells),
            Measures::Statistics { cells: differences, .. } => cells.extend(*differences),
            Measures::Digests => {}
        }
        if mode != Mode::Digests {
            cells.extend(self.stats.into_iter().flatten().map(stat_cell));
        }
        cells.push(Cell::text(python_text::truth(grads_agree)));
        cells.push(Cell::text(match self.verdict {
            Verdict::Fail => "error",
            Verdict::Warn => "warning",
            Verdict::Pass | Verdict::NotCompared => "pass",
        }));
        cells.push(Cell::Text(message_list(&self.messages)));
        cells.extend(stack.map(Cell::Text));
        cells.extend(files.map(Cell::Text));
        Row::new(cells, Emphasis::Plain, verdict)
    }
}

/// A statistic as a cell. Infinities get the blank that keeps spreadsheets from taking them for names.
fn stat_cell(stat: Stat<'_>) -> Cell {
    match stat {
        Stat::Float(number) => float_cell(number),
        Stat::Int(number) => Cell::Int(number),
        Stat::Text(text) => Cell::Text(text.into_owned()),
        other => Cell::text(other.text()),
    }
}

/// A float as a cell, infinities as the tool's csv has them.
pub(crate) fn float_cell(number: f64) -> Cell {
    match number {
        f64::INFINITY => Cell::text(" inf"),
        f64::NEG_INFINITY => Cell::text(" -inf"),
        number => Cell::Exact(number),
    }
}

/// The messages as a list in JSON.
fn message_list(messages: &[&str]) -> String {
    let mut list = String::from("[");
    for (index, message) in messages.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        let _ = write!(list, "{comma}\"{message}\"");
    }
    list.push(']');
    list
}
