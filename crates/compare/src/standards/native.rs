//! Whether the own error of a call is more than rounding explains.
//!
//! A healthy kernel rounds its result, and adds up terms in float32 or better. So its error is some roundings of the
//! terms: `own_error(unit, terms)` of the native verdicts, at the size of what was added up. No model of the operation
//! is needed for that size, since moved references show it.

use ulpscope_kernels::{ReplayErrors, ReplayReference, ShapeMismatch, replay_errors};
use ulpscope_tensor::{DType, View};

use super::CheckStatus;
use crate::native::expectation::rounding::{own_error, unit_roundoff};

/// An error up to this many times what rounding explains is no finding. The native verdicts have the same factor.
const ALLOWED: f64 = 3.0;

/// A single element of an ordinary error lies within this many standard deviations.
const ELEMENT_SPREAD: f64 = 6.0;

/// The own error of a call: its result against the same call in raised precision.
#[derive(Clone, Copy, Debug)]
pub struct OwnError {
    errors: ReplayErrors,
    dtype: DType,
    /// The roundoff of what the call computes in.
    unit: f64,
    /// Terms that are added up for an element.
    terms: f64,
}

/// What rounding says about an own error.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnErrorJudgement {
    /// Whether it is too large.
    pub status: CheckStatus,
    /// The error relative to the reference (L2).
    pub error: f64,
    /// What rounding explains, in the same unit.
    pub floor: f64,
    /// How many times what rounding explains the error is: as a whole, or of the worst element.
    pub ratio: f64,
    /// Why, in words.
    pub message: String,
    /// The largest errors that pass, absolute: of the whole tensor (L2), and of one element.
    pub limits: [f64; 2],
}

/// How a call computes.
#[derive(Clone, Copy, Debug)]
pub struct Computation {
    /// How many terms an element is added up from.
    pub terms: f64,
    /// The coarsest dtype among its tensors, if that is coarser than its result: a gradient of float32 may have been
    /// computed in bfloat16.
    pub coarsest: Option<DType>,
}

/// Measures the own error of a call.
pub fn own_error_of(
    result: &View<'_>,
    reference: ReplayReference<'_>,
    computation: Computation,
) -> Result<OwnError, ShapeMismatch> {
    let own = unit_roundoff(result.dtype());
    // Exact results stay exact, whatever they were computed from.
    let unit = if own == 0.0 { 0.0 } else { own.max(computation.coarsest.map_or(0.0, unit_roundoff)) };
    let errors = replay_errors(result, reference)?;
    Ok(OwnError { errors, dtype: result.dtype(), unit, terms: computation.terms })
}

impl OwnError {
    /// The error relative to the reference (L2).
    pub fn relative(&self) -> f64 {
        relative(self.errors.error(), self.errors.norm())
    }

    /// What rounding explains: of the whole tensor, and of one element.
    fn floors(&self) -> [f64; 2] {
        let errors = &self.errors;
        let own = own_error(self.unit, self.terms);
        let natural = errors.natural().max(errors.norm());
        let spread = (errors.count.max(1) as f64).sqrt();
        // Numbers near zero have no more digits than the dtype leaves them.
        let least = self.dtype.float_limits().map_or(0.0, |limits| match self.dtype {
            DType::F16 => limits.min_positive,
            _ => limits.min_positive * 2f64.powi(limits.mantissa_bits as i32),
        });
        [own * natural + least * spread, own * errors.largest.max(ELEMENT_SPREAD * natural / spread) + least]
    }

    /// How many times what rounding explains.
    pub fn ratio(&self) -> f64 {
        let [whole, element] = self.floors();
        let times = |error: f64, floor: f64| if error == 0.0 { 0.0 } else { error / floor };
        times(self.errors.error(), whole).max(times(self.errors.peak, element))
    }

    /// Judges it. `peer` is the own error of the same call on a healthy device, in the same dtype.
    pub fn judge(&self, peer: Option<&OwnError>) -> OwnErrorJudgement {
        let errors = &self.errors;
        let ratio = self.ratio();
        let floor = relative(self.floors()[0], errors.norm());
        let judged = |status: CheckStatus, message: String| OwnErrorJudgement {
            status,
            error: self.relative(),
            floor,
            ratio: if errors.mismatched > 0 { f64::INFINITY } else { ratio },
            message,
            limits: self.floors().map(|floor| ALLOWED * floor),
        };
        if errors.mismatched > 0 {
            let at = errors.worst_index.unwrap_or(0);
            let message = format!(
                "{} of {} elements are NaN or infinite on one side only, the first at {at}",
                errors.mismatched,
                errors.count + errors.mismatched
            );
            let is_peers = peer.is_some_and(|peer| peer.errors.mismatched >= errors.mismatched);
            return judged(if is_peers { CheckStatus::Warning } else { CheckStatus::Error }, message);
        }
        let left_out = match errors.undecided {
            0 => String::new(),
            count => format!("; {count} elements that no precision decides are left out"),
        };
        if ratio <= ALLOWED {
            let left_out = left_out.trim_start_matches("; ").to_owned();
            return judged(CheckStatus::Pass, left_out);
        }
        let times = short(ratio);
        if self.dtype.float_limits().is_none() {
            return judged(CheckStatus::Error, format!("exact values differ{left_out}"));
        }
        let is_peers = peer.is_some_and(|peer| {
            let within = |own: f64, peer: f64| own <= ALLOWED * peer;
            within(errors.error(), peer.errors.error()) && within(errors.peak, peer.errors.peak)
        });
        if is_peers {
            let why = "the same call on this machine has an error of that size too";
            return judged(
                CheckStatus::Warning,
                format!("{times} x what rounding explains, but {why}{left_out}"),
            );
        }
        judged(CheckStatus::Error, format!("{times} x what rounding explains{left_out}"))
    }
}

/// The relative size; an error where the reference is zero is relative to 1.
fn relative(error: f64, norm: f64) -> f64 {
    if norm > 0.0 { error / norm } else { error }
}

fn short(ratio: f64) -> String {
    if ratio < 100.0 { format!("{ratio:.1}") } else { ulpscope_report::format_short(ratio) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes32(values: impl Iterator<Item = f32>) -> Vec<u8> {
        values.flat_map(f32::to_le_bytes).collect()
    }

    fn bytes64(values: impl Iterator<Item = f64>) -> Vec<u8> {
        values.flat_map(f64::to_le_bytes).collect()
    }

    fn judge(result: &[f32], exact: &[f64], natural: Option<f64>) -> OwnErrorJudgement {
        judge_in(None, result, exact, natural)
    }

    fn judge_in(
        coarsest: Option<DType>,
        result: &[f32],
        exact: &[f64],
        natural: Option<f64>,
    ) -> OwnErrorJudgement {
        let (one, other) = (bytes32(result.iter().copied()), bytes64(exact.iter().copied()));
        let result = View::contiguous(DType::F32, vec![result.len()], &one).expect("a view");
        let reference = View::contiguous(DType::F64, vec![exact.len()], &other).expect("a view");
        let shift = 1e-9;
        let moved = natural.map(|size| {
            [1.0, 1.0 / 16.0].map(|part| bytes64(exact.iter().map(|value| value + size * part * shift)))
        });
        let moved = moved.as_ref().map(|moved| {
            moved
                .each_ref()
                .map(|bytes| View::contiguous(DType::F64, vec![exact.len()], bytes).expect("a view"))
        });
        let moved = moved.as_ref().map(|moved| moved.each_ref());
        let computation = Computation { terms: 1.0, coarsest };
        let reference = ReplayReference { exact: &reference, moved, shift };
        own_error_of(&result, reference, computation).expect("shapes").judge(None)
    }

    #[test]
    fn a_rounded_result_passes_and_a_wrong_one_does_not() {
        let exact: Vec<f64> = (1..100).map(|value| 1.0 / f64::from(value)).collect();
        let rounded: Vec<f32> = exact.iter().map(|&value| value as f32).collect();
        assert_eq!(judge(&rounded, &exact, None).status, CheckStatus::Pass);
        let scaled: Vec<f32> = rounded.iter().map(|value| value * 1.0001).collect();
        assert_eq!(judge(&scaled, &exact, None).status, CheckStatus::Error);
        let mut one = rounded.clone();
        one[50] *= 1.01;
        assert_eq!(judge(&one, &exact, None).status, CheckStatus::Error);
    }

    #[test]
    fn a_sum_that_cancels_is_judged_by_its_terms() {
        assert_eq!(judge(&[3e-7], &[1e-12], None).status, CheckStatus::Error);
        assert_eq!(judge(&[3e-7], &[1e-12], Some(5.0)).status, CheckStatus::Pass);
        assert_eq!(judge(&[3e-4], &[1e-12], Some(5.0)).status, CheckStatus::Error);
    }

    #[test]
    fn what_was_computed_in_a_coarser_dtype_has_its_errors() {
        let (result, exact) = ([1.003f32, 2.0], [1.0, 2.0]);
        assert_eq!(judge(&result, &exact, None).status, CheckStatus::Error);
        assert_eq!(judge_in(Some(DType::BF16), &result, &exact, None).status, CheckStatus::Pass);
        assert_eq!(judge_in(Some(DType::F64), &result, &exact, None).status, CheckStatus::Error);
    }

    #[test]
    fn a_nan_of_one_side_is_an_error() {
        let found = judge(&[f32::NAN, 1.0], &[1.0, 1.0], None);
        assert_eq!(found.status, CheckStatus::Error);
        assert!(found.message.starts_with("1 of 2 elements are NaN"), "{}", found.message);
    }
}
