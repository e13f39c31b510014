//! Counts the differences by their exponent.
//!
//! The lean loop stores one byte per pair: the exponent of the f32 difference. Counting bytes equal to a
//! given one is a comparison of whole registers, and the differences of a block have few exponents. So a block is
//! counted from its largest exponent downwards until almost nothing is left. If the f32 difference may have a
//! different exponent than the f64 one, the block is counted again, pair by pair.

use super::errors::BlockErrors;
use super::pair::{Packed, PairBlock};
use crate::blocks::BLOCK;
use crate::lanes::{LANES, Source, count, each_pair, fold};
use crate::level::{Kernel, Level};

/// One byte per pair of a block: the exponent field of the difference in f32.
pub(super) type Exponents = [u8; BLOCK];

/// With a golden of at least this size no difference is subnormal in f32: the last place of half the golden is not.
const SAFE_GOLDEN: f64 = f32::MIN_POSITIVE as f64 * (1 << 25) as f64;

/// Buckets of the error's exponent: one per exponent of an f64.
const BUCKETS: usize = 2048;

/// The exponent that bucket zero would have.
const BIAS: i32 = 1023;

/// The bucket of byte zero.
const BYTE_BUCKET: usize = 1023 - 127;

/// Neighbouring errors tend to have the same exponent. Counting them alternately in several sets of buckets avoids
/// that one increment waits for the previous one.
const BUCKET_SETS: usize = 4;

/// The number of errors of each size: an error in `[2^e, 2^(e+1))` counts for exponent `e`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExponentHistogram {
    /// Pairs without an error.
    pub zeros: u64,
    /// Exponents that occur, smallest first, with their counts.
    pub rows: Vec<(i32, u64)>,
}

/// Counts of exponents over a range of pairs.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    counts: Box<[[u64; BUCKETS]; BUCKET_SETS]>,
    /// Differences of zero in bucket zero.
    zeros: u64,
}

impl Buckets {
    pub(super) fn none() -> Buckets {
        Buckets { counts: Box::new([[0; BUCKETS]; BUCKET_SETS]), zeros: 0 }
    }

    pub(super) fn add(&mut self, more: &Buckets) {
        self.zeros += more.zeros;
        for (bucket, more) in self.counts.as_flattened_mut().iter_mut().zip(more.counts.as_flattened()) {
            *bucket += more;
        }
    }

    /// Adds the pairs of a block one by one.
    pub(super) fn add_pairs<P: PairBlock>(&mut self, level: Level, pairs: P) {
        self.zeros += level.run(PairByPair { pairs, counts: &mut self.counts });
    }

    /// Adds a block by the bytes from the lean loop, if these are reliable.
    pub(super) fn add_bytes<S: Source<Value = f32>>(
        &mut self,
        level: Level,
        pairs: Packed<'_, S>,
        bytes: &Exponents,
        block: BlockErrors,
    ) {
        // Between half and twice golden the difference is exact in f32.
        let is_exact = block.max_rel < 0.5 && block.least_golden > SAFE_GOLDEN;
        if is_exact || !level.run(Misleading(pairs)) {
            let bytes = &bytes[..pairs.golden.len() / S::SIZE];
            // No byte is above this one: it is the exponent of an upper bound of all differences.
            let highest = ((block.max_abs as f32).to_bits() >> 23) as u8;
            level.run(ByteByByte { bytes, highest, counts: &mut self.counts[0] });
        } else {
            self.add_pairs(level, pairs);
        }
    }

    /// The histogram, given the total number of pairs; those in no bucket have no error.
    pub(super) fn histogram(&self, pairs: u64) -> ExponentHistogram {
        let counts = (0..BUCKETS).map(|exponent| self.counts.iter().map(|set| set[exponent]).sum::<u64>());
        let mut rows: Vec<_> = counts.zip(-BIAS..).map(|(count, exponent)| (exponent, count)).collect();
        rows[0].1 -= self.zeros;
        rows.retain(|(_, count)| *count > 0);
        ExponentHistogram { zeros: pairs - rows.iter().map(|(_, count)| count).sum::<u64>(), rows }
    }
}

/// Fills the buckets with the exponents of a block's differences. A difference of zero goes to bucket zero; the
/// number of these is returned.
struct PairByPair<'a, P> {
    pairs: P,
    counts: &'a mut [[u64; BUCKETS]; BUCKET_SETS],
}

impl<P: PairBlock> Kernel for PairByPair<'_, P> {
    type Output = u64;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> u64 {
        let mut zeros = [0u32; LANES];
        self.pairs.each::<FMA>(
            #[inline(always)]
            |lane, quad| {
                let exponent = (quad.difference.to_bits() >> 52) as usize & (BUCKETS - 1);
                self.counts[lane % BUCKET_SETS][exponent] += 1;
                zeros[lane] += u32::from(quad.difference == 0.0);
            },
        );
        count(zeros)
    }
}

/// Whether some difference has a different exponent in f32 than in f64: it is subnormal in f32, or was rounded up
/// to a power of two.
struct Misleading<'a, S>(Packed<'a, S>);

impl<S: Source<Value = f32>> Kernel for Misleading<'_, S> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        const MANTISSA: u32 = (1 << 23) - 1;
        let mut misleading = [0u32; LANES];
        each_pair::<_, FMA>(
            self.0.source,
            self.0.target,
            self.0.golden,
            #[inline(always)]
            |lane, a, b| {
                let difference = a - b;
                let bits = difference.to_bits() & (u32::MAX >> 1);
                let subnormal = bits.wrapping_sub(1) < MANTISSA;
                // If a difference was rounded, adding it back does not restore the larger of the two.
                let rounded = (a - difference != b) | (difference + b != a);
                misleading[lane] |= u32::from(subnormal | ((bits & MANTISSA == 0) & rounded));
            },
        );
        fold(misleading, |a, b| a | b) != 0
    }
}

/// Bytes compared at a time.
const ROW: usize = 64;

/// Exponents counted in one sweep over the bytes.
const SWEEP: usize = 4;

/// After this many sweeps the differences have too many sizes for sweeps to pay.
const SWEEPS: usize = 6;

/// This few differences are found faster one by one than by another sweep.
const FEW: u64 = 4;

/// Counts the bytes that are not zero.
struct ByteByByte<'a> {
    bytes: &'a [u8],
    highest: u8,
    counts: &'a mut [u64; BUCKETS],
}

impl Kernel for ByteByByte<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let (rows, tail) = self.bytes.as_chunks::<ROW>();
        for byte in tail.iter().filter(|byte| **byte > 0) {
            self.counts[BYTE_BUCKET + usize::from(*byte)] += 1;
        }
        let mut left = (rows.len() * ROW) as u64;
        // Bytes up to this one are still to be counted, downwards; zeros are counted with the first.
        let mut next = self.highest;
        for index in 0..SWEEPS {
            if left <= FEW || next == 0 {
                break;
            }
            let mut wanted: [u8; SWEEP] = std::array::from_fn(|index| next.saturating_sub(index as u8));
            if index == 0 {
                wanted[SWEEP - 1] = 0;
            }
            let counts = sweep(rows, wanted);
            if index == 0 {
                left -= counts[SWEEP - 1];
            }
            for (byte, count) in wanted.into_iter().zip(counts).filter(|(byte, _)| *byte > 0) {
                self.counts[BYTE_BUCKET + usize::from(byte)] += count;
                left -= count;
                next = byte - 1;
            }
        }
        if left == 0 {
            return;
        }
        for row in rows {
            if row.iter().fold(false, |any, byte| any | ((*byte > 0) & (*byte <= next))) {
                for byte in row.iter().filter(|byte| **byte > 0 && **byte <= next) {
                    self.counts[BYTE_BUCKET + usize::from(*byte)] += 1;
                }
            }
        }
    }
}

/// How often each wanted byte occurs. The count of a repeated wanted byte, as zero may be, is not used.
#[inline(always)]
fn sweep(rows: &[[u8; ROW]], wanted: [u8; SWEEP]) -> [u64; SWEEP] {
    // A lane counts one byte of each row, and a block has fewer than 256 rows.
    const { assert!(BLOCK / ROW < 256) }
    let mut counts = [[0u8; ROW]; SWEEP];
    for row in rows {
        for index in 0..SWEEP {
            for lane in 0..ROW {
                counts[index][lane] += u8::from(row[lane] == wanted[index]);
            }
        }
    }
    let mut totals = [0; SWEEP];
    for (total, lanes) in totals.iter_mut().zip(&counts) {
        *total = lanes.iter().fold(0u32, |sum, lane| sum + u32::from(*lane)).into();
    }
    totals
}
