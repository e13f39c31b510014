//! Sentinels: the fill values of masks (`finfo.min`, -1e9), which are so large that nothing beside them counts.
//!
//! An element is a sentinel if it has the extreme value of its tensor, at the same places on both sides, two or more of them,
//! and if that value is at least 5,000 and 64 times as large as every other element. The extreme values have to be the same
//! on both sides, or on each the largest finite value of some dtype: a mask may be made in a finer or coarser dtype than the
//! tensor it ends up in.
//!
//! Where only statistics were recorded, norm and mean are those of the sentinels and prove nothing. The end of the values
//! that no sentinel is at tells something of the rest.

use ulpscope_formats::Tensor;
use ulpscope_kernels::{Comparison, Rest, Threads, rest, stats};
use ulpscope_tensor::DType;

use crate::native::evidence::measure::{Numbers, numbers_of};
use crate::native::thresholds::sentinels::{GAP, LEAST, SEVERAL};
use crate::reading;

/// Two tensors without their sentinels; nothing where they have none.
pub(in crate::native) fn without_sentinels(
    tensors: (&Tensor, &Tensor),
    recorded: [&Numbers; 2],
    comparison: &Comparison,
) -> Option<Rest> {
    let target = extreme(tensors.0, recorded[0], comparison)?;
    let golden = extreme(tensors.1, recorded[1], comparison)?;
    let are_ends = is_end(target) && is_end(golden);
    if target != golden && !(are_ends && target.signum() == golden.signum()) {
        return None;
    }
    let views = (tensors.0.view(), tensors.1.view());
    let measured =
        reading::read(tensors.0, tensors.1, |reading| rest(&views.0, &views.1, (target, golden), reading));
    let is_far = |rest: &Rest| rest.largest * GAP.get() <= target.abs().min(golden.abs());
    measured.ok().filter(|rest| rest.one_sided == 0 && rest.left_out >= 2 && is_far(rest))
}

/// The statistic that sentinels leave: 0 for the largest element, 1 for the smallest. Nothing where there are no sentinels.
pub(in crate::native) fn statistic_beside_sentinels(recorded: [&Numbers; 2]) -> Option<usize> {
    let far = |side: usize| {
        let (max, min, norm) = (recorded[side][0]?, recorded[side][1]?, recorded[side][3]?);
        let (far, near, beside) = if max.abs() > min.abs() { (max, min, 1) } else { (min, max, 0) };
        let is_sentinel = far.is_finite() && far.abs() >= LEAST.get() && near.abs() * GAP.get() <= far.abs();
        // Two or more of them.
        (is_sentinel && norm.abs() >= SEVERAL.get() * far.abs()).then_some((far, beside))
    };
    let ((target, beside), (golden, other)) = (far(0)?, far(1)?);
    let are_ends = is_end(target) && is_end(golden);
    (beside == other && (target == golden || are_ends && target.signum() == golden.signum()))
        .then_some(beside)
}

/// The end of a tensor's values that may be a sentinel: far from 0, and from the other end.
fn extreme(tensor: &Tensor, recorded: &Numbers, comparison: &Comparison) -> Option<f64> {
    let computed;
    let [max, min, ..] = match recorded {
        [Some(_), Some(_), ..] => recorded,
        // Only a tensor with a large norm has a large element.
        _ if comparison.distances.euclid >= LEAST.get() * comparison.distances.rel_l2 => {
            computed = numbers_of(&stats(&tensor.view(), Threads::One));
            &computed
        }
        _ => return None,
    };
    let (max, min) = ((*max)?, (*min)?);
    let (far, near) = if max.abs() > min.abs() { (max, min) } else { (min, max) };
    // All elements may have one value, as those of a mask that hides everything.
    let is_apart = near.abs() * GAP.get() <= far.abs() || near == far;
    (far.is_finite() && far.abs() >= LEAST.get() && is_apart).then_some(far)
}

/// Whether a value is as large as a dtype allows.
fn is_end(value: f64) -> bool {
    let dtypes = [DType::F16, DType::BF16, DType::F32, DType::F64];
    let ends = dtypes.into_iter().filter_map(DType::float_limits).map(|limits| limits.max);
    ends.into_iter().any(|end| end == value.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(target: [f64; 4], golden: [f64; 4]) -> Option<usize> {
        let [target, golden] = [target, golden].map(|numbers| numbers.map(Some));
        statistic_beside_sentinels([&target, &golden])
    }

    #[test]
    fn statistics_of_masked_scores_leave_one_end() {
        let masked = |max: f64, fill: f64| [max, fill, fill / 2.0, -fill * 8.0];
        assert_eq!(beside(masked(9.0, -1e9), masked(7.0, -1e9)), Some(0));
        let end = f64::from(f32::MIN);
        assert_eq!(beside(masked(9.0, end), masked(7.0, end)), Some(0));
        // The lowest number of bfloat16 in one run is that of float32 in the other.
        let coarse = DType::BF16.float_limits().expect("it is a float").max;
        assert_eq!(beside(masked(9.0, -coarse), masked(7.0, end)), Some(0));
        // A positive fill value leaves the smallest element.
        assert_eq!(beside([1e9, -3.0, 5e8, 8e9], [1e9, -4.0, 5e8, 8e9]), Some(1));
    }

    #[test]
    fn large_values_of_ordinary_tensors_are_no_sentinels() {
        // Different ones, one alone, one that is not far from the others, and small ones.
        assert_eq!(beside([9.0, -1e9, -1.0, 8e9], [9.0, -2e9, -1.0, 8e9]), None);
        assert_eq!(beside([9.0, -1e9, -1.0, 1e9], [9.0, -1e9, -1.0, 1e9]), None);
        assert_eq!(beside([1e8, -1e9, -1.0, 8e9], [1e8, -1e9, -1.0, 8e9]), None);
        assert_eq!(beside([0.1, -1e3, -1.0, 8e3], [0.1, -1e3, -1.0, 8e3]), None);
    }
}
