//! The loops over one block of pairs: lean in f32 and f64, or in f64 throughout.
//!
//! What must be a sum is summed in f64. Maxima and shares of narrow pairs are first estimated in f32, sixteen
//! to a register; wherever an estimate could decide the result, the block, which is still in the first-level
//! cache, is measured again in f64. The results are those of f64 throughout.
//!
//! Estimates pay where errors take many values, so that few blocks hold one that decides. Between two dtypes of
//! few bits errors are multiples of a few units: one of them ties with the maximum, or is exactly 1/200, in nearly
//! every block. Such pairs take the loop in f64 at once.

use super::pair::{Packed, PairBlock};
use crate::lanes::{
    self, LANES, Lane, Source, count, each_lane, each_pair_group, fold, larger, smaller, sum,
};
use crate::level::{Kernel, add_exact_product};

/// Shares of elements are taken below these relative errors.
pub(super) const SHARE_LIMITS: [f64; 2] = [1.0 / 1000.0, 5.0 / 1000.0];

/// A relative error estimated in f32 (a rounded difference, a rounded quotient) is off by less than this many
/// units in its last place. Two roundings and that of the limit itself make three.
const ESTIMATE_ULPS: u32 = 8;

/// The same as a share of the estimate.
pub(super) const ESTIMATE_ERROR: f64 = ESTIMATE_ULPS as f64 * f32::EPSILON as f64;

/// The four sums from which cosine and the L2 distances follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) product: f64,
    pub(super) target_squares: f64,
    pub(super) golden_squares: f64,
    pub(super) difference_squares: f64,
}

/// One block of narrow pairs after the lean loop.
pub(super) struct NarrowBlock {
    pub(super) sums: Sums,
    pub(super) max_abs: f32,
    /// Not finite where the loop met a zero golden without expecting one: the block must then be taken again.
    pub(super) max_rel: f32,
    pub(super) has_zero_golden: bool,
    pub(super) under: [u64; 2],
    /// Some estimate lies too close to a share's limit to tell its side.
    pub(super) unsure: bool,
}

impl NarrowBlock {
    /// Squares of finite f32 cannot overflow in f64, so finite sums mean finite elements.
    pub(super) fn is_finite(&self) -> bool {
        self.sums.target_squares.is_finite() && self.sums.golden_squares.is_finite()
    }
}

/// The lean loop. Magnitudes are compared as integers, which order like the floats whose bits they are and have
/// twice the units to run on. `ZEROS` says that zeros are to be expected in golden: they cost a tenth.
pub(super) struct Narrow<'a, const ZEROS: bool>(pub(super) Packed<'a, lanes::F32>);

impl<const ZEROS: bool> Kernel for Narrow<'_, ZEROS> {
    type Output = NarrowBlock;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> NarrowBlock {
        const MAGNITUDE: u32 = u32::MAX >> 1;
        const INFINITY: u32 = f32::INFINITY.to_bits();
        // The lower ends of the ranges in which an estimate is too close to a limit.
        let limits = SHARE_LIMITS.map(|limit| (limit as f32).to_bits() - ESTIMATE_ULPS);
        let mut product = [0.0; LANES];
        let mut target_squares = [0.0; LANES];
        let mut golden_squares = [0.0; LANES];
        let mut difference_squares = [0.0; LANES];
        let mut max_abs = [0u32; LANES];
        let mut max_rel = [0u32; LANES];
        let mut least_golden = [INFINITY; LANES];
        let mut under_0 = [0u32; LANES];
        let mut under_1 = [0u32; LANES];
        let mut nearest = [u32::MAX; LANES];
        let Packed { source, target, golden } = self.0;
        let filling = each_pair_group(source, target, golden, |a, b| {
            for lane in 0..LANES {
                let (wide_a, wide_b) = (f64::from(a[lane]), f64::from(b[lane]));
                let difference = wide_a - wide_b;
                product[lane] = add_exact_product::<FMA>(product[lane], wide_a, wide_b);
                target_squares[lane] = add_exact_product::<FMA>(target_squares[lane], wide_a, wide_a);
                golden_squares[lane] = add_exact_product::<FMA>(golden_squares[lane], wide_b, wide_b);
                difference_squares[lane] += difference * difference;
            }
            for lane in 0..LANES {
                let abs = (a[lane] - b[lane]).to_bits() & MAGNITUDE;
                let mut divisor = b[lane].to_bits() & MAGNITUDE;
                if ZEROS {
                    least_golden[lane] = smaller(least_golden[lane], divisor);
                    // A zero golden has no relative error; an infinite divisor makes it zero.
                    divisor = if divisor == 0 { INFINITY } else { divisor };
                }
                let rel = (f32::from_bits(abs) / f32::from_bits(divisor)).to_bits();
                max_abs[lane] = larger(max_abs[lane], abs);
                max_rel[lane] = larger(max_rel[lane], rel);
                // Negative under a limit, which as an unsigned number is far above it.
                let above = limits.map(|limit| rel.wrapping_sub(limit));
                under_0[lane] += above[0] >> 31;
                under_1[lane] += above[1] >> 31;
                nearest[lane] = smaller(nearest[lane], smaller(above[0], above[1]));
            }
        });
        let float = |lanes: [u32; LANES], join: fn(u32, u32) -> u32| f32::from_bits(fold(lanes, join));
        NarrowBlock {
            sums: Sums {
                product: sum(product),
                target_squares: sum(target_squares),
                golden_squares: sum(golden_squares),
                difference_squares: sum(difference_squares),
            },
            max_abs: float(max_abs, larger),
            max_rel: float(max_rel, larger),
            has_zero_golden: ZEROS && fold(least_golden, smaller) == 0,
            // What fills up the last group agrees; where zeros are not expected it makes the block be taken again.
            under: [under_0, under_1].map(|lanes| count(lanes).saturating_sub(filling)),
            unsure: fold(nearest, smaller) <= 2 * ESTIMATE_ULPS,
        }
    }
}

/// The sum of golden's squares, in the lanes and order of the other loops.
pub(super) struct Squares<'a, S>(pub(super) Packed<'a, S>);

impl<S: Source> Kernel for Squares<'_, S> {
    type Output = f64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        let mut squares = [0.0; LANES];
        each_lane(self.0.source, self.0.golden, |lane, value| {
            let wide = value.widen();
            squares[lane] = if S::Value::EXACT_SQUARES {
                add_exact_product::<FMA>(squares[lane], wide, wide)
            } else {
                squares[lane] + wide * wide
            };
        });
        sum(squares)
    }
}

/// One block of wide pairs after its loop; nothing in it is an estimate.
pub(super) struct WideBlock {
    pub(super) sums: Sums,
    pub(super) max_abs: f64,
    pub(super) max_rel: f64,
    pub(super) least_golden: f64,
    pub(super) under: [u64; 2],
}

/// The loop in f64.
pub(super) struct Wide<P>(pub(super) P);

impl<P: PairBlock> Kernel for Wide<P> {
    type Output = WideBlock;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> WideBlock {
        let pairs = self.0;
        let mut product = [0.0; LANES];
        let mut target_squares = [0.0; LANES];
        let mut golden_squares = [0.0; LANES];
        let mut difference_squares = [0.0; LANES];
        let mut max_abs = [0.0; LANES];
        let mut max_rel = [0.0; LANES];
        let mut least_golden = [f64::INFINITY; LANES];
        let mut under_0 = [0u32; LANES];
        let mut under_1 = [0u32; LANES];
        pairs.each(|lane, quad| {
            product[lane] += quad.product;
            target_squares[lane] += quad.target * quad.target;
            golden_squares[lane] += quad.golden * quad.golden;
            difference_squares[lane] += quad.difference * quad.difference;
            let rel = quad.relative();
            max_abs[lane] = larger(max_abs[lane], quad.difference);
            max_rel[lane] = larger(max_rel[lane], rel);
            least_golden[lane] = smaller(least_golden[lane], quad.golden.abs());
            under_0[lane] += u32::from(quad.is_under(SHARE_LIMITS[0]));
            under_1[lane] += u32::from(quad.is_under(SHARE_LIMITS[1]));
        });
        WideBlock {
            sums: Sums {
                product: sum(product),
                target_squares: sum(target_squares),
                golden_squares: sum(golden_squares),
                difference_squares: sum(difference_squares),
            },
            max_abs: fold(max_abs, larger),
            max_rel: fold(max_rel, larger),
            least_golden: fold(least_golden, smaller),
            under: [count(under_0), count(under_1)],
        }
    }
}

/// Counts the pairs that have no relative error.
pub(super) struct ZeroGolden<P>(pub(super) P);

impl<P: PairBlock> Kernel for ZeroGolden<P> {
    type Output = u64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u64 {
        let mut zeros = [0u32; LANES];
        self.0.each(|lane, quad| zeros[lane] += u32::from((quad.golden == 0.0) & (quad.target != 0.0)));
        count(zeros)
    }
}
