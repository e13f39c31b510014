//! The sheet of msaccucmp: its columns for two NPU dumps, and its ten algorithms for a pair of tensors.
//!
//! Sums are in f64, where msaccucmp sums in f32: the last of the six printed decimals may differ. A relative error has no
//! meaning where the ground truth is zero. msaccucmp counts it as zero and says nothing; here the row says how many
//! elements that concerns.

use ulpscope_formats::Tensor;
use ulpscope_kernels::{Stats, Threads, Tolerance, distances, errors, kl_divergence, stats};
use ulpscope_tensor::{DType, View};

/// The columns. The type and the address are there twice: for the NPU dump, and for the ground truth.
pub const COLUMNS: [&str; 21] = [
    "Index",
    "OpType",
    "NPUDump",
    "DataType",
    "Address",
    "GroundTruth",
    "DataType",
    "Address",
    "TensorIndex",
    "Shape",
    "CosineSimilarity",
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "StandardDeviation",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MaxRelativeError",
    "MeanRelativeError",
    "CompareFailReason",
];

/// The number of algorithms.
pub const ALGORITHMS: usize = 10;

/// What a cell without a value holds.
pub const MISSING: &str = "NaN";

/// The results for a pair of tensors, as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Algorithms {
    /// In the order of the columns.
    pub values: [String; ALGORITHMS],
    /// What the values do not say.
    pub reasons: Vec<String>,
    /// The cosine, if there is one: of a scalar and beside NaN there is none.
    pub cosine: Option<f64>,
    /// The distance in relation to the length of the ground truth; none beside NaN.
    pub relative_distance: Option<f64>,
}

/// A pair that cannot be compared.
impl Algorithms {
    /// No values, for a reason.
    pub fn none(reason: impl Into<String>) -> Algorithms {
        Algorithms {
            values: std::array::from_fn(|_| MISSING.to_owned()),
            reasons: vec![reason.into()],
            cosine: None,
            relative_distance: None,
        }
    }
}

/// Measures two tensors. The names of their files are for the reasons.
pub fn measure(target: &Tensor, golden: &Tensor, files: [&str; 2]) -> Algorithms {
    let (left, right) = (target.view(), golden.view());
    let measured = errors(&left, &right, Tolerance::default(), Threads::One);
    let measured = match measured {
        Ok(measured) => measured,
        Err(shapes) => return Algorithms::none(shapes.to_string()),
    };
    let of_sides = [stats(&left, Threads::One), stats(&right, Threads::One)];
    let mut reasons = Vec::new();
    let non_finite: [u64; 2] =
        [&of_sides[0], &of_sides[1]].map(|side| side.nan + side.pos_inf + side.neg_inf);
    let is_finite = non_finite == [0, 0];
    if !is_finite {
        reasons.push(format!(
            "NaN or infinity: {} elements in {}, {} in {}.",
            non_finite[0], files[0], non_finite[1], files[1]
        ));
    }
    let distances = &measured.distances;
    if distances.zero_golden > 0 {
        reasons.push(format!(
            "{} elements of the ground truth are zero where the NPU dump is not: they have no relative error.",
            distances.zero_golden
        ));
    }
    let cosine = cosine(target.shape(), distances.cosine, &of_sides, files, &mut reasons);
    // Beside a NaN the other metrics would be about part of the tensor.
    let over_all = |value: f64| six(if is_finite { value } else { f64::NAN });
    let count = distances.count.max(1) as f64;
    let kl = kl_divergence(&left, &right, Threads::One);
    let values = [
        if is_finite { cosine } else { "nan".to_owned() },
        over_all(distances.max_abs),
        six(measured.accumulated_rel),
        over_all(if of_sides[1].norm > 0.0 { distances.rel_l2 } else { 0.0 }),
        kl.map_or_else(|| "nan".to_owned(), six),
        format!("{},{}", spread(&left, &of_sides[0]), spread(&right, &of_sides[1])),
        over_all(measured.mean_abs),
        over_all(distances.rmse),
        six(if distances.max_rel.is_finite() { distances.max_rel } else { 0.0 }),
        six(measured.accumulated_rel / count),
    ];
    let relative = if of_sides[1].norm > 0.0 { distances.rel_l2 } else { of_sides[0].norm };
    Algorithms {
        values,
        reasons,
        cosine: distances.cosine.filter(|_| is_finite && target.view().len() > 1),
        relative_distance: Some(relative).filter(|_| is_finite),
    }
}

fn cosine(
    shape: &[usize],
    cosine: Option<f64>,
    sides: &[Stats; 2],
    files: [&str; 2],
    reasons: &mut Vec<String>,
) -> String {
    if shape.iter().all(|&size| size == 1) {
        reasons.push("This tensor is scalar.".to_owned());
        return six(1.0);
    }
    let zero = [0, 1].map(|side| sides[side].norm == 0.0);
    if zero == [true, true] {
        return "1.0".to_owned();
    }
    match (zero.iter().position(|&is_zero| is_zero), cosine) {
        (None, Some(cosine)) => six(cosine),
        (side, _) => {
            let file = files[side.unwrap_or(0)];
            reasons.push(format!("Cannot compare by Cosine Similarity. All the data is zero in {file}."));
            MISSING.to_owned()
        }
    }
}

/// `(mean;std)` with three decimals.
fn spread(view: &View<'_>, stats: &Stats) -> String {
    let mean = stats.mean.unwrap_or(f64::NAN);
    // The root of the mean squared distance from the mean is the deviation; one element stands for all.
    let bytes = mean.to_le_bytes();
    let strides = vec![0; view.shape().len()];
    let constant = View::strided(DType::F64, view.shape().to_vec(), strides, &bytes, 0);
    let deviation = match constant.ok().and_then(|mean| distances(view, &mean, Threads::One).ok()) {
        Some(distances) if mean.is_finite() => distances.rmse,
        _ => f64::NAN,
    };
    format!("({};{})", three(mean), three(deviation))
}

fn six(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{value:.6}") }
}

fn three(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else if value.abs() < 0.001 {
        "0.000".to_owned()
    } else {
        format!("{value:.3}")
    }
}
