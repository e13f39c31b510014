//! The loop over one block of pairs, in the older tools' arithmetic.

use super::half::round_to_f16;
use crate::compare::loops::SHARE_LIMITS;
use crate::compare::pair::{Packed, Width};
use crate::lanes::{self, LANES, Source, count, each_pair, fold, larger, sum};
use crate::level::Kernel;

/// Sums, maxima and counts over a range of pairs; merged in order.
pub(super) struct Running {
    pub(super) mismatched: bool,
    pub(super) has_nan: bool,
    pub(super) max_rel: f64,
    pub(super) under: [u64; 2],
    pub(super) max_abs: f64,
    pub(super) dot: f64,
    pub(super) target_squares: f64,
    pub(super) golden_squares: f64,
    pub(super) difference_squares: f64,
}

impl Running {
    pub(super) fn none() -> Running {
        Running {
            mismatched: false,
            has_nan: false,
            max_rel: 0.0,
            under: [0; 2],
            max_abs: 0.0,
            dot: 0.0,
            target_squares: 0.0,
            golden_squares: 0.0,
            difference_squares: 0.0,
        }
    }

    pub(super) fn add(&mut self, next: Running) {
        self.mismatched |= next.mismatched;
        self.has_nan |= next.has_nan;
        self.max_rel = larger(self.max_rel, next.max_rel);
        self.under[0] += next.under[0];
        self.under[1] += next.under[1];
        self.max_abs = larger(self.max_abs, next.max_abs);
        self.dot += next.dot;
        self.target_squares += next.target_squares;
        self.golden_squares += next.golden_squares;
        self.difference_squares += next.difference_squares;
    }

    pub(super) fn merge(mut self, next: Running) -> Running {
        self.add(next);
        self
    }
}

/// A float that lanes compute in.
pub(super) trait Value: Width {
    type Source: Source<Value = Self>;
    /// Two decoded blocks to walk.
    fn packed<'a>(target: &'a [u8], golden: &'a [u8]) -> Packed<'a, Self::Source>;
    /// The nearest value.
    fn nearest(value: f64) -> Self;
    /// Rounds to a float of this many bits, no wider than this one.
    fn round<const BITS: u32>(self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
}

macro_rules! value {
    ($float:ident, $source:ident, |$value:ident, $bits:ident| $round:expr) => {
        impl Value for $float {
            type Source = lanes::$source;
            fn packed<'a>(target: &'a [u8], golden: &'a [u8]) -> Packed<'a, lanes::$source> {
                Packed { source: lanes::$source, target, golden }
            }
            #[inline(always)]
            fn nearest(value: f64) -> $float {
                value as $float
            }
            #[inline(always)]
            fn round<const BITS: u32>(self) -> $float {
                let ($value, $bits) = (self, BITS);
                $round
            }
            #[inline(always)]
            fn plus(self, other: $float) -> $float {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: $float) -> $float {
                self - other
            }
            #[inline(always)]
            fn over(self, other: $float) -> $float {
                self / other
            }
        }
    };
}

value!(f32, F32, |value, bits| if bits == 16 { round_to_f16(value) } else { value });
value!(f64, F64, |value, bits| match bits {
    16 => round_to_f16(value as f32).into(),
    32 => f64::from(value as f32),
    _ => value,
});

/// The loop. `TARGET` and `RESULT` are the bits to which target plus epsilon, and difference and quotient, are
/// rounded. `FOR_GOOD` keeps epsilon in both sides for the other errors; `UNMASKED` computes the relative error
/// before non-finite elements are set to zero.
pub(super) struct Loop<
    'a,
    T: Value,
    const TARGET: u32,
    const RESULT: u32,
    const FOR_GOOD: bool,
    const UNMASKED: bool,
> {
    pub(super) pairs: Packed<'a, T::Source>,
    pub(super) epsilon: f64,
}

impl<T: Value, const TARGET: u32, const RESULT: u32, const FOR_GOOD: bool, const UNMASKED: bool> Kernel
    for Loop<'_, T, TARGET, RESULT, FOR_GOOD, UNMASKED>
{
    type Output = Running;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Running {
        let epsilon = T::nearest(self.epsilon);
        let limits = SHARE_LIMITS.map(|limit| T::nearest(limit).round::<RESULT>());
        let mut mismatched = [0u32; LANES];
        let mut nan = [0u32; LANES];
        let mut under_0 = [0u32; LANES];
        let mut under_1 = [0u32; LANES];
        let mut max_rel = [T::ZERO; LANES];
        let mut max_abs = [0.0; LANES];
        let mut dot = [0.0; LANES];
        let mut target_squares = [0.0; LANES];
        let mut golden_squares = [0.0; LANES];
        let mut difference_squares = [0.0; LANES];
        let Packed { source, target, golden } = self.pairs;
        each_pair::<_, FMA>(
            source,
            target,
            golden,
            #[inline(always)]
            |lane, a, b| {
                let finite = a.is_finite() & b.is_finite();
                let agree = (a.is_nan() == b.is_nan()) & (a.is_finite() == b.is_finite());
                mismatched[lane] |= u32::from(!agree);
                let (masked_a, masked_b) = if finite { (a, b) } else { (T::ZERO, T::ZERO) };
                let (a, b) = if UNMASKED { (a, b) } else { (masked_a, masked_b) };
                // A zero of either sign plus epsilon is epsilon.
                let lifted = a.plus(epsilon).round::<TARGET>();
                let zero = b == T::ZERO;
                let (a, b) = if zero { (lifted, epsilon) } else { (a, b) };
                let rel = a.minus(b).round::<RESULT>().over(b).round::<RESULT>().abs();
                nan[lane] |= u32::from(rel.is_nan());
                max_rel[lane] = larger(max_rel[lane], rel);
                under_0[lane] += u32::from(rel < limits[0]);
                under_1[lane] += u32::from(rel < limits[1]);
                let kept = if FOR_GOOD & (finite | !UNMASKED) { (a, b) } else { (masked_a, masked_b) };
                let (wide_a, wide_b) = (kept.0.widen(), kept.1.widen());
                let difference = (wide_a - wide_b).abs();
                max_abs[lane] = larger(max_abs[lane], difference);
                dot[lane] += wide_a * wide_b;
                target_squares[lane] += wide_a * wide_a;
                golden_squares[lane] += wide_b * wide_b;
                difference_squares[lane] += difference * difference;
            },
        );
        Running {
            mismatched: count(mismatched) > 0,
            has_nan: count(nan) > 0,
            max_rel: fold(max_rel, larger).widen(),
            under: [count(under_0), count(under_1)],
            max_abs: fold(max_abs, larger),
            dot: sum(dot),
            target_squares: sum(target_squares),
            golden_squares: sum(golden_squares),
            difference_squares: sum(difference_squares),
        }
    }
}
