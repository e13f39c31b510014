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

/// An error below this one is written as zero.
const SMALLEST_WRITTEN: f64 = 5e-7;

/// What says whether two tensors differ. A number that was not computed is none; one that was may be NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nearness {
    /// The cosine; 1 for scalars.
    pub cosine: Option<f64>,
    /// The distance in relation to the length of the ground truth.
    pub relative_distance: Option<f64>,
    /// The largest absolute error.
    pub max_abs: Option<f64>,
    /// Whether the ground truth is zero everywhere: no error is small in relation to it.
    pub is_golden_zero: bool,
}

impl Nearness {
    /// Whether two tensors differ more than the limit. The cosine does not see a wrong scale, nor a wrong scalar: the
    /// distance of two vectors of one length at this angle is the limit for those. Equal tensors have no number that is NaN.
    pub fn differs(&self, min_cosine: f64) -> bool {
        let max_distance = (2.0 * (1.0 - min_cosine)).max(0.0).sqrt();
        let numbers = [self.cosine, self.relative_distance, self.max_abs];
        if numbers.into_iter().flatten().any(f64::is_nan) {
            return true;
        }
        let has_error = self.max_abs.is_some_and(|error| error >= SMALLEST_WRITTEN);
        self.cosine.is_some_and(|cosine| cosine < min_cosine)
            || self.relative_distance.is_some_and(|distance| distance > max_distance)
            || has_error && (self.cosine.is_none() || self.is_golden_zero)
    }
}

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
    /// What says whether they differ.
    pub nearness: Nearness,
}

impl Algorithms {
    /// No values, for a reason: a pair that cannot be compared.
    pub fn none(reason: impl Into<String>) -> Algorithms {
        Algorithms {
            values: std::array::from_fn(|_| MISSING.to_owned()),
            reasons: vec![reason.into()],
            cosine: None,
            relative_distance: None,
            nearness: Nearness::default(),
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
    // A mask of infinities is in both runs: equal tensors agree, whatever they hold.
    let is_equal = !is_finite && has_equal_elements(&left, &right);
    if is_equal {
        reasons.push("All elements are equal, NaN and infinity included.".to_owned());
    }
    // Beside a NaN the other metrics would be about part of the tensor.
    let known = |value: f64| match (is_finite, is_equal) {
        (true, _) => value,
        (false, true) => 0.0,
        (false, false) => f64::NAN,
    };
    let over_all = |value: f64| six(known(value));
    let count = distances.count.max(1) as f64;
    let kl = kl_divergence(&left, &right, Threads::One);
    let values = [
        match (is_finite, is_equal) {
            (true, _) => cosine,
            (false, true) => six(1.0),
            (false, false) => "nan".to_owned(),
        },
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
    let is_golden_zero = is_finite && of_sides[1].norm == 0.0;
    let relative = if is_golden_zero { of_sides[0].norm } else { distances.rel_l2 };
    let is_scalar = target.view().len() <= 1;
    let nearness = Nearness {
        cosine: if is_equal || is_scalar && is_finite { Some(1.0) } else { distances.cosine },
        relative_distance: Some(known(relative)).filter(|_| !is_golden_zero),
        max_abs: Some(known(distances.max_abs)),
        is_golden_zero,
    };
    Algorithms {
        values,
        reasons,
        cosine: distances.cosine.filter(|_| is_finite && !is_scalar),
        relative_distance: Some(relative).filter(|_| is_finite),
        nearness,
    }
}

/// Whether all elements are equal: as bits, or as numbers where the dtypes differ.
fn has_equal_elements(left: &View<'_>, right: &View<'_>) -> bool {
    if left.dtype() == right.dtype() {
        return left.to_packed() == right.to_packed();
    }
    let is_equal = |at: usize| {
        let [a, b] = [left.get(at).to_f64(), right.get(at).to_f64()];
        a == b || a.is_nan() && b.is_nan()
    };
    left.len() == right.len() && (0..left.len()).all(is_equal)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(values: &[f32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::contiguous(DType::F32, vec![values.len()], bytes.into()).expect("a tensor")
    }

    fn differs(target: &[f32], golden: &[f32]) -> bool {
        measure(&tensor(target), &tensor(golden), ["a", "b"]).nearness.differs(0.98)
    }

    #[test]
    fn equal_tensors_agree_whatever_they_hold() {
        let mask = [0.0, f32::NEG_INFINITY, 1.0, f32::NAN];
        assert!(!differs(&mask, &mask));
        assert!(!differs(&[f32::NEG_INFINITY; 2], &[f32::NEG_INFINITY; 2]));
        let measured = measure(&tensor(&mask), &tensor(&mask), ["a", "b"]);
        assert_eq!(measured.values[..2], ["1.000000", "0.000000"]);
        assert!(differs(&mask, &[f32::NEG_INFINITY, 0.0, 1.0, f32::NAN]));
        assert!(differs(&[f32::NAN, 1.0], &[1.0, 1.0]));
    }

    #[test]
    fn equal_masks_of_different_dtypes_agree() {
        let half: Vec<u8> = [0xfc00_u16, 0x3c00].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let half = Tensor::contiguous(DType::F16, vec![2], half.into()).expect("a tensor");
        let single = tensor(&[f32::NEG_INFINITY, 1.0]);
        assert!(!measure(&half, &single, ["a", "b"]).nearness.differs(0.98));
    }

    #[test]
    fn nothing_is_near_a_ground_truth_of_zeros() {
        assert!(differs(&[0.1, 0.0], &[0.0, 0.0]));
        assert!(differs(&[0.1], &[0.0]));
        assert!(!differs(&[0.0, 0.0], &[0.0, 0.0]));
        assert!(!differs(&[0.0], &[0.0]));
        assert!(!differs(&[1.000_001], &[1.0]));
        assert!(differs(&[0.0, 0.0], &[1.0, 0.0]));
    }
}
