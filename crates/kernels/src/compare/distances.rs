//! The lean loop: distances between two blocks at memory speed.
//!
//! What must be a sum is summed in f64. Maxima and shares of narrow pairs are first estimated in f32, sixteen
//! to a register; wherever an estimate could decide the result, the block, which is still in the first-level
//! cache, is measured again in f64. The results are those of f64 throughout.

use super::NonFinite;
use super::pair::{Masked, Packed, PairBlock, Quad, Width};
use crate::lanes::{self, LANES, Lane, Source, count, each_pair_group, fold, larger, smaller, sum};
use crate::level::add_exact_product;

/// Shares of elements are taken below these relative errors.
pub(super) const SHARE_LIMITS: [f64; 2] = [1.0 / 1000.0, 5.0 / 1000.0];

/// A relative error estimated in f32 (a rounded difference, a rounded quotient) is off by less than this many
/// units in its last place. Two roundings and that of the limit itself make three.
const ESTIMATE_ULPS: i32 = 8;

/// The same as a share of the estimate.
const ESTIMATE_ERROR: f64 = ESTIMATE_ULPS as f64 * f32::EPSILON as f64;

/// Sums, maxima and counts over some run of pairs; merged in order.
#[derive(Clone, Debug)]
pub(super) struct RunningDistances {
    pub(super) sums: Sums,
    pub(super) max_abs: f64,
    /// Where `max_abs` was first met.
    pub(super) max_abs_at: u64,
    pub(super) max_rel: f64,
    /// Pairs below each of [`SHARE_LIMITS`]. Non-finite pairs are masked and so counted here, whether or not
    /// they agree: [`RunningDistances::under_limits`] takes those out that do not.
    pub(super) under: [u64; 2],
    pub(super) zero_golden: u64,
    pub(super) non_finite: NonFinite,
    pub(super) first_mismatch: Option<u64>,
    /// The f32 estimate of `max_abs`: a block whose own estimate is smaller cannot raise it.
    estimated_max_abs: f32,
}

impl RunningDistances {
    pub(super) fn none() -> RunningDistances {
        RunningDistances {
            sums: Sums::default(),
            max_abs: 0.0,
            max_abs_at: 0,
            max_rel: 0.0,
            under: [0; 2],
            zero_golden: 0,
            non_finite: NonFinite::default(),
            first_mismatch: None,
            estimated_max_abs: 0.0,
        }
    }

    #[inline(always)]
    pub(super) fn merge(mut self, next: RunningDistances) -> RunningDistances {
        self.add_sums(next.sums);
        if next.max_abs > self.max_abs {
            self.max_abs = next.max_abs;
            self.max_abs_at = next.max_abs_at;
        }
        self.max_rel = larger(self.max_rel, next.max_rel);
        self.under[0] += next.under[0];
        self.under[1] += next.under[1];
        self.zero_golden += next.zero_golden;
        self.non_finite.add(&next.non_finite);
        self.first_mismatch = self.first_mismatch.or(next.first_mismatch);
        self.estimated_max_abs = larger(self.estimated_max_abs, next.estimated_max_abs);
        self
    }

    /// Pairs below each of [`SHARE_LIMITS`], equal non-finite ones among them.
    pub(super) fn under_limits(&self) -> [u64; 2] {
        self.under.map(|count| count - self.non_finite.mismatched)
    }

    /// Adds a block of narrow pairs, whose first element has row-major position `start`.
    #[inline(always)]
    pub(super) fn add_narrow<S: Source<Value = f32>, const FMA: bool>(
        &mut self,
        pairs: Packed<'_, S>,
        start: u64,
        masked: &mut Masked,
    ) -> Added {
        let block = measure_narrow::<S, FMA>(&pairs);
        if block.is_finite() {
            Added { differs: self.take_narrow(block, &pairs, start), masked: false }
        } else {
            let masked = self.mask(pairs, lanes::F32, start, masked);
            Added {
                differs: self.take_narrow(measure_narrow::<_, FMA>(&masked), &masked, start),
                masked: true,
            }
        }
    }

    /// Takes over a measured block, looking again where f32 estimates are not enough.
    #[inline(always)]
    fn take_narrow<P: PairBlock>(&mut self, block: NarrowBlock, pairs: &P, start: u64) -> bool {
        self.add_sums(block.sums);
        if block.max_abs > 0.0 && block.max_abs >= self.estimated_max_abs {
            self.estimated_max_abs = block.max_abs;
            self.raise_max_abs_in(pairs, exact_max_abs(pairs), start);
        }
        // The second term covers quotients so small that f32 cannot hold their precision.
        if f64::from(block.max_rel) * (1.0 + ESTIMATE_ERROR) + f64::from(f32::MIN_POSITIVE) >= self.max_rel {
            self.max_rel = larger(self.max_rel, exact_max_rel(pairs));
        }
        let zero_golden = if block.least_golden == 0.0 { count_zero_golden(pairs) } else { 0 };
        self.add_counts(if block.unsure { exact_under(pairs) } else { block.under }, zero_golden);
        block.max_abs > 0.0
    }

    /// Adds a block of pairs of f64.
    #[inline(always)]
    pub(super) fn add_wide(
        &mut self,
        pairs: Packed<'_, lanes::F64>,
        start: u64,
        masked: &mut Masked,
    ) -> Added {
        let block = measure_wide(&pairs);
        // Finite sums mean finite elements; the squares of huge ones overflow too, and are masked in vain.
        if block.sums.target_squares.is_finite() && block.sums.golden_squares.is_finite() {
            Added { differs: self.take_wide(block, &pairs, start), masked: false }
        } else {
            let masked = self.mask(pairs, lanes::F64, start, masked);
            Added { differs: self.take_wide(measure_wide(&masked), &masked, start), masked: true }
        }
    }

    /// Adds a block of quads; those that are not finite are set to zero.
    #[inline(always)]
    pub(super) fn add_quads(&mut self, quads: &mut [Quad], start: u64) -> Added {
        for (index, quad) in quads.iter_mut().enumerate() {
            if !(quad.target.is_finite() && quad.golden.is_finite()) {
                self.see_non_finite(quad.target, quad.golden, start + index as u64);
                *quad = Quad::default();
            }
        }
        let quads = &*quads;
        // Masked in place, so that there is no other copy to look at.
        Added { differs: self.take_wide(measure_wide(&quads), &quads, start), masked: false }
    }

    #[inline(always)]
    fn take_wide<P: PairBlock>(&mut self, block: WideBlock, pairs: &P, start: u64) -> bool {
        self.add_sums(block.sums);
        self.raise_max_abs_in(pairs, block.max_abs, start);
        self.max_rel = larger(self.max_rel, block.max_rel);
        let zero_golden = if block.least_golden == 0.0 { count_zero_golden(pairs) } else { 0 };
        self.add_counts(block.under, zero_golden);
        block.max_abs > 0.0
    }

    #[inline(always)]
    fn add_sums(&mut self, sums: Sums) {
        self.sums.product += sums.product;
        self.sums.target_squares += sums.target_squares;
        self.sums.golden_squares += sums.golden_squares;
        self.sums.difference_squares += sums.difference_squares;
    }

    /// The loops count a zero golden as a relative error of nothing, hence as under every limit.
    #[inline(always)]
    fn add_counts(&mut self, under: [u64; 2], zero_golden: u64) {
        self.zero_golden += zero_golden;
        self.under[0] += under[0] - zero_golden;
        self.under[1] += under[1] - zero_golden;
    }

    #[inline(always)]
    fn raise_max_abs_in<P: PairBlock>(&mut self, pairs: &P, max_abs: f64, start: u64) {
        if max_abs > self.max_abs {
            self.max_abs = max_abs;
            self.max_abs_at = start + pairs.position(|quad| quad.difference == max_abs);
        }
    }

    /// Counts what is not finite on either side, and makes copies in which such pairs are zero on both.
    #[inline(always)]
    fn mask<'s, S: Source, W: Source<Value = S::Value>>(
        &mut self,
        pairs: Packed<'_, S>,
        copies: W,
        start: u64,
        masked: &'s mut Masked,
    ) -> Packed<'s, W>
    where
        S::Value: Width,
    {
        let count = pairs.target.len() / S::SIZE;
        masked.target.resize(count * W::SIZE, 0);
        masked.golden.resize(count * W::SIZE, 0);
        let elements = pairs.target.chunks_exact(S::SIZE).zip(pairs.golden.chunks_exact(S::SIZE));
        let outs = (masked.target.chunks_exact_mut(W::SIZE)).zip(masked.golden.chunks_exact_mut(W::SIZE));
        for (index, ((a, b), (out_a, out_b))) in elements.zip(outs).enumerate() {
            let (a, b) = (pairs.source.one(a), pairs.source.one(b));
            let finite = a.is_finite() && b.is_finite();
            if !finite {
                self.see_non_finite(a.widen(), b.widen(), start + index as u64);
            }
            (if finite { a } else { S::Value::ZERO }).put(out_a);
            (if finite { b } else { S::Value::ZERO }).put(out_b);
        }
        masked.pairs(copies)
    }

    fn see_non_finite(&mut self, target: f64, golden: f64, at: u64) {
        if self.non_finite.see(target, golden) {
            self.first_mismatch.get_or_insert(at);
        }
    }
}

/// What came of a block that was added.
pub(super) struct Added {
    /// Some finite pair differs in value.
    pub(super) differs: bool,
    /// The block held non-finite elements; the masked copies are without them.
    pub(super) masked: bool,
}

/// The four sums from which cosine and the L2 distances follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) product: f64,
    pub(super) target_squares: f64,
    pub(super) golden_squares: f64,
    pub(super) difference_squares: f64,
}

/// One block of narrow pairs after the lean loop.
struct NarrowBlock {
    sums: Sums,
    max_abs: f32,
    max_rel: f32,
    least_golden: f32,
    under: [u64; 2],
    /// Some estimate lies too close to a share's limit to tell its side.
    unsure: bool,
}

impl NarrowBlock {
    /// Squares of finite f32 cannot overflow in f64, so finite sums mean finite elements.
    #[inline(always)]
    fn is_finite(&self) -> bool {
        self.sums.target_squares.is_finite() && self.sums.golden_squares.is_finite()
    }
}

/// The lean loop. Magnitudes are compared as integers, which order like the floats whose bits they are and have
/// twice the units to run on.
#[inline(always)]
fn measure_narrow<S: Source<Value = f32>, const FMA: bool>(pairs: &Packed<'_, S>) -> NarrowBlock {
    const MAGNITUDE: i32 = i32::MAX;
    // The lower ends of the ranges in which an estimate is too close to a limit.
    let limits = SHARE_LIMITS.map(|limit| (limit as f32).to_bits() as i32 - ESTIMATE_ULPS);
    let infinity = f32::INFINITY.to_bits() as i32;
    let mut product = [0.0; LANES];
    let mut target_squares = [0.0; LANES];
    let mut golden_squares = [0.0; LANES];
    let mut difference_squares = [0.0; LANES];
    let mut max_abs = [0i32; LANES];
    let mut max_rel = [0i32; LANES];
    let mut least_golden = [infinity; LANES];
    let mut under_0 = [0u32; LANES];
    let mut under_1 = [0u32; LANES];
    let mut nearest = [u32::MAX; LANES];
    let filling = each_pair_group(pairs.source, pairs.target, pairs.golden, |a, b| {
        for lane in 0..LANES {
            let (wide_a, wide_b) = (f64::from(a[lane]), f64::from(b[lane]));
            let difference = wide_a - wide_b;
            product[lane] = add_exact_product::<FMA>(product[lane], wide_a, wide_b);
            target_squares[lane] = add_exact_product::<FMA>(target_squares[lane], wide_a, wide_a);
            golden_squares[lane] = add_exact_product::<FMA>(golden_squares[lane], wide_b, wide_b);
            difference_squares[lane] += difference * difference;
        }
        for lane in 0..LANES {
            let abs = (a[lane] - b[lane]).to_bits() as i32 & MAGNITUDE;
            let size = b[lane].to_bits() as i32 & MAGNITUDE;
            // A zero golden has no relative error; an infinite divisor makes it zero here.
            let divisor = if size == 0 { infinity } else { size };
            let rel = (f32::from_bits(abs as u32) / f32::from_bits(divisor as u32)).to_bits() as i32;
            max_abs[lane] = larger(max_abs[lane], abs);
            max_rel[lane] = larger(max_rel[lane], rel);
            least_golden[lane] = smaller(least_golden[lane], size);
            // Negative under a limit, which as an unsigned number is far above it.
            let above = limits.map(|limit| rel.wrapping_sub(limit) as u32);
            under_0[lane] += above[0] >> 31;
            under_1[lane] += above[1] >> 31;
            nearest[lane] = smaller(nearest[lane], smaller(above[0], above[1]));
        }
    });
    let float = |lanes: [i32; LANES], join: fn(i32, i32) -> i32| f32::from_bits(fold(lanes, join) as u32);
    NarrowBlock {
        sums: Sums {
            product: sum(product),
            target_squares: sum(target_squares),
            golden_squares: sum(golden_squares),
            difference_squares: sum(difference_squares),
        },
        max_abs: float(max_abs, larger),
        max_rel: float(max_rel, larger),
        least_golden: float(least_golden, smaller),
        under: [count(under_0) - filling, count(under_1) - filling],
        unsure: fold(nearest, smaller) <= 2 * ESTIMATE_ULPS as u32,
    }
}

/// One block of wide pairs after its loop; nothing in it is an estimate.
struct WideBlock {
    sums: Sums,
    max_abs: f64,
    max_rel: f64,
    least_golden: f64,
    under: [u64; 2],
}

#[inline(always)]
fn measure_wide<P: PairBlock>(pairs: &P) -> WideBlock {
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
        under_0[lane] += u32::from(rel < SHARE_LIMITS[0]);
        under_1[lane] += u32::from(rel < SHARE_LIMITS[1]);
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

#[inline(always)]
fn exact_max_abs<P: PairBlock>(pairs: &P) -> f64 {
    let mut max = [0.0; LANES];
    pairs.each(|lane, quad| max[lane] = larger(max[lane], quad.difference));
    fold(max, larger)
}

#[inline(always)]
fn exact_max_rel<P: PairBlock>(pairs: &P) -> f64 {
    let mut max = [0.0; LANES];
    pairs.each(|lane, quad| max[lane] = larger(max[lane], quad.relative()));
    fold(max, larger)
}

#[inline(always)]
fn exact_under<P: PairBlock>(pairs: &P) -> [u64; 2] {
    let mut under = [[0u32; LANES]; 2];
    pairs.each(|lane, quad| {
        let rel = quad.relative();
        under[0][lane] += u32::from(rel < SHARE_LIMITS[0]);
        under[1][lane] += u32::from(rel < SHARE_LIMITS[1]);
    });
    under.map(count)
}

#[inline(always)]
fn count_zero_golden<P: PairBlock>(pairs: &P) -> u64 {
    let mut zeros = [0u32; LANES];
    pairs.each(|lane, quad| zeros[lane] += u32::from((quad.golden == 0.0) & (quad.difference > 0.0)));
    count(zeros)
}
