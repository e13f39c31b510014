//! The loops over one block of pairs in f64, for pairs that the lean loop cannot process or decide.

use super::pair::{Packed, PairBlock};
use crate::lanes::{LANES, Lane, Source, count, each_lane, fold, larger, smaller, sum};
use crate::level::{Kernel, add_exact_product, align_frame};

/// Limits of the relative error for the shares of elements.
pub(super) const SHARE_LIMITS: [f64; 2] = [1.0 / 1000.0, 5.0 / 1000.0];

/// The four sums for the cosine and the L2 distances.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) product: f64,
    pub(super) target_squares: f64,
    pub(super) golden_squares: f64,
    pub(super) difference_squares: f64,
}

/// The sums for the mean errors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ErrorSums {
    pub(super) abs: f64,
    pub(super) rel: f64,
}

/// The sum of golden's squares, in the lanes and order of the other loops.
pub(super) struct Squares<'a, S>(pub(super) Packed<'a, S>);

impl<S: Source> Kernel for Squares<'_, S> {
    type Output = f64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        let mut squares = [0.0; LANES];
        each_lane::<_, FMA>(
            self.0.source,
            self.0.golden,
            #[inline(always)]
            |lane, value| {
                let wide = value.widen();
                squares[lane] = if S::Value::EXACT_SQUARES {
                    add_exact_product::<FMA>(squares[lane], wide, wide)
                } else {
                    squares[lane] + wide * wide
                };
            },
        );
        sum(squares)
    }
}

/// The results of the loop for one block of wide pairs; nothing in it is an estimate.
pub(super) struct WideBlock {
    pub(super) sums: Sums,
    pub(super) max_abs: f64,
    pub(super) max_rel: f64,
    pub(super) least_golden: f64,
    pub(super) under: [u64; 2],
    /// All zero if not requested.
    pub(super) errors: ErrorSums,
}

/// The loop in f64; with `ERRORS` it also sums the errors.
pub(super) struct Wide<P, const ERRORS: bool>(pub(super) P);

impl<P: PairBlock, const ERRORS: bool> Kernel for Wide<P, ERRORS> {
    type Output = WideBlock;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> WideBlock {
        align_frame();
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
        let mut sum_abs = [0.0; LANES];
        let mut sum_rel = [0.0; LANES];
        pairs.each::<FMA>(
            #[inline(always)]
            |lane, quad| {
                product[lane] += quad.product;
                target_squares[lane] += quad.target * quad.target;
                golden_squares[lane] += quad.golden * quad.golden;
                difference_squares[lane] += quad.difference * quad.difference;
                let rel = quad.relative();
                if ERRORS {
                    sum_abs[lane] += quad.difference;
                    sum_rel[lane] += rel;
                }
                max_abs[lane] = larger(max_abs[lane], quad.difference);
                max_rel[lane] = larger(max_rel[lane], rel);
                least_golden[lane] = smaller(least_golden[lane], quad.golden.abs());
                under_0[lane] += u32::from(quad.is_under(SHARE_LIMITS[0]));
                under_1[lane] += u32::from(quad.is_under(SHARE_LIMITS[1]));
            },
        );
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
            errors: ErrorSums { abs: sum(sum_abs), rel: sum(sum_rel) },
        }
    }
}

/// Counts the pairs without a relative error.
pub(super) struct ZeroGolden<P>(pub(super) P);

impl<P: PairBlock> Kernel for ZeroGolden<P> {
    type Output = u64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u64 {
        let mut zeros = [0u32; LANES];
        self.0.each::<FMA>(
            #[inline(always)]
            |lane, quad| zeros[lane] += u32::from((quad.golden == 0.0) & (quad.target != 0.0)),
        );
        count(zeros)
    }
}

/// The largest absolute difference.
pub(super) struct LargestDifference<P>(pub(super) P);

impl<P: PairBlock> Kernel for LargestDifference<P> {
    type Output = f64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        let mut max = [0.0; LANES];
        self.0.each::<FMA>(
            #[inline(always)]
            |lane, quad| max[lane] = larger(max[lane], quad.difference),
        );
        fold(max, larger)
    }
}
