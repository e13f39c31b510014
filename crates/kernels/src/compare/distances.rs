//! The distances of a range of blocks. Each block goes through its loop, is measured again if an estimate could
//! decide, and is merged in order.

use super::NonFinite;
use super::errors::BlockErrors;
use super::exponents::Exponents;
use super::loops::{LargestDifference, SHARE_LIMITS, Squares, Sums, Wide, WideBlock, ZeroGolden};
use super::narrow::{Maxima, Narrow, NarrowBlock, NarrowErrors, NarrowExponents};
use super::pair::{Masked, Packed, PairBlock, Quad, Width};
use super::thresholds::Thresholds;
use super::ulp::UlpDistance;
use crate::lanes::{Lane, Source, larger};
use crate::level::Level;

/// Sums, maxima and counts over a range of pairs; merged in order.
#[derive(Clone, Debug)]
pub(super) struct RunningDistances {
    pub(super) sums: Sums,
    pub(super) max_abs: f64,
    /// The first position of `max_abs`.
    pub(super) max_abs_at: u64,
    pub(super) max_rel: f64,
    /// Pairs below the limit of each share. Non-finite pairs are masked and therefore counted here, whether or not
    /// they agree: [`RunningDistances::under_limits`] subtracts those that do not.
    pub(super) under: [u64; 2],
    pub(super) zero_golden: u64,
    pub(super) non_finite: NonFinite,
    pub(super) first_mismatch: Option<u64>,
    /// Estimates of the last block would not have shown that it does not raise the largest relative error. The next is likely to be of
    /// the same kind, and exact maxima are then cheaper.
    expect_raise: bool,
    /// The last block with errors had a relative error that is not under the limit of a share: the next is likely to have
    /// some too, and counting them at once is then cheaper.
    expect_over_limits: bool,
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
            expect_raise: true,
            expect_over_limits: false,
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
        self
    }

    /// Pairs below the limit of each share, including equal non-finite ones.
    pub(super) fn under_limits(&self) -> [u64; 2] {
        self.under.map(|count| count - self.non_finite.mismatched)
    }

    /// Adds a block of pairs with equal bits: only golden's squares have to be summed. Returns false,
    /// and adds nothing, if not all of them are finite.
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

    /// Adds a block of narrow pairs whose first element has row-major position `start`. Returns its errors. If not
    /// all elements are finite, it adds and returns nothing. On request the errors are summed, and their exponents
    /// are written to `exponents`.
    ///
    /// If both sides have the same 16-bit float type, they are within a factor of two near a limit, so their f32
    /// difference is exact and a multiple of the smaller one's last place. A quotient that does not equal the limit is
    /// 2^-12 or more away from it; one that does is not under it. So no estimate of a share is ever uncertain.
    pub(super) fn add_narrow<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        pairs: Packed<'_, S>,
        start: u64,
        wanted: Option<Thresholds>,
        exponents: Option<&mut Exponents>,
    ) -> Option<BlockErrors> {
        let wanted = wanted.or_else(|| self.expect_raise.then(Thresholds::none));
        let block = self.measure_narrow(level, pairs, wanted, exponents);
        block.is_finite().then(|| self.take_narrow(level, block, pairs, start))
    }

    /// Runs the lean loop in the form that suits the previous block, and again in the other form if necessary.
    fn measure_narrow<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        pairs: Packed<'_, S>,
        wanted: Option<Thresholds>,
        mut exponents: Option<&mut Exponents>,
    ) -> NarrowBlock {
        if !self.expect_zeros {
            let block = match (wanted, exponents.as_deref_mut()) {
                (Some(thresholds), Some(exponents)) => {
                    level.run(NarrowExponents::<S, false> { pairs, thresholds, exponents })
                }
                (Some(thresholds), None) if self.expect_over_limits => {
                    level.run(NarrowErrors::<S, false, true> { pairs, thresholds })
                }
                (Some(thresholds), None) => {
                    let block = level.run(NarrowErrors::<S, false, false> { pairs, thresholds });
                    if block.unsure {
                        level.run(NarrowErrors::<S, false, true> { pairs, thresholds })
                    } else {
                        block
                    }
                }
                (None, _) => level.run(Narrow::<S, false> { pairs }),
            };
            if !block.met_zero_golden() {
                return block;
            }
        }
        let block = match (wanted, exponents) {
            (Some(thresholds), Some(exponents)) => {
                level.run(NarrowExponents::<S, true> { pairs, thresholds, exponents })
            }
            (Some(thresholds), None) => level.run(NarrowErrors::<S, true, true> { pairs, thresholds }),
            (None, _) => level.run(Narrow::<S, true> { pairs }),
        };
        self.expect_zeros = block.has_zero_golden;
        block
    }

    /// Adds a measured block, and measures again where f32 estimates are not enough.
    fn take_narrow<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        block: NarrowBlock,
        pairs: Packed<'_, S>,
        start: u64,
    ) -> BlockErrors {
        self.add_sums(block.sums);
        let zero_golden = if block.has_zero_golden { level.run(ZeroGolden(pairs)) } else { 0 };
        let maxima = &block.maxima;
        let [abs_is_decided, rel_is_decided] = self.are_decided(maxima);
        self.expect_raise = !rel_is_decided;
        self.expect_over_limits = maxima.rel_at_most() >= SHARE_LIMITS[0];
        if maxima.exact {
            self.raise_maxima((maxima.abs, maxima.rel), &pairs, start);
        }
        if (maxima.exact || rel_is_decided) && !block.unsure {
            if !(maxima.exact || abs_is_decided) {
                // Without quotients this takes a fraction of the time of the loop below.
                let abs = level.run(LargestDifference(pairs));
                self.raise_maxima((abs, 0.0), &pairs, start);
            }
            // The lean loop counts a zero golden as a relative error of zero, hence as under every limit.
            self.add_counts(block.under.map(|under| under - zero_golden), zero_golden);
        } else {
            let wide = level.run(Wide::<_, false>(pairs));
            self.raise_maxima((wide.max_abs, wide.max_rel), &pairs, start);
            self.add_counts(wide.under, zero_golden);
        }
        BlockErrors {
            sums: block.errors,
            max_abs: block.maxima.abs_at_most(),
            max_rel: if zero_golden > 0 { f64::INFINITY } else { block.maxima.rel_at_most() },
            least_golden: block.least_golden.into(),
            ulp: block.ulp,
            estimates: block.estimates,
        }
    }

    /// Whether the estimated maximum of a block's absolute differences cannot raise that so far, and the same of the
    /// relative ones.
    fn are_decided(&self, maxima: &Maxima) -> [bool; 2] {
        let cannot_raise = |most: f64, so_far: f64| most == 0.0 || most < so_far;
        let abs = maxima.abs <= self.max_abs && cannot_raise(maxima.rounded_abs_at_most(), self.max_abs);
        let rel = if maxima.ordered && maxima.rel < 0.5 {
            // The f32 nearest to a quotient in f64 is the one nearest to the exact quotient.
            maxima.rel as f32 <= self.max_rel as f32
        } else {
            cannot_raise(maxima.rel_at_most(), self.max_rel)
        };
        [abs, rel]
    }

    /// Adds a block of pairs without estimates. Returns the same as [`RunningDistances::add_narrow`].
    pub(super) fn add_wide<P: PairBlock>(
        &mut self,
        level: Level,
        pairs: P,
        start: u64,
        with_errors: bool,
    ) -> Option<BlockErrors> {
        let block = measure_wide(level, pairs, with_errors);
        // Finite sums mean finite elements. The squares of huge f64 overflow too; masking them is then superfluous.
        let is_finite = block.sums.target_squares.is_finite() && block.sums.golden_squares.is_finite();
        is_finite.then(|| self.take_wide(level, block, pairs, start))
    }

    /// Adds a block of quads; non-finite ones are set to zero.
    pub(super) fn add_quads(
        &mut self,
        level: Level,
        quads: &mut [Quad],
        start: u64,
        with_errors: bool,
    ) -> BlockErrors {
        for (index, quad) in quads.iter_mut().enumerate() {
            if !(quad.target.is_finite() && quad.golden.is_finite()) {
                let opposed = quad.difference == f64::INFINITY;
                self.see_non_finite((quad.target, quad.golden), opposed, start + index as u64);
                *quad = Quad::default();
            }
        }
        self.add_masked(level, &*quads, start, with_errors)
    }

    /// Adds a block of pairs that are finite or masked to zero, without estimates.
    pub(super) fn add_masked<P: PairBlock>(
        &mut self,
        level: Level,
        pairs: P,
        start: u64,
        with_errors: bool,
    ) -> BlockErrors {
        let block = measure_wide(level, pairs, with_errors);
        self.take_wide(level, block, pairs, start)
    }

    fn take_wide<P: PairBlock>(
        &mut self,
        level: Level,
        block: WideBlock,
        pairs: P,
        start: u64,
    ) -> BlockErrors {
        self.add_sums(block.sums);
        self.raise_maxima((block.max_abs, block.max_rel), &pairs, start);
        let zero_golden = if block.least_golden == 0.0 { level.run(ZeroGolden(pairs)) } else { 0 };
        self.add_counts(block.under, zero_golden);
        BlockErrors {
            sums: block.errors,
            max_abs: block.max_abs,
            max_rel: if zero_golden > 0 { f64::INFINITY } else { block.max_rel },
            least_golden: block.least_golden,
            ulp: UlpDistance::default(),
            estimates: None,
        }
    }

    fn raise_maxima<P: PairBlock>(&mut self, (abs, rel): (f64, f64), pairs: &P, start: u64) {
        self.max_rel = larger(self.max_rel, rel);
        if abs > self.max_abs {
            self.max_abs = abs;
            self.max_abs_at = start + pairs.position(|quad| quad.difference == abs);
        }
    }

    fn add_sums(&mut self, sums: Sums) {
        self.sums.product += sums.product;
        self.sums.target_squares += sums.target_squares;
        self.sums.golden_squares += sums.golden_squares;
        self.sums.difference_squares += sums.difference_squares;
    }

    fn add_counts(&mut self, under: [u64; 2], zero_golden: u64) {
        self.zero_golden += zero_golden;
        self.under[0] += under[0];
        self.under[1] += under[1];
    }

    /// Counts non-finite elements of either side, and makes copies in which such pairs are zero on both sides.
    pub(super) fn mask<'s, S: Source, W: Source<Value = S::Value>>(
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
                self.see_non_finite((a.widen(), b.widen()), false, start + index as u64);
            }
            (if finite { a } else { S::Value::ZERO }).put(out_a);
            (if finite { b } else { S::Value::ZERO }).put(out_b);
        }
        masked.pairs(copies)
    }

    /// Counts a non-finite pair. `opposed`: both are infinite, but in different directions.
    fn see_non_finite(&mut self, pair: (f64, f64), opposed: bool, at: u64) {
        if self.non_finite.see(pair.0, pair.1, opposed) {
            self.first_mismatch.get_or_insert(at);
        }
    }
}

fn measure_wide<P: PairBlock>(level: Level, pairs: P, with_errors: bool) -> WideBlock {
    if with_errors { level.run(Wide::<_, true>(pairs)) } else { level.run(Wide::<_, false>(pairs)) }
}
