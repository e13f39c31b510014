//! Elements compared with elements.

use ulpscope_dump::Rank;
use ulpscope_formats::Tensor;
use ulpscope_kernels::PeerArithmetic;
use ulpscope_report::Cell;

use super::item::Item;
use super::row::float_cell;
use crate::styles::peer_metrics::{PeerMetrics, measure, measure_scalars};
use crate::styles::python_text::twelve_decimals;

/// What the tool writes where a number cannot be had.
pub(crate) const UNSUPPORTED: &str = "unsupported";
const SHAPES_DIFFER: &str = "shape unmatched";
const PLACES_DIFFER: &str = "N/A";

/// What the tool writes for NaN.
pub(crate) const NAN: &str = "Nan";

/// A cosine above it is rounded.
const NEARLY_ONE: f64 = 0.9999;

/// The six cells of a pair, and what the rules need of them.
pub(crate) struct Measured {
    pub(crate) cells: [Cell; 6],
    pub(crate) cosine: Option<f64>,
    pub(crate) one_thousandth: Option<f64>,
}

impl Measured {
    fn word(word: &str) -> Measured {
        let cells = std::array::from_fn(|_| Cell::text(word));
        Measured { cells, cosine: None, one_thousandth: None }
    }
}

/// Measures a pair. What cannot be read is noted in `problems`.
pub(crate) fn compare(
    (target, target_rank): (&Item<'_>, &Rank),
    (golden, golden_rank): (Option<&Item<'_>>, &Rank),
    problems: &mut Vec<String>,
) -> Measured {
    let Some(golden) = golden else { return Measured::word(UNSUPPORTED) };
    let (Some(target), Some(golden)) = (
        load(target, target_rank, problems).and_then(squeezed),
        load(golden, golden_rank, problems).and_then(squeezed),
    ) else {
        return Measured::word(UNSUPPORTED);
    };
    if target.view().is_empty() {
        return Measured::word(UNSUPPORTED);
    }
    if target.shape() != golden.shape() {
        return Measured::word(SHAPES_DIFFER);
    }
    if target.shape().is_empty() {
        let (abs, rel) = measure_scalars(&target.view(), &golden.view(), PeerArithmetic::Promoted);
        let mut measured = Measured::word(UNSUPPORTED);
        measured.cells[2] = rounded(abs, float_cell);
        measured.cells[3] = rounded(rel, float_cell);
        return measured;
    }
    match measure(&target, &golden, PeerArithmetic::Promoted) {
        None => Measured::word(PLACES_DIFFER),
        Some(metrics) => cells(&metrics),
    }
}

fn cells(metrics: &PeerMetrics) -> Measured {
    let cosine = cosine(metrics);
    let one_thousandth = twelve_decimals(metrics.under_1e3);
    Measured {
        cells: [
            cosine.map_or(Cell::text(NAN), Cell::Exact),
            float_cell(metrics.euclid),
            rounded(metrics.max_abs, float_cell),
            rounded(metrics.max_rel, float_cell),
            Cell::Exact(one_thousandth),
            Cell::Exact(twelve_decimals(metrics.under_5e3)),
        ],
        cosine,
        one_thousandth: Some(one_thousandth),
    }
}

/// The cosine; of two that are nothing but zeros one, of one that is nothing.
fn cosine(metrics: &PeerMetrics) -> Option<f64> {
    let zero = metrics.norms.map(|norm| norm <= f64::EPSILON);
    if zero == [true, true] {
        return Some(1.0);
    }
    let cosine = metrics.dot / (metrics.norms[0] * metrics.norms[1]);
    if zero.contains(&true) || cosine.is_nan() {
        return None;
    }
    let cosine = twelve_decimals(cosine);
    Some(if cosine > NEARLY_ONE { six_decimals(cosine) } else { cosine })
}

/// `round(value, 6)`.
pub(crate) fn six_decimals(value: f64) -> f64 {
    format!("{value:.6}").parse().unwrap_or(value)
}

/// A difference with twelve decimals. `cell` spells what is not NaN: releases differ about infinities.
pub(crate) fn rounded(value: f64, cell: fn(f64) -> Cell) -> Cell {
    if value.is_nan() { Cell::text(NAN) } else { cell(twelve_decimals(value)) }
}

/// The same elements without the dimensions of one.
fn squeezed(tensor: Tensor) -> Option<Tensor> {
    let kept = tensor.shape().iter().zip(tensor.strides()).filter(|&(&dim, _)| dim != 1);
    let (shape, strides) = kept.unzip();
    Tensor::strided(tensor.dtype(), shape, strides, tensor.storage().clone(), tensor.origin()).ok()
}

/// The elements of an item, if they can be had.
pub(crate) fn load(item: &Item<'_>, rank: &Rank, problems: &mut Vec<String>) -> Option<Tensor> {
    let loaded = rank.tensor(item.tensor?);
    loaded.unwrap_or_else(|error| {
        problems.push(error.to_string());
        None
    })
}
