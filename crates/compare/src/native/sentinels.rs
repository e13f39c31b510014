//! Sentinels: the fill values of masks (`finfo.min`, -1e9), which are so large that nothing beside them counts.
//!
//! An element is a sentinel if it has the extreme value of its tensor, at the same places on both sides, two or more of them,
//! and if that value is at least 1e4 and 1,000 times as large as every other element. The extreme values have to be the same
//! on both sides, or on each the largest finite value of its dtype.

use ulpscope_formats::Tensor;
use ulpscope_kernels::{Comparison, Rest, Threads, rest, stats};
use ulpscope_tensor::DType;

use super::measure::{Numbers, numbers_of};
use crate::reading;

/// No smaller value is used to hide an element.
const LEAST: f64 = 1e4;

/// How many times as large as everything else it is.
const GAP: f64 = 1e3;

/// Two tensors without their sentinels; nothing where they have none.
pub(super) fn without_sentinels(
    tensors: (&Tensor, &Tensor),
    recorded: [&Numbers; 2],
    comparison: &Comparison,
) -> Option<Rest> {
    let target = extreme(tensors.0, recorded[0], comparison)?;
    let golden = extreme(tensors.1, recorded[1], comparison)?;
    let is_end = |tensor: &Tensor, value: f64| largest_finite(tensor.dtype()) == Some(value.abs());
    let are_ends = is_end(tensors.0, target) && is_end(tensors.1, golden);
    if target != golden && !(are_ends && target.signum() == golden.signum()) {
        return None;
    }
    let views = (tensors.0.view(), tensors.1.view());
    let measured =
        reading::read(tensors.0, tensors.1, |reading| rest(&views.0, &views.1, (target, golden), reading));
    let is_far = |rest: &Rest| rest.largest * GAP <= target.abs().min(golden.abs());
    measured.ok().filter(|rest| rest.one_sided == 0 && rest.left_out >= 2 && is_far(rest))
}

/// The end of a tensor's values that may be a sentinel: far from 0, and from the other end.
fn extreme(tensor: &Tensor, recorded: &Numbers, comparison: &Comparison) -> Option<f64> {
    let computed;
    let [max, min, ..] = match recorded {
        [Some(_), Some(_), ..] => recorded,
        // Only a tensor with a large norm has a large element.
        _ if comparison.distances.euclid >= LEAST * comparison.distances.rel_l2 => {
            computed = numbers_of(&stats(&tensor.view(), Threads::One));
            &computed
        }
        _ => return None,
    };
    let (max, min) = ((*max)?, (*min)?);
    let (far, near) = if max.abs() > min.abs() { (max, min) } else { (min, max) };
    // All elements may have one value, as those of a mask that hides everything.
    let is_apart = near.abs() * GAP <= far.abs() || near == far;
    (far.is_finite() && far.abs() >= LEAST && is_apart).then_some(far)
}

fn largest_finite(dtype: DType) -> Option<f64> {
    dtype.float_limits().filter(|_| dtype.is_float()).map(|limits| limits.max)
}
