//! The result of a call against the same call computed again in raised precision.
//!
//! Two more tensors of the raised precision may be given: the reference computed from inputs that were moved
//! relatively by a tiny `shift`, and by a sixteenth of it. They show how far rounding of the inputs reaches:
//!
//! - Where the result moves in proportion, `|moved - reference| / shift` is the size of what was added up for it. That
//!   may be far larger than the result itself, as in a sum that nearly cancels.
//! - Where it moves as far for a sixteenth of the shift, it jumps: two equal candidates of a maximum, a rounding at a
//!   tie. No precision decides such an element, so it is counted and left out.

use std::ops::Range;

use ulpscope_tensor::{DType, View};

use crate::blocks::{BLOCK, Threads, over_spans};
use crate::compare::ShapeMismatch;
use crate::decoded::Decoded;
use crate::float_env::DefaultFloatEnv;

/// The second shift is this part of the first.
const SMALLER: f64 = 16.0;

/// A jump moves at least this share of the element, so that rounding noise of the raised precision is none.
const LEAST_JUMP: f64 = 1.0 / (1 << 26) as f64;

/// What a result is measured against.
#[derive(Clone, Copy, Debug)]
pub struct ReplayReference<'a> {
    /// The call in raised precision.
    pub exact: &'a View<'a>,
    /// The same from inputs that were moved by [`ReplayReference::shift`], and by a sixteenth of it.
    pub moved: Option<[&'a View<'a>; 2]>,
    /// The relative size of the first movement.
    pub shift: f64,
}

/// The error of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplayErrors {
    /// Elements that were measured: finite on both sides.
    pub count: u64,
    /// Elements that jump, and were left out.
    pub undecided: u64,
    /// Elements that are not finite on one side only, or in different ways.
    pub mismatched: u64,
    /// Elements that have the largest finite value of the dtype where the reference exceeds its range.
    pub saturated: u64,
    /// Elements that are infinite where the reference exceeds the range of the dtype.
    pub out_of_range: u64,
    /// Row-major position of the first mismatch, or else of the largest error.
    pub worst_index: Option<u64>,
    /// Largest absolute error.
    pub peak: f64,
    /// Largest absolute value of the reference.
    pub largest: f64,
    squares: [f64; 3],
    first_mismatch: Option<u64>,
}

impl ReplayErrors {
    /// L2 norm of the error.
    pub fn error(&self) -> f64 {
        self.squares[0].sqrt()
    }

    /// L2 norm of the reference.
    pub fn norm(&self) -> f64 {
        self.squares[1].sqrt()
    }

    /// L2 norm of what was added up for the result; zero if nothing was moved.
    pub fn natural(&self) -> f64 {
        self.squares[2].sqrt()
    }

    fn add(self, more: ReplayErrors) -> ReplayErrors {
        let first_mismatch = self.first_mismatch.or(more.first_mismatch);
        let larger = if more.peak > self.peak { more.worst_index } else { self.worst_index };
        ReplayErrors {
            count: self.count + more.count,
            undecided: self.undecided + more.undecided,
            mismatched: self.mismatched + more.mismatched,
            saturated: self.saturated + more.saturated,
            out_of_range: self.out_of_range + more.out_of_range,
            worst_index: first_mismatch.or(larger),
            peak: self.peak.max(more.peak),
            largest: self.largest.max(more.largest),
            squares: std::array::from_fn(|at| self.squares[at] + more.squares[at]),
            first_mismatch,
        }
    }
}

/// The error of a result, element by element. Complex tensors are given as tensors of their parts.
pub fn replay_errors(
    result: &View<'_>,
    reference: ReplayReference<'_>,
) -> Result<ReplayErrors, ShapeMismatch> {
    let others =
        [Some(reference.exact), reference.moved.map(|moved| moved[0]), reference.moved.map(|moved| moved[1])];
    for other in others.into_iter().flatten() {
        if other.shape() != result.shape() {
            return Err(ShapeMismatch { target: result.shape().to_vec(), golden: other.shape().to_vec() });
        }
    }
    let range = Largest::of(result.dtype());
    let span = |elements: Range<usize>| {
        let _env = DefaultFloatEnv::enter();
        let mut all = ReplayErrors::default();
        let mut scratch = Decoded::<4>::default();
        for start in elements.clone().step_by(BLOCK) {
            let block = start..elements.end.min(start + BLOCK);
            let mut errors = ReplayErrors::default();
            let [found, exact, moved, less] =
                scratch.read([Some(result), others[0], others[1], others[2]], block);
            for at in 0..found.len() {
                let jump = moved.get(at).zip(less.get(at));
                if jump.is_some_and(|(&moved, &less)| is_jump(exact[at], moved, less)) {
                    errors.undecided += 1;
                    continue;
                }
                let is_measured = errors.see((start + at) as u64, found[at], exact[at], range);
                // What leaves the range of the dtype says nothing of the size of the others.
                if let Some(&moved) = moved.get(at)
                    && is_measured
                    && (moved - exact[at]).is_finite()
                {
                    let natural = (moved - exact[at]) / reference.shift;
                    errors.squares[2] += natural * natural;
                }
            }
            all = all.add(errors);
        }
        all
    };
    Ok(over_spans(result.len(), Threads::All, span, ReplayErrors::add))
}

impl ReplayErrors {
    /// Returns whether both are finite, so that their difference counts.
    fn see(&mut self, index: u64, found: f64, exact: f64, range: Largest) -> bool {
        let expected = range.rounded(exact);
        if found.is_finite() && expected.is_finite() {
            let error = (found - exact).abs();
            self.count += 1;
            self.largest = self.largest.max(exact.abs());
            if error > self.peak {
                self.peak = error;
                self.worst_index = Some(index);
            }
            self.squares[0] += error * error;
            self.squares[1] += exact * exact;
            return true;
        }
        let leaves_range = expected.is_infinite() && exact.is_finite();
        let same_sign = (found > 0.0) == (expected > 0.0);
        if found.is_finite() && leaves_range && same_sign && found.abs() == range.value {
            self.saturated += 1;
        } else if (found.is_nan() && expected.is_nan()) || found == expected {
            self.out_of_range += u64::from(leaves_range);
        } else {
            self.mismatched += 1;
            self.first_mismatch.get_or_insert(index);
        }
        false
    }
}

/// The largest finite value of a dtype.
#[derive(Clone, Copy)]
struct Largest {
    value: f64,
    has_infinity: bool,
}

impl Largest {
    fn of(dtype: DType) -> Largest {
        match dtype.float_limits() {
            Some(limits) => Largest { value: limits.max, has_infinity: true },
            None => Largest { value: f64::INFINITY, has_infinity: false },
        }
    }

    /// Infinite where the dtype is exceeded. The last half of a unit still rounds to the largest value; where kernels
    /// differ about it, both are accepted by the tolerance of a finite pair.
    fn rounded(self, exact: f64) -> f64 {
        if self.has_infinity && exact.abs() > self.value { exact.signum() * f64::INFINITY } else { exact }
    }
}

fn is_jump(exact: f64, moved: f64, less: f64) -> bool {
    if exact.is_finite() != moved.is_finite() || exact.is_finite() != less.is_finite() {
        return true;
    }
    let (far, near) = ((moved - exact).abs(), (less - exact).abs());
    // In proportion it would be a sixteenth; half way to that separates the two.
    far > LEAST_JUMP * exact.abs() && near > far / SMALLER.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64s(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn errors(result: &[f64], exact: &[f64], moved: Option<[&[f64]; 2]>) -> ReplayErrors {
        let bytes = [result, exact].map(f64s);
        let [result, exact] = bytes.each_ref().map(|bytes| view(bytes));
        let moved = moved.map(|moved| moved.map(f64s));
        let moved = moved.as_ref().map(|moved| moved.each_ref().map(|bytes| view(bytes)));
        let moved = moved.as_ref().map(|moved| moved.each_ref());
        replay_errors(&result, ReplayReference { exact: &exact, moved, shift: 1e-6 }).expect("equal shapes")
    }

    fn view(bytes: &[u8]) -> View<'_> {
        View::contiguous(DType::F64, vec![bytes.len() / 8], bytes).expect("a view")
    }

    #[test]
    fn a_sum_that_cancels_is_measured_by_its_terms() {
        let found = errors(&[1e-9], &[0.0], Some([&[3e-6], &[3e-6 / 16.0]]));
        assert_eq!((found.count, found.undecided, found.error()), (1, 0, 1e-9));
        assert!((found.natural() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_jumps_is_left_out() {
        let found = errors(&[5.0, 2.0], &[1.0, 2.0], Some([&[5.0, 2.000002], &[5.0, 2.000000125]]));
        assert_eq!((found.count, found.undecided, found.peak), (1, 1, 0.0));
        // A jump that a sixteenth of the shift does not reach is decided.
        let found = errors(&[5.0], &[1.0], Some([&[5.0], &[1.0]]));
        assert_eq!((found.count, found.peak), (1, 4.0));
    }

    #[test]
    fn overflow_that_the_reference_has_too_is_none() {
        // As float16: infinite, 65504, infinite, NaN, 1.
        let result: Vec<u8> =
            [0x7c00u16, 0x7bff, 0x7c00, 0x7e00, 0x3c00].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let exact = f64s(&[1e6, 1e6, 5.0, 1.0, f64::NAN]);
        let result = View::contiguous(DType::F16, vec![5], &result).expect("a view");
        let exact = view(&exact);
        let found = replay_errors(&result, ReplayReference { exact: &exact, moved: None, shift: 1.0 })
            .expect("shapes");
        assert_eq!((found.out_of_range, found.saturated, found.mismatched, found.count), (1, 1, 3, 0));
        assert_eq!(found.worst_index, Some(2));
    }

    #[test]
    fn what_leaves_the_range_does_not_hide_the_errors_of_others() {
        // 2 and infinity in float16.
        let halves: Vec<u8> = [0x4000_u16, 0x7c00].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let exact = [2.0, 1e9];
        let moved = exact.map(|value| value * (1.0 + 1e-9));
        let less = exact.map(|value| value * (1.0 + 1e-9 / 16.0));
        let [exact, moved, less] = [exact, moved, less].map(|values| f64s(&values));
        let [exact, moved, less] = [view(&exact), view(&moved), view(&less)];
        let result = View::contiguous(DType::F16, vec![2], &halves).expect("a view");
        let reference = ReplayReference { exact: &exact, moved: Some([&moved, &less]), shift: 1e-9 };
        let found = replay_errors(&result, reference).expect("equal shapes");
        assert_eq!((found.count, found.out_of_range), (1, 1));
        assert!(found.natural() < 3.0, "{}", found.natural());
    }

    #[test]
    fn shapes_must_be_equal() {
        let (one, two) = (f64s(&[1.0]), f64s(&[1.0, 2.0]));
        let reference = ReplayReference { exact: &view(&two), moved: None, shift: 1.0 };
        assert!(replay_errors(&view(&one), reference).is_err());
    }
}
