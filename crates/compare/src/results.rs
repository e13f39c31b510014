//! Measurements as records: the only place that maps a kernel's fields to their public names.

use ulpscope_kernels::{Comparison, ElementDiff, ExponentHistogram, NonFinite, Stats};
use ulpscope_report::{Align, Bars, Cell, Emphasis, Record, Table};
use ulpscope_tensor::{DType, Scalar, View};

/// Bars of a histogram; neighbouring powers of two share one when there are more.
const MAX_BARS: usize = 32;

/// The statistics of a tensor, with the fields of [`ulpscope_report::fields::STATS`].
pub fn of_stats(dtype: DType, shape: &[usize], stats: &Stats) -> Record {
    Record::new(vec![
        ("shape", Cell::sizes(shape)),
        ("dtype", Cell::text(dtype.name())),
        ("max", Cell::maybe(stats.max, of_statistic)),
        ("min", Cell::maybe(stats.min, of_statistic)),
        ("mean", Cell::maybe(stats.mean, Cell::Number)),
        ("norm", Cell::Number(stats.norm)),
        ("nan", Cell::count(stats.nan)),
        ("pos_inf", Cell::count(stats.pos_inf)),
        ("neg_inf", Cell::count(stats.neg_inf)),
        ("zeros", Cell::count(stats.zeros)),
        ("subnormals", Cell::count(stats.subnormals)),
        ("finite_max", Cell::maybe(stats.finite_max, of_statistic)),
        ("finite_min", Cell::maybe(stats.finite_min, of_statistic)),
    ])
}

/// The result of a comparison, with the fields of [`ulpscope_report::fields::DIFF`].
pub fn of_comparison(
    target: &Described,
    golden: &Described,
    comparison: &Comparison,
    kl: Option<f64>,
) -> Record {
    let distances = &comparison.distances;
    let worst = |flat| Cell::Index { flat, coordinates: golden.coordinates(flat) };
    Record::new(vec![
        ("target", target.cell()),
        ("golden", golden.cell()),
        ("count", Cell::count(distances.count)),
        ("finite", Cell::count(distances.finite)),
        ("equal", Cell::Flag(distances.equal)),
        ("cosine", Cell::maybe(distances.cosine, Cell::Number)),
        ("euclid", Cell::Number(distances.euclid)),
        ("rel_l2", Cell::Number(distances.rel_l2)),
        ("rmse", Cell::Number(distances.rmse)),
        ("mape", Cell::Number(comparison.mape)),
        ("max_abs", Cell::Number(distances.max_abs)),
        ("mean_abs", Cell::Number(comparison.mean_abs)),
        ("max_rel", Cell::Number(distances.max_rel)),
        ("mean_rel", Cell::Number(comparison.mean_rel)),
        ("accumulated_rel", Cell::Number(comparison.accumulated_rel)),
        ("kl", Cell::maybe(kl, Cell::Number)),
        ("under_1e3", Cell::Share(distances.under_1e3)),
        ("under_5e3", Cell::Share(distances.under_5e3)),
        ("max_ulp", Cell::maybe(comparison.max_ulp, Cell::count)),
        ("mean_ulp", Cell::maybe(comparison.mean_ulp, Cell::Number)),
        ("zero_golden", Cell::count(distances.zero_golden)),
        ("non_finite", Cell::Record(of_non_finite(&distances.non_finite))),
        ("over_tolerance", Cell::count(comparison.over_tolerance)),
        ("needed_atol", Cell::Number(comparison.needed_atol)),
        ("needed_rtol", Cell::Number(comparison.needed_rtol)),
        ("worst_index", Cell::maybe(distances.worst_index, worst)),
        ("exponents", of_exponents(&comparison.exponents)),
    ])
}

fn of_non_finite(counts: &NonFinite) -> Record {
    Record::new(vec![
        ("target_nan", Cell::count(counts.target_nan)),
        ("golden_nan", Cell::count(counts.golden_nan)),
        ("both_nan", Cell::count(counts.both_nan)),
        ("target_pos_inf", Cell::count(counts.target_pos_inf)),
        ("golden_pos_inf", Cell::count(counts.golden_pos_inf)),
        ("both_pos_inf", Cell::count(counts.both_pos_inf)),
        ("target_neg_inf", Cell::count(counts.target_neg_inf)),
        ("golden_neg_inf", Cell::count(counts.golden_neg_inf)),
        ("both_neg_inf", Cell::count(counts.both_neg_inf)),
        ("mismatched", Cell::count(counts.mismatched)),
    ])
}

/// `rows` are pairs: exponent e, and how many errors lie in [2^e, 2^(e+1)).
fn of_exponents(histogram: &ExponentHistogram) -> Cell {
    let rows = histogram.rows.iter();
    let rows =
        rows.map(|&(exponent, count)| Cell::List(vec![Cell::Int(exponent.into()), Cell::count(count)]));
    Cell::Record(Record::new(vec![
        ("zeros", Cell::count(histogram.zeros)),
        ("rows", Cell::List(rows.collect())),
    ]))
}

/// The errors by power of two, as bars.
pub fn exponent_bars(histogram: &ExponentHistogram) -> Bars {
    let rows = &histogram.rows;
    let mut counts = Vec::new();
    if histogram.zeros > 0 {
        counts.push(("0".to_owned(), histogram.zeros));
    }
    if let (Some(&(low, _)), Some(&(high, _))) = (rows.first(), rows.last()) {
        let span = (i64::from(high) - i64::from(low) + 1) as usize;
        let width = span.div_ceil(MAX_BARS) as i32;
        let mut bars = vec![0; span.div_ceil(width as usize)];
        for &(exponent, count) in rows {
            bars[((exponent - low) / width) as usize] += count;
        }
        counts.extend((low..).step_by(width as usize).zip(bars).map(|(exponent, count)| {
            let label = if width == 1 {
                format!("2^{exponent}")
            } else {
                format!("2^{exponent}..2^{}", exponent + width)
            };
            (label, count)
        }));
    }
    Bars { title: "errors by power of two".to_owned(), counts }
}

/// One element of both sides; `index` is its row-major position.
pub fn of_element(element: &ElementDiff, target: &Described, golden: &Described) -> Record {
    Record::new(vec![
        ("index", Cell::count(element.index)),
        ("coordinates", Cell::sizes(&golden.coordinates(element.index))),
        ("target", of_scalar(target.dtype, element.target)),
        ("golden", of_scalar(golden.dtype, element.golden)),
        ("abs", Cell::Number(element.abs)),
        ("rel", Cell::maybe(element.rel, Cell::Number)),
    ])
}

/// Elements of both sides, one below the other.
pub fn element_table(title: &str, elements: &[ElementDiff], target: &Described, golden: &Described) -> Table {
    let columns = [
        ("index", Align::Left),
        ("target", Align::Right),
        ("golden", Align::Right),
        ("abs", Align::Right),
        ("rel", Align::Right),
    ];
    let mut table = Table::new(title, &columns);
    for element in elements {
        // People use coordinates: shown where a program gets the row-major position.
        let cells = of_element(element, target, golden).fields.into_iter().skip(1).map(|(_, cell)| cell);
        table.push(cells.collect(), Emphasis::Plain);
    }
    table
}

/// The first `limit` elements of a tensor.
pub fn first_values(view: &View<'_>, limit: usize) -> Cell {
    Cell::List((0..view.len().min(limit)).map(|at| of_scalar(view.dtype(), view.get(at))).collect())
}

/// One element, exactly.
pub fn of_scalar(dtype: DType, scalar: Scalar) -> Cell {
    match scalar {
        Scalar::Float(value) if dtype.significant_bits() <= f32::MANTISSA_DIGITS => {
            Cell::ExactSingle(value as f32)
        }
        Scalar::Float(value) => Cell::Exact(value),
        Scalar::Int(value) => Cell::Int(value),
        Scalar::Bool(value) => Cell::Flag(value),
        Scalar::Complex(re, im) => Cell::Complex(re, im),
    }
}

/// An element, or a statistic that is one.
pub fn of_statistic(scalar: Scalar) -> Cell {
    match scalar {
        Scalar::Float(value) => Cell::Number(value),
        Scalar::Int(value) => Cell::Int(value),
        Scalar::Bool(value) => Cell::Flag(value),
        Scalar::Complex(..) => Cell::Number(scalar.to_f64()),
    }
}

/// The description of one side, after its elements are no longer needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
}

impl Described {
    /// The side that a view is.
    pub fn of(view: &View<'_>) -> Described {
        Described { dtype: view.dtype(), shape: view.shape().to_vec() }
    }

    /// The coordinates of a row-major position.
    pub fn coordinates(&self, flat: u64) -> Vec<usize> {
        // A result from a pickle may name a position in a tensor without elements.
        if self.shape.contains(&0) {
            Vec::new()
        } else {
            ulpscope_tensor::coordinates(&self.shape, flat as usize)
        }
    }

    fn cell(&self) -> Cell {
        Cell::Record(Record::new(vec![
            ("shape", Cell::sizes(&self.shape)),
            ("dtype", Cell::text(self.dtype.name())),
        ]))
    }
}
