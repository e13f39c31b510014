//! An unfinished row: the two entries, their measurements, and its colours.

use ulpscope_formats::json::python_float_repr;
use ulpscope_report::{Cell, Emphasis};

use super::real::Measured;
use crate::style::{Row, Verdict};
use crate::styles::msprobe::item::{Item, Stat};
use crate::styles::msprobe::mode::Mode;
use crate::styles::msprobe::real::NAN;
use crate::styles::msprobe::row::{ABSENT, NO_FILE};
use crate::styles::python_text;

/// The message for an unpaired row of target.
pub(crate) const NO_BENCH: &str = "No bench data matched.";

/// A difference of statistics is worth a look when it is more than this share of the larger one.
const LARGE: f64 = 0.5;
const LARGE_EPSILON: f64 = 1e-10;

/// An unfinished row.
pub(crate) struct Draft<'a> {
    pub(crate) target: Item<'a>,
    pub(crate) golden: Option<Item<'a>>,
    /// The statistics of target and golden, as the table has them.
    pub(crate) stats: [[Stat<'a>; 4]; 2],
    /// Cells between the shapes and the statistics.
    measures: Vec<Cell>,
    /// The largest difference, of the elements or of the maxima, where it is a number.
    pub(crate) max_diff: Option<f64>,
    /// Likewise, where elements were compared.
    pub(crate) one_thousandth: Option<f64>,
    pub(crate) cosine: Option<f64>,
    result: &'static str,
    message: String,
    pub(crate) red: Vec<&'static str>,
    pub(crate) yellow: Vec<&'static str>,
}

impl<'a> Draft<'a> {
    /// A row of two entries, without its measures yet. `named` says that the user named the pair: the tool then
    /// leaves NaN as it is.
    pub(crate) fn new(target: Item<'a>, golden: Option<Item<'a>>, named: bool) -> Draft<'a> {
        let shown = |stats: &[Stat<'a>; 4], raw: bool| {
            stats.clone().map(|stat| match stat {
                Stat::Float(number) if number.is_nan() && !raw => Stat::Text(NAN.into()),
                stat => stat,
            })
        };
        let raw = named || golden.is_none();
        let stats = [
            shown(&target.stats, raw),
            match &golden {
                Some(golden) => shown(&golden.stats, raw),
                None => std::array::from_fn(|_| Stat::Text(ABSENT.into())),
            },
        ];
        Draft {
            target,
            golden,
            stats,
            measures: Vec::new(),
            max_diff: None,
            one_thousandth: None,
            cosine: None,
            result: ABSENT,
            message: NO_BENCH.to_owned(),
            red: Vec::new(),
            yellow: Vec::new(),
        }
    }

    /// Computes the differences of the statistics.
    pub(crate) fn compare_statistics(&mut self) {
        self.measures = vec![Cell::text(ABSENT); 8];
        let Some(golden) = &self.golden else { return };
        let mut large = false;
        for (column, (n, b)) in self.target.stats.iter().zip(&golden.stats).enumerate() {
            let (Some(target), Some(golden)) = (n.number(), b.number()) else { continue };
            let difference = target - golden;
            if column == 0 {
                self.max_diff = difference.is_finite().then_some(difference);
            }
            if difference.is_nan() {
                self.measures[column] = Cell::text(NAN);
                self.measures[column + 4] = Cell::text(NAN);
                continue;
            }
            self.measures[column] = match (n, b) {
                (Stat::Int(n), Stat::Int(b)) => n.checked_sub(*b).map_or(Cell::Exact(difference), Cell::Int),
                _ => float_cell(difference),
            };
            if golden != 0.0 {
                let percent = (difference / golden * 100.0).abs();
                self.measures[column + 4] = Cell::text(python_float_repr(percent) + "%");
            }
            large |= difference.abs() / (target.abs().max(golden.abs()) + LARGE_EPSILON) > LARGE;
        }
        (self.result, self.message) = if large {
            ("Warning", "Need double check api accuracy.".to_owned())
        } else {
            ("", String::new())
        };
    }

    /// Compares the digests.
    pub(crate) fn compare_digests(&mut self) {
        let Some(golden) = &self.golden else {
            self.measures = vec![Cell::text(ABSENT); 2];
            return;
        };
        let shown = |item: &Item<'_>| Cell::text(item.digest.as_deref().unwrap_or("None"));
        self.measures = vec![shown(&self.target), shown(golden)];
        self.result = if self.target.digest == golden.digest { "pass" } else { "Different" };
    }

    /// Adds the measurements of the elements.
    pub(crate) fn take(&mut self, measured: Measured) {
        self.measures = measured.cells.into();
        self.max_diff = measured.max_abs;
        self.one_thousandth = measured.one_thousandth;
        self.cosine = measured.cosine;
        self.result = measured.accuracy;
        self.message = measured.message;
    }

    /// The finished row. `stack` is the text of that column, if it exists.
    pub(crate) fn finish(self, mode: Mode, stack: Option<String>) -> Row {
        let golden = self.golden.as_ref();
        let none = |text: Option<&str>| Cell::text(text.unwrap_or("None"));
        let absent = || Cell::text(ABSENT);
        let mut cells = Vec::with_capacity(26);
        cells.push(Cell::text(self.target.name.as_ref()));
        cells.push(golden.map_or_else(absent, |golden| Cell::text(golden.name.as_ref())));
        cells.push(none(self.target.dtype.as_deref()));
        cells.push(golden.map_or_else(absent, |golden| none(golden.dtype.as_deref())));
        cells.push(none(self.target.shape.as_deref()));
        cells.push(golden.map_or_else(absent, |golden| none(golden.shape.as_deref())));
        let file = if golden.is_some() { self.target.file().unwrap_or(NO_FILE) } else { NO_FILE };
        cells.extend(self.measures);
        if mode != Mode::Digests {
            cells.extend(self.stats.iter().flatten().map(stat_cell));
        }
        cells.push(Cell::text(self.result));
        let emphasis = match (self.red.is_empty(), self.yellow.is_empty()) {
            (false, _) => Emphasis::Bad,
            (true, false) => Emphasis::Warn,
            (true, true) => Emphasis::Plain,
        };
        if mode != Mode::Digests {
            let mut message = self.message;
            for line in if self.red.is_empty() { &self.yellow } else { &self.red } {
                if !message.is_empty() {
                    message.push('\n');
                }
                message.push_str(line);
            }
            cells.push(Cell::Text(message));
        }
        cells.extend(stack.map(Cell::Text));
        if mode == Mode::Real {
            cells.push(Cell::text(file));
        }
        let verdict = match self.result {
            "No" | "Different" | "Warning" => Verdict::Fail,
            "Yes" | "pass" | "" => Verdict::Pass,
            _ => Verdict::NotCompared,
        };
        Row::new(cells, emphasis, verdict)
    }
}

/// A statistic as a cell.
fn stat_cell(stat: &Stat<'_>) -> Cell {
    match stat {
        Stat::Float(number) => float_cell(*number),
        Stat::Int(number) => Cell::Int(*number),
        Stat::Bool(flag) => Cell::text(python_text::truth(*flag)),
        Stat::Text(text) if matches!(text.as_ref(), "inf" | "-inf" | "nan") => {
            Cell::Text(format!("{text}\t"))
        }
        other => Cell::text(other.text()),
    }
}

/// A float as a cell. What is not finite is text, with a tab that keeps spreadsheets from taking it for a name.
pub(crate) fn float_cell(number: f64) -> Cell {
    if number.is_finite() { Cell::Exact(number) } else { Cell::Text(python_float_repr(number) + "\t") }
}
