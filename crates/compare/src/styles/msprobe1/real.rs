//! Elements compared with elements.

use ulpscope_dump::Rank;
use ulpscope_kernels::PeerArithmetic;
use ulpscope_report::Cell;

use super::row::{NO_BENCH, float_cell};
use crate::styles::msprobe::item::Item;
use crate::styles::msprobe::real::{NAN, UNSUPPORTED, load, rounded, six_decimals};
use crate::styles::peer_metrics::{PeerMetrics, measure, measure_scalars};
use crate::styles::python_text::twelve_decimals;

/// The five cells of a pair, the verdict, and what the colours need of them.
pub(crate) struct Measured {
    /// Cosine, largest absolute and relative difference, shares below 1/1000 and 5/1000.
    pub(crate) cells: [Cell; 5],
    pub(crate) max_abs: Option<f64>,
    pub(crate) one_thousandth: Option<f64>,
    pub(crate) cosine: Option<f64>,
    /// `Accuracy Reached or Not`.
    pub(crate) accuracy: &'static str,
    pub(crate) message: String,
}

impl Measured {
    /// The same word everywhere.
    fn word(word: &str, accuracy: &'static str, message: impl Into<String>) -> Measured {
        Measured {
            cells: std::array::from_fn(|_| Cell::text(word)),
            max_abs: None,
            one_thousandth: None,
            cosine: None,
            accuracy,
            message: message.into(),
        }
    }
}

/// Measures a pair. What cannot be read is noted in `problems`.
pub(crate) fn compare(
    (target, target_rank): (&Item<'_>, &Rank),
    (golden, golden_rank): (Option<&Item<'_>>, &Rank),
    problems: &mut Vec<String>,
) -> Measured {
    let mut measured = elements((target, target_rank), (golden, golden_rank), problems);
    if golden.is_some_and(|golden| golden.name != target.name) {
        measured.message.push_str(" Fuzzy matching data, the comparison accuracy may be affected.");
    }
    measured
}

fn elements(
    (target, target_rank): (&Item<'_>, &Rank),
    (golden, golden_rank): (Option<&Item<'_>>, &Rank),
    problems: &mut Vec<String>,
) -> Measured {
    let has_data = |item: &Item<'_>| item.tensor.is_some_and(|tensor| tensor.has_data());
    let Some(golden) = golden.filter(|_| has_data(target)) else {
        return Measured::word(UNSUPPORTED, "None", NO_BENCH);
    };
    if !has_data(golden) {
        return Measured::word(UNSUPPORTED, "None", "Bench does not have data file.");
    }
    let loaded = load(target, target_rank, problems)
        .and_then(|loaded| Some((loaded, load(golden, golden_rank, problems)?)));
    let Some((n, b)) = loaded else {
        let file = target.file().unwrap_or_default();
        return Measured::word(UNSUPPORTED, "None", format!("Dump file: {file} not found."));
    };
    if n.view().is_empty() {
        let mut measured = Measured::word("", "None", "This is empty data, can not compare.");
        measured.cells =
            [0, 1, 2, 3, 4].map(|cell| if cell == 0 { Cell::text(UNSUPPORTED) } else { Cell::Int(0) });
        (measured.max_abs, measured.one_thousandth) = (Some(0.0), Some(0.0));
        return measured;
    }
    if n.shape() != b.shape() {
        let message = "Shape of NPU and bench Tensor do not match. Skipped.";
        return Measured::word("shape unmatched", "Unmatched", message);
    }
    if n.shape().is_empty() {
        let (abs, rel) = measure_scalars(&n.view(), &b.view(), PeerArithmetic::Stored);
        let mut measured =
            Measured::word(UNSUPPORTED, "None", "This is type of scalar data, can not compare.");
        (measured.cells[1], measured.cells[2]) = (rounded(abs, float_cell), rounded(rel, float_cell));
        (measured.cells[3], measured.cells[4]) = (Cell::text(NAN), Cell::text(NAN));
        measured.max_abs = (!abs.is_nan()).then(|| twelve_decimals(abs));
        not_a_number(&mut measured.message, abs);
        not_a_number(&mut measured.message, rel);
        return measured;
    }
    match measure(&n, &b, PeerArithmetic::Stored) {
        None => {
            let message = "The position of inf or nan in NPU and bench Tensor do not match.";
            Measured::word("N/A", "No", message)
        }
        Some(metrics) => of_metrics(&metrics, n.view().len()),
    }
}

fn of_metrics(metrics: &PeerMetrics, count: usize) -> Measured {
    let mut message = String::new();
    let cosine = cosine(metrics, count, &mut message);
    not_a_number(&mut message, metrics.max_abs);
    not_a_number(&mut message, metrics.max_rel);
    let one_thousandth = twelve_decimals(metrics.under_1e3);
    let max_abs = twelve_decimals(metrics.max_abs);
    let (cosine_cell, cosine, accuracy) = match cosine {
        Cosine::Unsupported => (Cell::text(UNSUPPORTED), None, "None"),
        Cosine::Nan => (Cell::text(NAN), None, accuracy(f64::NAN, max_abs)),
        Cosine::Number(cosine) => (Cell::Exact(cosine), Some(cosine), accuracy(cosine, max_abs)),
    };
    Measured {
        cells: [
            cosine_cell,
            rounded(metrics.max_abs, float_cell),
            rounded(metrics.max_rel, float_cell),
            Cell::Exact(one_thousandth),
            Cell::Exact(twelve_decimals(metrics.under_5e3)),
        ],
        max_abs: (!max_abs.is_nan()).then_some(max_abs),
        one_thousandth: Some(one_thousandth),
        cosine,
        accuracy,
        message,
    }
}

enum Cosine {
    Unsupported,
    Nan,
    Number(f64),
}

fn cosine(metrics: &PeerMetrics, count: usize, message: &mut String) -> Cosine {
    if count == 1 {
        message.push_str("This tensor is scalar.");
        return Cosine::Unsupported;
    }
    let zero = metrics.norms.map(|norm| norm <= f64::EPSILON);
    if zero == [true, true] {
        return Cosine::Number(1.0);
    }
    let cosine = metrics.dot / (metrics.norms[0] * metrics.norms[1]);
    let why = match zero {
        [true, _] => "All the data is Zero in npu dump data.",
        [_, true] => "All the data is Zero in Bench dump data.",
        _ if cosine.is_nan() => "the dump data has NaN.",
        _ => {
            let cosine = twelve_decimals(cosine);
            let cosine = if cosine > 0.9999 { six_decimals(cosine) } else { cosine };
            return Cosine::Number(if cosine > 0.99999 { 1.0 } else { cosine });
        }
    };
    message.push_str("Cannot compare by Cosine Similarity, ");
    message.push_str(why);
    Cosine::Nan
}

/// `Accuracy Reached or Not`.
fn accuracy(cosine: f64, max_abs: f64) -> &'static str {
    if (cosine < 0.99 && max_abs > 0.001) || cosine < 0.9 || max_abs > 1.0 { "No" } else { "Yes" }
}

fn not_a_number(message: &mut String, value: f64) {
    if value.is_nan() {
        message.push_str("Cannot compare by MaxRelativeError, the data contains nan/inf/-inf in dump data.");
    }
}
