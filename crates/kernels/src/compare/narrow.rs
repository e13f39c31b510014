//! The lean loop over one block of pairs that are exact in f32.
//!
//! Sums are computed in f64. If only distances are requested, shares and maxima are estimated in f32,
//! sixteen to a register. If an estimate could decide the result, the block, which is still in the first-level
//! cache, is measured again in f64. The results are those of f64 throughout.
//!
//! If errors are requested, the same loop sums them: the pass is limited by arithmetic, and a second loop would
//! widen and subtract again. It then has the quotients in f64, and takes the maxima from them, and for 32-bit pairs
//! also the shares. Those of 16-bit pairs come from products in f32, and so do estimates about the tolerance.
//!
//! Estimates of 16-bit pairs are better than that. If all relative errors of a block are under 1/2, the f32 difference
//! of two is exact and has no more bits than they have. Different quotients of numbers with at most 11 bits differ by
//! 2^-22 or more of their size, so f32 quotients have the order of the exact ones, and tie where those do.

use super::exponents::Exponents;
use super::loops::{ErrorSums, SHARE_LIMITS, Sums};
use super::pair::Packed;
use super::thresholds::{Estimates, RunningEstimates, Thresholds};
use super::ulp::{self, UlpDistance};
use crate::blocks::BLOCK;
use crate::lanes::{LANES, Lanes, Source, count, each_pair_group, fold, larger, smaller, sum};
use crate::level::{Kernel, add_exact_product, align_frame};

/// A relative error estimated in f32 (a rounded difference, a rounded quotient) differs by less than this many
/// units in its last place. Two roundings and that of the limit itself make three.
const ESTIMATE_ULPS: u32 = 8;

/// The same as a share of the estimate.
const ESTIMATE_ERROR: f64 = ESTIMATE_ULPS as f64 * f32::EPSILON as f64;

/// The magnitude of an f32, as bits.
const MAGNITUDE: u32 = u32::MAX >> 1;

const INFINITY: u32 = f32::INFINITY.to_bits();

const HALF: u32 = 0.5f32.to_bits();

/// The inverse of [`SHARE_LIMITS`], a little above: a relative error of two 16-bit floats that is not equal to a limit
/// is 2^-12 or more away from it, and one that is equal must not be under it.
const OVER_LIMITS: [f32; 2] = [1000.0 * (1.0 + 1.0 / 8192.0), 200.0 * (1.0 + 1.0 / 8192.0)];

/// The results of the lean loop for one block of narrow pairs.
pub(super) struct NarrowBlock {
    pub(super) sums: Sums,
    pub(super) maxima: Maxima,
    pub(super) has_zero_golden: bool,
    /// The smallest magnitude in golden; only computed together with exponents, or where zeros are expected.
    pub(super) least_golden: f32,
    pub(super) under: [u64; 2],
    /// Some estimate is too close to the limit of a share to decide.
    pub(super) unsure: bool,
    /// All zero if not requested.
    pub(super) errors: ErrorSums,
    /// Distances of both sides as f32; nothing if not requested.
    pub(super) ulp: UlpDistance,
    /// Only for 16-bit pairs, with errors.
    pub(super) estimates: Option<Estimates>,
}

/// The largest differences of a block.
pub(super) struct Maxima {
    pub(super) abs: f64,
    pub(super) rel: f64,
    /// Nothing is estimated.
    pub(super) exact: bool,
    /// The largest absolute difference among those that may not be exact.
    rounded_abs: f64,
    /// An estimated quotient is larger than another only if the exact one is.
    pub(super) ordered: bool,
}

impl Maxima {
    /// An upper bound of the absolute differences.
    pub(super) fn abs_at_most(&self) -> f64 {
        if self.exact { self.abs } else { self.abs * (1.0 + ESTIMATE_ERROR) }
    }

    /// An upper bound of the absolute differences, without those that are exact.
    pub(super) fn rounded_abs_at_most(&self) -> f64 {
        self.rounded_abs * (1.0 + ESTIMATE_ERROR)
    }

    /// An upper bound of the relative differences.
    pub(super) fn rel_at_most(&self) -> f64 {
        if self.exact { self.rel } else { self.rel * (1.0 + ESTIMATE_ERROR) }
    }
}

impl NarrowBlock {
    /// Whether the loop found an unexpected zero golden. A quotient was then infinite, or NaN, which
    /// as an integer is larger still and stays in a sum. The block must be measured again.
    pub(super) fn met_zero_golden(&self) -> bool {
        !(self.maxima.rel.is_finite() && self.errors.rel.is_finite())
    }

    /// Squares of finite f32 cannot overflow in f64, so finite sums mean finite elements.
    pub(super) fn is_finite(&self) -> bool {
        self.sums.target_squares.is_finite() && self.sums.golden_squares.is_finite()
    }
}

/// The loop. Magnitudes are compared as integers, which have the order of their floats and twice the execution
/// units. `ZEROS` says that zeros are expected in golden: they cost a tenth.
pub(super) struct Narrow<'a, S, const ZEROS: bool> {
    pub(super) pairs: Packed<'a, S>,
}

/// The loop with errors. Without `SHARES` it is for a block whose pairs are all likely to be under the limits of the
/// shares: the largest relative error shows whether they are.
pub(super) struct NarrowErrors<'a, S, const ZEROS: bool, const SHARES: bool> {
    pub(super) pairs: Packed<'a, S>,
    pub(super) thresholds: Thresholds,
}

/// The loop with errors that also stores the exponents of the differences.
pub(super) struct NarrowExponents<'a, S, const ZEROS: bool> {
    pub(super) pairs: Packed<'a, S>,
    pub(super) thresholds: Thresholds,
    pub(super) exponents: &'a mut Exponents,
}

impl<S: Source<Value = f32>, const ZEROS: bool> Kernel for Narrow<'_, S, ZEROS> {
    type Output = NarrowBlock;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> NarrowBlock {
        measure::<S, FMA, ZEROS, false, true, false>(self.pairs, Thresholds::none(), &mut [])
    }
}

impl<S: Source<Value = f32>, const ZEROS: bool, const SHARES: bool> Kernel
    for NarrowErrors<'_, S, ZEROS, SHARES>
{
    type Output = NarrowBlock;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> NarrowBlock {
        measure::<S, FMA, ZEROS, true, SHARES, false>(self.pairs, self.thresholds, &mut [])
    }
}

impl<S: Source<Value = f32>, const ZEROS: bool> Kernel for NarrowExponents<'_, S, ZEROS> {
    type Output = NarrowBlock;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> NarrowBlock {
        measure::<S, FMA, ZEROS, true, true, true>(self.pairs, self.thresholds, self.exponents)
    }
}

#[inline(always)]
fn measure<
    S: Source<Value = f32>,
    const FMA: bool,
    const ZEROS: bool,
    const ERRORS: bool,
    const SHARES: bool,
    const EXPONENTS: bool,
>(
    pairs: Packed<'_, S>,
    thresholds: Thresholds,
    exponents: &mut [u8],
) -> NarrowBlock {
    align_frame();
    let short = S::SHORT_INFINITY.is_some();
    // With errors the quotients exist in f64, and maxima come from them; for 32-bit pairs also the shares. Estimated
    // shares of 16-bit pairs are never uncertain.
    let exact = ERRORS;
    let exact_shares = ERRORS && !short;
    let ulp = ERRORS && !short;
    let estimated = ERRORS && short;
    let mut estimates = RunningEstimates::new(thresholds);
    // The lower ends of the ranges in which an estimate is too close to a limit.
    let limits = SHARE_LIMITS.map(|limit| (limit as f32).to_bits() - ESTIMATE_ULPS);
    let mut product = Lanes([0.0; LANES]);
    let mut target_squares = Lanes([0.0; LANES]);
    let mut golden_squares = Lanes([0.0; LANES]);
    let mut difference_squares = Lanes([0.0; LANES]);
    let mut sum_abs = Lanes([0.0; LANES]);
    let mut sum_rel = Lanes([0.0; LANES]);
    let mut exact_max_abs = Lanes([0.0; LANES]);
    let mut exact_max_rel = Lanes([0.0; LANES]);
    let mut max_abs = Lanes([0u32; LANES]);
    let mut max_rel = Lanes([0u32; LANES]);
    let mut max_ulp = Lanes([0; LANES]);
    // Sums of the distances modulo 2^32, and of their upper halves.
    let mut low_ulp = Lanes([0u32; LANES]);
    let mut high_ulp = Lanes([0; LANES]);
    let mut least_golden = Lanes([INFINITY; LANES]);
    let mut under_0 = Lanes([0u32; LANES]);
    let mut under_1 = Lanes([0u32; LANES]);
    // Counts in f64, which match the masks of f64 comparisons.
    let mut exact_under_0 = Lanes([0.0; LANES]);
    let mut exact_under_1 = Lanes([0.0; LANES]);
    let mut nearest = Lanes([u32::MAX; LANES]);
    let mut max_rounded_abs = Lanes([0u32; LANES]);
    let mut exponents = exponents.as_chunks_mut::<LANES>().0.iter_mut();
    let filling = each_pair_group::<_, FMA>(
        pairs.source,
        pairs.target,
        pairs.golden,
        // Called for whole groups and for the last: without this attribute the compiler would inline neither.
        #[inline(always)]
        |a, b| {
            for lane in 0..LANES {
                let (wide_a, wide_b) = (f64::from(a[lane]), f64::from(b[lane]));
                let difference = wide_a - wide_b;
                product[lane] = add_exact_product::<FMA>(product[lane], wide_a, wide_b);
                target_squares[lane] = add_exact_product::<FMA>(target_squares[lane], wide_a, wide_a);
                golden_squares[lane] = add_exact_product::<FMA>(golden_squares[lane], wide_b, wide_b);
                difference_squares[lane] += difference * difference;
                if ERRORS {
                    let abs = difference.abs();
                    let rel = if ZEROS && wide_b == 0.0 { 0.0 } else { (difference / wide_b).abs() };
                    sum_abs[lane] += abs;
                    sum_rel[lane] += rel;
                    exact_max_abs[lane] = larger(exact_max_abs[lane], abs);
                    exact_max_rel[lane] = larger(exact_max_rel[lane], rel);
                    if exact_shares && SHARES {
                        exact_under_0[lane] += if rel < SHARE_LIMITS[0] { 1.0 } else { 0.0 };
                        exact_under_1[lane] += if rel < SHARE_LIMITS[1] { 1.0 } else { 0.0 };
                    }
                }
            }
            let mut sizes = [0u32; LANES];
            for lane in 0..LANES {
                let abs = (a[lane] - b[lane]).to_bits() & MAGNITUDE;
                let mut divisor = b[lane].to_bits() & MAGNITUDE;
                if ZEROS || EXPONENTS {
                    least_golden[lane] = smaller(least_golden[lane], divisor);
                }
                if EXPONENTS {
                    sizes[lane] = abs >> 23;
                }
                if ulp {
                    let apart = ulp::f32_distance(a[lane], b[lane]);
                    max_ulp[lane] = larger(max_ulp[lane], apart);
                    low_ulp[lane] = low_ulp[lane].wrapping_add(apart);
                    high_ulp[lane] += apart >> 16;
                }
                if exact_shares {
                    continue;
                }
                if estimated {
                    let (abs, golden) = (f32::from_bits(abs), f32::from_bits(divisor));
                    estimates.add::<FMA>(lane, abs, golden);
                    if !SHARES {
                        continue;
                    }
                    // A zero golden has no relative error, and must be under every limit.
                    let abs = if ZEROS && divisor == 0 { -1.0 } else { abs };
                    // Negative if under a limit.
                    let above = OVER_LIMITS.map(|over| (abs * over).to_bits().wrapping_sub(divisor));
                    under_0[lane] += above[0] >> 31;
                    under_1[lane] += above[1] >> 31;
                    continue;
                }
                if ZEROS {
                    // A zero golden has no relative error; an infinite divisor makes it zero.
                    divisor = if divisor == 0 { INFINITY } else { divisor };
                }
                let rel = (f32::from_bits(abs) / f32::from_bits(divisor)).to_bits();
                if !exact {
                    max_abs[lane] = larger(max_abs[lane], abs);
                    max_rel[lane] = larger(max_rel[lane], rel);
                }
                // Negative if under a limit, which as an unsigned number is far above it.
                let above = limits.map(|limit| rel.wrapping_sub(limit));
                under_0[lane] += above[0] >> 31;
                under_1[lane] += above[1] >> 31;
                if short {
                    let rounded = if rel >= HALF { abs } else { 0 };
                    max_rounded_abs[lane] = larger(max_rounded_abs[lane], rounded);
                } else {
                    nearest[lane] = smaller(nearest[lane], smaller(above[0], above[1]));
                }
            }
            if EXPONENTS && let Some(out) = exponents.next() {
                *out = sizes.map(|size| size as u8);
            }
        },
    );
    let least_golden = fold(least_golden.0, smaller);
    let float = |lanes: [u32; LANES]| f64::from(f32::from_bits(fold(lanes, larger)));
    let maxima = if exact {
        let (abs, rel) = (fold(exact_max_abs.0, larger), fold(exact_max_rel.0, larger));
        Maxima { abs, rel, exact, rounded_abs: 0.0, ordered: true }
    } else {
        let (abs, rel) = (float(max_abs.0), float(max_rel.0));
        let rounded_abs = if short { float(max_rounded_abs.0) } else { abs };
        Maxima { abs, rel, exact, rounded_abs, ordered: short && rel < 0.5 }
    };
    let pairs_measured = (pairs.golden.len() / S::SIZE) as u64 + filling;
    let unsure = if ERRORS {
        !SHARES && maxima.rel >= SHARE_LIMITS[0]
    } else {
        !short && fold(nearest.0, smaller) <= 2 * ESTIMATE_ULPS
    };
    NarrowBlock {
        estimates: if estimated { Some(estimates.finish(pairs_measured, maxima.abs)) } else { None },
        sums: Sums {
            product: sum(product.0),
            target_squares: sum(target_squares.0),
            golden_squares: sum(golden_squares.0),
            difference_squares: sum(difference_squares.0),
        },
        maxima,
        has_zero_golden: ZEROS && least_golden == 0,
        least_golden: f32::from_bits(least_golden),
        // The padding of the last group agrees; where zeros are not expected it causes a second measurement of the
        // block.
        under: if !SHARES {
            [pairs_measured - filling; 2]
        } else if exact_shares {
            [exact_under_0, exact_under_1].map(|lanes| (sum(lanes.0) as u64).saturating_sub(filling))
        } else {
            [under_0, under_1].map(|lanes| count(lanes.0).saturating_sub(filling))
        },
        unsure,
        errors: ErrorSums { abs: sum(sum_abs.0), rel: sum(sum_rel.0) },
        ulp: UlpDistance { max: fold(max_ulp.0, larger).into(), sum: total(low_ulp.0, high_ulp.0).into() },
    }
}

/// The sum of 32-bit numbers, given in each lane the sum modulo 2^32 and that of the upper halves. What the lower
/// halves in a lane add is less than 2^32, as a block has few enough of them.
#[inline(always)]
fn total(low: [u32; LANES], high: [u32; LANES]) -> u64 {
    const { assert!(BLOCK / LANES < 1 << 16) }
    let upper = |lane: usize| u64::from(high[lane]) << 16;
    (0..LANES).map(|lane| upper(lane) + u64::from(low[lane].wrapping_sub(upper(lane) as u32))).sum()
}
