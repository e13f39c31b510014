//! The numbers by which msprobe's accuracy checker judges the result of an API, in one pass.
//!
//! Its rules know two kinds of elements. Small ones, whose reference is at most [`StandardLimits::small`], are judged by
//! their absolute error; the others by their relative error.

use std::ops::Range;

use ulpscope_tensor::{DType, View};

use crate::blocks::{BLOCK, Threads, over_spans};
use crate::compare::ShapeMismatch;
use crate::decoded::Decoded;
use crate::float_env::DefaultFloatEnv;

/// The constants of the tool for one dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandardLimits {
    /// Added to the reference before dividing by it.
    pub eps: f64,
    /// The largest reference of a small element.
    pub small: f64,
    /// The absolute error that a small element may have: in the benchmark standard, and in that of thresholds.
    pub small_error: [f64; 2],
    /// The relative error that other elements may have.
    pub relative: f64,
    /// Units in the last place above which an element counts.
    pub ulp: f64,
    /// The exponent of the smallest normal number, and the bits after the point.
    pub exponents: (i32, i32),
}

/// The measurements. Shares are of all elements unless their name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StandardErrors {
    /// Elements.
    pub count: u64,
    /// Elements whose relative error is under 1/100, 1/1000, 1/10000.
    pub under: [u64; 3],
    /// Elements that differ from the reference rounded to their dtype.
    pub different: u64,
    /// Elements above and below the reference.
    pub sides: [u64; 2],
    /// Small elements, and how many of them exceed each of [`StandardLimits::small_error`].
    pub small: u64,
    /// See above.
    pub small_over: [u64; 2],
    /// Elements that are neither small nor infinite nor NaN, and how many of them exceed the relative limit.
    pub normal: u64,
    /// See above.
    pub normal_over: u64,
    /// Elements that are infinite or NaN on a side, and how many of them differ.
    pub non_finite: u64,
    /// See above.
    pub non_finite_over: u64,
    /// The largest relative error of normal elements.
    pub max_relative: f64,
    /// The largest error in units in the last place.
    pub max_ulp: f64,
    /// Elements over [`StandardLimits::ulp`].
    pub ulp_over: u64,
    relative_sum: f64,
    ulp_sum: f64,
    squares: f64,
}

impl StandardErrors {
    /// The mean relative error of normal elements.
    pub fn mean_relative(&self) -> f64 {
        if self.normal == 0 { 0.0 } else { self.relative_sum / self.normal as f64 }
    }

    /// The mean error in units in the last place.
    pub fn mean_ulp(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.ulp_sum / self.count as f64 }
    }

    /// The root of the mean square of the errors of finite elements.
    pub fn rmse(&self) -> f64 {
        let finite = self.count - self.non_finite;
        if finite == 0 { 0.0 } else { (self.squares / finite as f64).sqrt() }
    }

    fn add(self, more: StandardErrors) -> StandardErrors {
        StandardErrors {
            count: self.count + more.count,
            under: std::array::from_fn(|at| self.under[at] + more.under[at]),
            different: self.different + more.different,
            sides: std::array::from_fn(|at| self.sides[at] + more.sides[at]),
            small: self.small + more.small,
            small_over: std::array::from_fn(|at| self.small_over[at] + more.small_over[at]),
            normal: self.normal + more.normal,
            normal_over: self.normal_over + more.normal_over,
            non_finite: self.non_finite + more.non_finite,
            non_finite_over: self.non_finite_over + more.non_finite_over,
            max_relative: self.max_relative.max(more.max_relative),
            max_ulp: self.max_ulp.max(more.max_ulp),
            ulp_over: self.ulp_over + more.ulp_over,
            relative_sum: self.relative_sum + more.relative_sum,
            ulp_sum: self.ulp_sum + more.ulp_sum,
            squares: self.squares + more.squares,
        }
    }
}

/// Measures a result against its reference. Complex tensors are given as tensors of their parts.
pub fn standard_errors(
    result: &View<'_>,
    reference: &View<'_>,
    limits: StandardLimits,
) -> Result<StandardErrors, ShapeMismatch> {
    if result.shape() != reference.shape() {
        return Err(ShapeMismatch { target: result.shape().to_vec(), golden: reference.shape().to_vec() });
    }
    let rounding = Rounding::to(result.dtype());
    let span = |elements: Range<usize>| {
        let _env = DefaultFloatEnv::enter();
        let mut all = StandardErrors::default();
        let mut scratch = Decoded::<2>::default();
        for start in elements.clone().step_by(BLOCK) {
            let block = start..elements.end.min(start + BLOCK);
            let mut errors = StandardErrors::default();
            let [found, exact] = scratch.read([Some(result), Some(reference)], block);
            for (&found, &exact) in found.iter().zip(exact) {
                errors.see(found, exact, rounding, &limits);
            }
            all = all.add(errors);
        }
        all
    };
    Ok(over_spans(result.len(), Threads::All, span, StandardErrors::add))
}

impl StandardErrors {
    fn see(&mut self, found: f64, exact: f64, rounding: Rounding, limits: &StandardLimits) {
        self.count += 1;
        let rounded = rounding.round(exact);
        let is_same = found == rounded || (found.is_nan() && rounded.is_nan());
        self.different += u64::from(!is_same);
        let error = (found - exact).abs();
        let relative = error / (exact.abs() + limits.eps);
        // A comparison with NaN is false: such an element is under no limit.
        for (under, limit) in self.under.iter_mut().zip([0.01, 0.001, 0.0001]) {
            *under += u64::from(relative < limit);
        }
        self.sides[0] += u64::from(found > rounded);
        self.sides[1] += u64::from(found < rounded);
        if !found.is_finite() || !rounded.is_finite() {
            self.non_finite += 1;
            let clipped = (rounding.clip(found) - rounding.clip(rounded)).abs() / (exact.abs() + limits.eps);
            self.non_finite_over += u64::from(!(is_same || clipped <= limits.relative));
            return;
        }
        self.squares += error * error;
        let ulp = error * 2f64.powi(limits.exponents.1 - exponent(exact).max(limits.exponents.0));
        self.max_ulp = self.max_ulp.max(ulp);
        self.ulp_sum += ulp;
        self.ulp_over += u64::from(ulp > limits.ulp);
        if exact.abs() <= limits.small {
            self.small += 1;
            for (over, limit) in self.small_over.iter_mut().zip(limits.small_error) {
                *over += u64::from(error > limit);
            }
        } else {
            self.normal += 1;
            self.normal_over += u64::from(relative > limits.relative);
            self.max_relative = self.max_relative.max(relative);
            self.relative_sum += relative;
        }
    }
}

/// The exponent of a finite number: 0 for zero, as in the tool.
fn exponent(value: f64) -> i32 {
    let biased = (value.to_bits() >> 52 & 0x7ff) as i32;
    match biased {
        _ if value == 0.0 => 0,
        0 => -1023,
        biased => biased - 1023,
    }
}

/// Rounds doubles to a dtype, to the nearest, ties to even.
#[derive(Clone, Copy)]
struct Rounding {
    /// Bits after the point, the smallest positive number, and the largest finite one; nothing for exact dtypes.
    limits: Option<(u32, f64, f64)>,
}

impl Rounding {
    fn to(dtype: DType) -> Rounding {
        Rounding {
            limits: dtype
                .float_limits()
                .map(|limits| (limits.mantissa_bits, limits.min_positive, limits.max)),
        }
    }

    fn round(self, exact: f64) -> f64 {
        let Some((bits, smallest, largest)) = self.limits else { return exact };
        if !exact.is_finite() || exact == 0.0 {
            return exact;
        }
        // The distance of neighbours, at least that of subnormal numbers.
        let step = 2f64.powi(exponent(exact) - bits as i32).max(smallest);
        let rounded = if step > 0.0 { (exact / step).round_ties_even() * step } else { exact };
        if rounded.abs() > largest { exact.signum() * f64::INFINITY } else { rounded }
    }

    fn clip(self, value: f64) -> f64 {
        self.limits.map_or(value, |(_, _, largest)| value.clamp(-largest, largest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StandardLimits = StandardLimits {
        eps: 0.0,
        small: 1e-3,
        small_error: [1e-9, 1e-6],
        relative: 1e-4,
        ulp: 32.0,
        exponents: (-126, 23),
    };

    fn measure(result: &[f32], exact: &[f64]) -> StandardErrors {
        let result: Vec<u8> = result.iter().flat_map(|value| value.to_le_bytes()).collect();
        let exact: Vec<u8> = exact.iter().flat_map(|value| value.to_le_bytes()).collect();
        let result = View::contiguous(DType::F32, vec![result.len() / 4], &result).expect("a view");
        let exact = View::contiguous(DType::F64, vec![exact.len() / 8], &exact).expect("a view");
        standard_errors(&result, &exact, LIMITS).expect("equal shapes")
    }

    #[test]
    fn small_elements_are_judged_by_their_absolute_error() {
        let found = measure(&[1e-4 + 1e-7, 1.0, 1.001, 2.0], &[1e-4, 1.0, 1.0, 2.0]);
        assert_eq!((found.small, found.small_over, found.normal, found.normal_over), (1, [1, 0], 3, 1));
        assert!((found.max_relative - 1e-3).abs() < 1e-6);
        assert_eq!((found.different, found.sides), (2, [2, 0]));
    }

    #[test]
    fn units_are_those_of_the_reference() {
        let found = measure(&[1.0 + 3.0 * f32::EPSILON, f32::from_bits(2)], &[1.0, 0.0]);
        assert!((found.max_ulp - 3.0).abs() < 1e-6);
        assert_eq!(found.ulp_over, 0);
    }

    #[test]
    fn infinities_agree_with_what_leaves_the_range() {
        let found = measure(&[f32::INFINITY, f32::NAN, 1.0, f32::MAX], &[1e39, f64::NAN, f64::NAN, 1e39]);
        assert_eq!((found.non_finite, found.non_finite_over), (4, 1));
    }

    #[test]
    fn rounding_is_that_of_the_processor() {
        let rounding = Rounding::to(DType::F32);
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // All exponents of a float32, subnormal numbers included.
            let exact = f64::from_bits(state) % 1.0 * 2f64.powi((state >> 50) as i32 % 300 - 160);
            if exact.is_finite() {
                assert_eq!(rounding.round(exact), f64::from(exact as f32), "{exact:e}");
            }
        }
    }
}
