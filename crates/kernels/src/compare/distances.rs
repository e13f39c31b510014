//! The lean loop: distances between two blocks at memory speed.
//!
//! What must be a sum is summed in f64. Maxima and shares of narrow pairs are first estimated in f32, sixteen
//! to a register; wherever an estimate could decide the result, the block, which is still in the first-level
//! cache, is measured again in f64. The results are those of f64 throughout.

use super::NonFinite;
use super::pair::{Masked, Packed, PairBlock, Quad, Width};
use crate::lanes::{
    self, LANES, Lane, Source, count, each_lane, each_pair_group, fold, larger, smaller, sum,
};
use crate::level::{Kernel, Level, add_exact_product};

/// Shares of elements are taken below these relative errors.
pub(super) const SHARE_LIMITS: [f64; 2] = [1.0 / 1000.0, 5.0 / 1000.0];

/// A relative error estimated in f32 (a rounded difference, a rounded quotient) is off by less than this many
/// units in its last place. Two roundings and that of the limit itself make three.
const ESTIMATE_ULPS: u32 = 8;

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
    /// The last block had zeros in golden: the next is likely to have some too.
    expect_zeros: bool,
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
            expect_zeros: false,
        }
    }

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

    /// Adds a block of pairs that are equal bit by bit, for which golden's squares are all there is to sum. False,
    /// and nothing added, when not all of them are finite.
    pub(super) fn add_same<S: Source>(&mut self, level: Level, pairs: Packed<'_, S>) -> bool {
        let squares = level.run(Squares(pairs));
        if !squares.is_finite() {
            return false;
        }
        let sums = Sums {
            product: squares,
            target_squares: squares,
            golden_squares: squares,
            difference_squares: 0.0,
        };
        self.add_sums(sums);
        let count = (pairs.golden.len() / S::SIZE) as u64;
        self.add_counts([count; 2], 0);
        true
    }

    /// Adds a block of narrow pairs, whose first element has row-major position `start`. Tells whether it had
    /// non-finite elements: `masked` then has copies without them.
    pub(super) fn add_narrow<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        pairs: Packed<'_, S>,
        start: u64,
        masked: &mut Masked,
    ) -> bool {
        let block = self.measure_narrow(level, pairs);
        let is_finite = block.is_finite();
        if is_finite {
            self.take_narrow(level, block, pairs, start);
        } else {
            let pairs = self.mask(pairs, lanes::F32, start, masked);
            let block = self.measure_narrow(level, pairs);
            self.take_narrow(level, block, pairs, start);
        }
        !is_finite
    }

    /// Runs the lean loop in the form that the block before suggests, and again in the other if it must.
    fn measure_narrow<S: Source<Value = f32>>(&mut self, level: Level, pairs: Packed<'_, S>) -> NarrowBlock {
        if !self.expect_zeros {
            let block = level.run(Narrow::<S, false>(pairs));
            if block.max_rel.is_finite() {
                return block;
            }
        }
        let block = level.run(Narrow::<S, true>(pairs));
        self.expect_zeros = block.has_zero_golden;
        block
    }

    /// Takes over a measured block, looking again where f32 estimates are not enough.
    fn take_narrow<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        block: NarrowBlock,
        pairs: Packed<'_, S>,
        start: u64,
    ) {
        self.add_sums(block.sums);
        let zero_golden = if block.has_zero_golden { level.run(ZeroGolden(pairs)) } else { 0 };
        let may_raise_max_abs = block.max_abs > 0.0 && block.max_abs >= self.estimated_max_abs;
        // The second term covers quotients so small that f32 cannot hold their precision.
        let may_raise_max_rel = block.max_rel > 0.0
            && f64::from(block.max_rel) * (1.0 + ESTIMATE_ERROR) + f64::from(f32::MIN_POSITIVE)
                >= self.max_rel;
        let mut under = block.under;
        if may_raise_max_abs || may_raise_max_rel || block.unsure {
            let exact = level.run(Wide(pairs));
            self.estimated_max_abs = larger(self.estimated_max_abs, block.max_abs);
            self.raise_maxima(&exact, &pairs, start);
            under = exact.under;
        }
        self.add_counts(under, zero_golden);
    }

    /// Adds a block of pairs of f64, with the same answer as [`RunningDistances::add_narrow`].
    pub(super) fn add_wide(
        &mut self,
        level: Level,
        pairs: Packed<'_, lanes::F64>,
        start: u64,
        masked: &mut Masked,
    ) -> bool {
        let block = level.run(Wide(pairs));
        // Finite sums mean finite elements; the squares of huge ones overflow too, and are masked in vain.
        let is_finite = block.sums.target_squares.is_finite() && block.sums.golden_squares.is_finite();
        if is_finite {
            self.take_wide(level, block, pairs, start);
        } else {
            let pairs = self.mask(pairs, lanes::F64, start, masked);
            let block = level.run(Wide(pairs));
            self.take_wide(level, block, pairs, start);
        }
        !is_finite
    }

    /// Adds a block of quads; those that are not finite are set to zero.
    pub(super) fn add_quads(&mut self, level: Level, quads: &mut [Quad], start: u64) {
        for (index, quad) in quads.iter_mut().enumerate() {
            if !(quad.target.is_finite() && quad.golden.is_finite()) {
                self.see_non_finite(quad.target, quad.golden, start + index as u64);
                *quad = Quad::default();
            }
        }
        let quads = &*quads;
        let block = level.run(Wide(quads));
        self.take_wide(level, block, quads, start);
    }

    fn take_wide<P: PairBlock>(&mut self, level: Level, block: WideBlock, pairs: P, start: u64) {
        self.add_sums(block.sums);
        self.raise_maxima(&block, &pairs, start);
        let zero_golden = if block.least_golden == 0.0 { level.run(ZeroGolden(pairs)) } else { 0 };
        self.add_counts(block.under, zero_golden);
    }

    fn raise_maxima<P: PairBlock>(&mut self, block: &WideBlock, pairs: &P, start: u64) {
        self.max_rel = larger(self.max_rel, block.max_rel);
        if block.max_abs > self.max_abs {
            self.max_abs = block.max_abs;
            self.max_abs_at = start + pairs.position(|quad| quad.difference == block.max_abs);
        }
    }

    fn add_sums(&mut self, sums: Sums) {
        self.sums.product += sums.product;
        self.sums.target_squares += sums.target_squares;
        self.sums.golden_squares += sums.golden_squares;
        self.sums.difference_squares += sums.difference_squares;
    }

    /// The loops count a zero golden as a relative error of nothing, hence as under every limit.
    fn add_counts(&mut self, under: [u64; 2], zero_golden: u64) {
        self.zero_golden += zero_golden;
        self.under[0] += under[0] - zero_golden;
        self.under[1] += under[1] - zero_golden;
    }

    /// Counts what is not finite on either side, and makes copies in which such pairs are zero on both.
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
    /// Not finite where the loop met a zero golden without expecting one: the block must then be taken again.
    max_rel: f32,
    has_zero_golden: bool,
    under: [u64; 2],
    /// Some estimate lies too close to a share's limit to tell its side.
    unsure: bool,
}

impl NarrowBlock {
    /// Squares of finite f32 cannot overflow in f64, so finite sums mean finite elements.
    fn is_finite(&self) -> bool {
        self.sums.target_squares.is_finite() && self.sums.golden_squares.is_finite()
    }
}

/// The lean loop. Magnitudes are compared as integers, which order like the floats whose bits they are and have
/// twice the units to run on. `ZEROS` says that zeros are to be expected in golden: they cost a tenth.
struct Narrow<'a, S, const ZEROS: bool>(Packed<'a, S>);

impl<S: Source<Value = f32>, const ZEROS: bool> Kernel for Narrow<'_, S, ZEROS> {
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
struct Squares<'a, S>(Packed<'a, S>);

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
struct WideBlock {
    sums: Sums,
    max_abs: f64,
    max_rel: f64,
    least_golden: f64,
    under: [u64; 2],
}

/// The loop in f64.
struct Wide<P>(P);

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
}

/// Counts the pairs that have no relative error.
struct ZeroGolden<P>(P);

impl<P: PairBlock> Kernel for ZeroGolden<P> {
    type Output = u64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u64 {
        let mut zeros = [0u32; LANES];
        self.0.each(|lane, quad| zeros[lane] += u32::from((quad.golden == 0.0) & (quad.target != 0.0)));
        count(zeros)
    }
}
