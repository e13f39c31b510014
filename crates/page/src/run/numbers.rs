//! The numbers of a tensor of a run: measured where its elements are there, else as recorded.

use ulpscope_dump::{Rank, TensorEntry};
use ulpscope_formats::json::Json;
use ulpscope_kernels::{Stats, Threads, stats};
use ulpscope_tensor::Scalar;

/// Elements of all tensors of a page that are measured; later ones have recorded numbers alone, if there are any.
pub(super) const MAX_MEASURED: u64 = 1 << 30;

/// Numbers of a tensor. What is not known is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TensorNumbers {
    pub(super) count: Option<u64>,
    pub(super) max: Option<f64>,
    pub(super) min: Option<f64>,
    pub(super) mean: Option<f64>,
    pub(super) norm: Option<f64>,
    pub(super) nan: Option<u64>,
    pub(super) inf: Option<u64>,
    /// The share of zeros, 0 to 1.
    pub(super) zeros: Option<f64>,
    /// The largest finite number of its dtype, if it is one of floats.
    pub(super) limit: Option<f64>,
}

impl TensorNumbers {
    /// The numbers of a tensor. `left` is how many elements may still be measured.
    pub(super) fn of(rank: &Rank, tensor: &TensorEntry, left: &mut u64) -> TensorNumbers {
        let limit = tensor.dtype().and_then(|dtype| dtype.encoding().float_limits()).map(|limits| limits.max);
        let count = tensor.count();
        let mut numbers = TensorNumbers { count, limit, ..TensorNumbers::recorded(tensor) };
        // Without recorded numbers nothing else says whether all elements are finite, as in a checkpoint.
        let is_over_limit = numbers.nan.is_some() && count.is_none_or(|count| count > *left);
        if tensor.is_blank || !tensor.has_data() || is_over_limit {
            return numbers;
        }
        let Ok(Some(elements)) = rank.tensor(tensor) else { return numbers };
        let view = elements.view();
        *left = left.saturating_sub(view.len() as u64);
        let measured = stats(&view, Threads::All);
        if elements.check().is_ok() {
            numbers = TensorNumbers { count, limit, ..TensorNumbers::measured(&measured) };
        }
        numbers
    }

    fn measured(stats: &Stats) -> TensorNumbers {
        let scalar = |value: Option<Scalar>| value.map(Scalar::to_f64);
        TensorNumbers {
            max: scalar(stats.max),
            min: scalar(stats.min),
            mean: stats.mean,
            norm: (stats.count > 0).then_some(stats.norm),
            nan: Some(stats.nan),
            inf: Some(stats.pos_inf + stats.neg_inf),
            zeros: (stats.count > 0).then(|| stats.zeros as f64 / stats.count as f64),
            ..TensorNumbers::default()
        }
    }

    fn recorded(tensor: &TensorEntry) -> TensorNumbers {
        let number = |value: &Json| match value {
            Json::Int(value) => Some(*value as f64),
            Json::Float(value) => Some(*value),
            Json::Bool(value) => Some(f64::from(u8::from(*value))),
            Json::Str(text) => text.parse().ok(),
            _ => None,
        };
        let [max, min, mean, norm] = tensor.stats.each_ref().map(number);
        let is_finite = [max, min].iter().all(|bound| bound.is_some_and(f64::is_finite));
        let counts = tensor.non_finite();
        let none = is_finite.then_some(0);
        let all_zero = (norm == Some(0.0)).then_some(1.0);
        TensorNumbers {
            max,
            min,
            mean,
            norm,
            nan: counts.map(|counts| counts.nan).or(none),
            inf: counts.map(|counts| counts.inf).or(none),
            zeros: all_zero,
            ..TensorNumbers::default()
        }
    }

    /// Whether it is not known that all its elements are finite, or how many are not.
    pub(super) fn is_unmeasured(&self) -> bool {
        self.limit.is_some() && self.count.is_some_and(|count| count > 0) && self.nan.is_none()
    }

    /// The largest magnitude.
    pub(super) fn max_abs(&self) -> Option<f64> {
        Some(self.max?.abs().max(self.min?.abs()))
    }

    /// The root of the mean square.
    pub(super) fn root_mean_square(&self) -> Option<f64> {
        let count = self.count.filter(|count| *count > 0)?;
        Some(self.norm? / (count as f64).sqrt())
    }
}
