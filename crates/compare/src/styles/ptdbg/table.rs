//! The tables of ptdbg_ascend: columns, and the rows of paired and unpaired lines.

use ulpscope_dump::{Entry, Rank};
use ulpscope_formats::json::Json;
use ulpscope_report::Cell;

use crate::style::Verdict;

use super::Release;
use super::colours::Score;
use super::fields::{NAN, cell_of_6, digest, dtype, number, number_of_6, shape, stats};
use super::metrics::{Measured, NO_BENCH, measure};
use super::stat_columns::StatColumns;

const IDENTITY: [&str; 6] = [
    "NPU Name",
    "Bench Name",
    "NPU Tensor Dtype",
    "Bench Tensor Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
];
const ERRORS: [&str; 3] = ["Cosine", "MaxAbsErr", "MaxRelativeErr"];
const SHARES: [&str; 2] = ["One Thousandth Err Ratio", "Five Thousandths Err Ratio"];
const DIFFERENCES: [&str; 4] = ["Max diff", "Min diff", "Mean diff", "L2norm diff"];
const TARGET_STATS: [&str; 4] = ["NPU max", "NPU min", "NPU mean", "NPU l2norm"];
const GOLDEN_STATS: [&str; 4] = ["Bench max", "Bench min", "Bench mean", "Bench l2norm"];
const ACCURACY: &str = "Accuracy Reached or Not";
const RESULT: &str = "Result";
const MESSAGE: &str = "Err_message";
const STACK: &str = "NPU_Stack_Info";

/// Which table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Tensors, before 6.0.
    Tensors4,
    /// Tensors, 6.0.
    Tensors6,
    /// Statistics, 6.0.
    Statistics6,
    /// Digests, 6.0.
    Digests6,
}

/// A row, before its colour is known.
pub(super) struct Made {
    pub(super) cells: Vec<Cell>,
    pub(super) verdict: Verdict,
    pub(super) score: Score,
    pub(super) problem: Option<String>,
}

/// A line and where it comes from.
pub(super) type Side<'a> = (&'a Rank, &'a Entry);

impl Table {
    pub(super) fn release(self) -> Release {
        if self == Table::Tensors4 { Release::V4 } else { Release::V6 }
    }

    /// Whether elements are read.
    pub(super) fn reads_tensors(self) -> bool {
        matches!(self, Table::Tensors4 | Table::Tensors6)
    }

    /// The headings.
    pub(super) fn columns(self, with_stack: bool) -> Vec<String> {
        let parts: &[&[&str]] = match self {
            Table::Tensors4 => {
                &[&IDENTITY, &ERRORS, &TARGET_STATS[..3], &GOLDEN_STATS[..3], &[ACCURACY, MESSAGE]]
            }
            Table::Tensors6 => {
                &[&IDENTITY, &ERRORS, &SHARES, &TARGET_STATS, &GOLDEN_STATS, &[ACCURACY, MESSAGE]]
            }
            Table::Statistics6 => {
                &[&IDENTITY, &DIFFERENCES, &TARGET_STATS, &GOLDEN_STATS, &[RESULT, MESSAGE]]
            }
            Table::Digests6 => &[&IDENTITY, &["NPU MD5", "BENCH MD5", RESULT]],
        };
        let stack = with_stack.then_some(&STACK);
        parts.iter().copied().flatten().chain(stack).map(|&name| name.to_owned()).collect()
    }

    /// The row of two paired lines. `columns` says how pandas prints the statistics of either side.
    pub(super) fn matched(self, target: Side<'_>, golden: Side<'_>, columns: &[StatColumns; 2]) -> Made {
        let cells = identity(target.1, Some(golden.1));
        match self {
            Table::Tensors4 | Table::Tensors6 => self.tensors(
                cells,
                &measure(target, golden, self.release()),
                target.1,
                Some(golden.1),
                columns,
            ),
            Table::Statistics6 => statistics(cells, &stats(target.1), &stats(golden.1)),
            Table::Digests6 => digests(cells, digest(target.1), digest(golden.1)),
        }
    }

    /// The row of an unpaired line.
    pub(super) fn unmatched(self, target: &Entry, columns: &[StatColumns; 2]) -> Made {
        let mut cells = identity(target, None);
        match self {
            Table::Tensors4 | Table::Tensors6 => {
                self.tensors(cells, &Measured::without_partner(), target, None, columns)
            }
            Table::Statistics6 => {
                cells.extend(DIFFERENCES.map(|_| Cell::text(NAN)));
                cells.extend(stats(target).iter().map(cell_of_6));
                cells.extend(GOLDEN_STATS.map(|_| Cell::text(NAN)));
                cells.extend([Cell::text(NAN), Cell::text(NO_BENCH)]);
                made(cells, Verdict::NotCompared)
            }
            Table::Digests6 => {
                cells.extend([NAN; 3].map(Cell::text));
                made(cells, Verdict::NotCompared)
            }
        }
    }

    fn tensors(
        self,
        mut cells: Vec<Cell>,
        measured: &Measured,
        target: &Entry,
        golden: Option<&Entry>,
        columns: &[StatColumns; 2],
    ) -> Made {
        let release = self.release();
        cells
            .extend([measured.cosine, measured.max_abs, measured.max_rel].map(|figure| figure.cell(release)));
        let (target, golden) = (stats(target), golden.map(stats));
        match release {
            Release::V4 => {
                cells.extend(columns[0].cells(&target));
                match &golden {
                    Some(golden) => cells.extend(columns[1].cells(golden)),
                    None => cells.extend([NAN; 3].map(Cell::text)),
                }
            }
            Release::V6 => {
                cells.extend(measured.shares.map(|figure| figure.cell(release)));
                cells.extend(target.iter().map(cell_of_6));
                match &golden {
                    Some(golden) => cells.extend(golden.iter().map(cell_of_6)),
                    None => cells.extend([NAN; 4].map(Cell::text)),
                }
            }
        }
        let word = measured.verdict();
        cells.extend([Cell::text(word), message(&measured.message)]);
        let verdict = match word {
            "Yes" => Verdict::Pass,
            "No" => Verdict::Fail,
            _ => Verdict::NotCompared,
        };
        let score = Score {
            overflow: overflow(&target),
            target_max: number(&target[0]),
            golden_max: golden.and_then(|golden| number(&golden[0])),
            distance: measured.max_abs.number(),
            share: measured.shares[0].number(),
            cosine: measured.cosine.number(),
        };
        Made { cells, verdict, score, problem: measured.problem.clone() }
    }
}

fn made(cells: Vec<Cell>, verdict: Verdict) -> Made {
    Made { cells, verdict, score: Score::default(), problem: None }
}

/// Names, dtypes and shapes.
fn identity(target: &Entry, golden: Option<&Entry>) -> Vec<Cell> {
    let golden = match golden {
        Some(golden) => [golden.name.clone(), dtype(golden), shape(golden)],
        None => [NAN; 3].map(str::to_owned),
    };
    let target = [target.name.clone(), dtype(target), shape(target)];
    target.into_iter().zip(golden).flat_map(|(target, golden)| [target, golden]).map(Cell::Text).collect()
}

/// A message, or nothing.
fn message(text: &str) -> Cell {
    if text.is_empty() { Cell::Missing } else { Cell::text(text) }
}

/// Whether max or min is not finite.
fn overflow(stats: &[Json; 4]) -> bool {
    stats[..2].iter().any(|value| matches!(value, Json::Float(number) if !number.is_finite()))
}

/// Differences of statistics; one that is over half of the larger value asks for a second look. The tool says nothing
/// of a NaN or an infinity that only one side has, as no share of it is over half; here such a row fails.
fn statistics(mut cells: Vec<Cell>, target: &[Json; 4], golden: &[Json; 4]) -> Made {
    let (mut warning, mut unlike, mut subtracted) = (false, false, false);
    let mut max_diff = None;
    for (column, (n, b)) in target.iter().zip(golden).enumerate() {
        let (Some(n_number), Some(b_number)) = (number(n), number(b)) else {
            cells.push(Cell::text(NAN));
            continue;
        };
        let difference = n_number - b_number;
        subtracted = true;
        unlike |= unlike_non_finite(n_number, b_number);
        warning |= difference.abs() / (larger(n_number.abs(), b_number.abs()) + 1e-10) > 0.5;
        if column == 0 {
            max_diff = difference.is_finite().then_some(difference);
        }
        cells.push(match (whole(n), whole(b)) {
            (Some(n), Some(b)) => n.checked_sub(b).map_or(Cell::Exact(difference), Cell::Int),
            _ => number_of_6(difference),
        });
    }
    cells.extend(target.iter().chain(golden).map(cell_of_6));
    cells.extend(match warning {
        true => [Cell::text("Warning"), Cell::text("Need double check api accuracy.")],
        false => [Cell::Missing, Cell::Missing],
    });
    let finite = |value: &Json| number(value).filter(|number| number.is_finite());
    let score = Score {
        overflow: overflow(target),
        target_max: finite(&target[0]),
        golden_max: finite(&golden[0]),
        distance: max_diff,
        ..Score::default()
    };
    let verdict = match subtracted {
        true if warning || unlike => Verdict::Fail,
        true => Verdict::Pass,
        false => Verdict::NotCompared,
    };
    Made { cells, verdict, score, problem: None }
}

/// Whether one is NaN or infinite and the other is not the same.
fn unlike_non_finite(target: f64, golden: f64) -> bool {
    let finite = target.is_finite() && golden.is_finite();
    !finite && target != golden && !(target.is_nan() && golden.is_nan())
}

/// Python's `max`: the first, unless the second is larger.
fn larger(first: f64, second: f64) -> f64 {
    if second > first { second } else { first }
}

/// A whole number, or a truth value, which Python subtracts like one.
fn whole(value: &Json) -> Option<i128> {
    match value {
        Json::Int(number) => Some(*number),
        Json::Bool(flag) => Some((*flag).into()),
        _ => None,
    }
}

fn digests(mut cells: Vec<Cell>, target: &str, golden: &str) -> Made {
    let (word, verdict) =
        if target == golden { ("Pass", Verdict::Pass) } else { ("Different", Verdict::Fail) };
    cells.extend([target, golden, word].map(Cell::text));
    made(cells, verdict)
}
