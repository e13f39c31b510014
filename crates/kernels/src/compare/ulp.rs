//! Distances in units in the last place: how many steps of the dtype are between two values.

use std::sync::OnceLock;

use ulpscope_tensor::{DType, Table};

use crate::blocks::BLOCK;
use crate::lanes::{ForSource, LANES, Source, fold, larger, smaller, with_source};
use crate::level::Kernel;
use crate::short::{MAGNITUDE, SHORT_LANES};

/// Largest and summed distance over a range of pairs. The sum is an integer, so its order does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UlpDistance {
    pub(super) max: u64,
    pub(super) sum: u128,
}

impl UlpDistance {
    pub(super) fn add(&mut self, more: UlpDistance) {
        self.max = larger(self.max, more.max);
        self.sum += more.sum;
    }
}

/// The distances of two packed blocks of one dtype; pairs that are not finite on both sides are left out.
pub(super) struct Distances<'a> {
    pub(super) dtype: DType,
    pub(super) target: &'a [u8],
    pub(super) golden: &'a [u8],
}

/// The distance of two finite f32, in their own width: twice a magnitude still fits.
#[inline(always)]
pub(super) fn f32_distance(a: f32, b: f32) -> u32 {
    const MAGNITUDE: u32 = u32::MAX >> 1;
    let (a, b) = (a.to_bits(), b.to_bits());
    let (size_a, size_b) = (a & MAGNITUDE, b & MAGNITUDE);
    let one_sign = (size_a as i32 - size_b as i32).unsigned_abs();
    if ((a ^ b) as i32) < 0 { size_a + size_b } else { one_sign }
}

/// The distances of a block of 16-bit IEEE floats, in lanes of the same width.
#[inline(always)]
pub(crate) fn short_distances(target: &[u8], golden: &[u8], infinity: u16) -> UlpDistance {
    // One half of a distance per group, summed in lanes of 16 bits.
    const { assert!(BLOCK / SHORT_LANES < 256) }
    let mut max = [0; SHORT_LANES];
    let mut low = [0; SHORT_LANES];
    let mut high = [0; SHORT_LANES];
    let mut take = |lane: usize, a: [u8; 2], b: [u8; 2]| {
        let (a, b) = (u16::from_le_bytes(a), u16::from_le_bytes(b));
        let (size_a, size_b) = (a & MAGNITUDE, b & MAGNITUDE);
        let one_sign = larger(size_a, size_b) - smaller(size_a, size_b);
        let apart = if ((a ^ b) as i16) < 0 { size_a + size_b } else { one_sign };
        let apart = if larger(size_a, size_b) < infinity { apart } else { 0 };
        max[lane] = larger(max[lane], apart);
        low[lane] += apart & 0xff;
        high[lane] += apart >> 8;
    };
    let (groups_a, tail_a) = target.as_chunks::<2>().0.as_chunks::<SHORT_LANES>();
    let (groups_b, tail_b) = golden.as_chunks::<2>().0.as_chunks::<SHORT_LANES>();
    for (group_a, group_b) in groups_a.iter().zip(groups_b) {
        for lane in 0..SHORT_LANES {
            take(lane, group_a[lane], group_b[lane]);
        }
    }
    for (lane, (a, b)) in tail_a.iter().zip(tail_b).enumerate() {
        take(lane, *a, *b);
    }
    let total = |lanes: [u16; SHORT_LANES]| lanes.iter().map(|lane| u64::from(*lane)).sum::<u64>();
    UlpDistance { max: fold(max, larger).into(), sum: (total(low) + (total(high) << 8)).into() }
}

impl Kernel for Distances<'_> {
    type Output = UlpDistance;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> UlpDistance {
        with_source(self.dtype, self)
    }
}

impl ForSource for Distances<'_> {
    type Output = UlpDistance;

    #[inline(always)]
    fn run<S: Source>(self, source: S) -> UlpDistance {
        source.ulp_distance(self.target, self.golden)
    }
}

/// The rank of an f64, and whether it is finite: sign and magnitude become a signed integer in which neighbours differ
/// by one, and both zeros are zero.
#[inline(always)]
pub(crate) fn f64_rank(element: [u8; 8]) -> Rank {
    let bits = u64::from_le_bytes(element);
    let magnitude = (bits & (u64::MAX >> 1)) as i64;
    (if bits >> 63 != 0 { -magnitude } else { magnitude }, magnitude < 0x7ff0_0000_0000_0000)
}

/// The rank of a value in its dtype, and whether the value is finite.
pub(crate) type Rank = (i64, bool);

/// The distances of two packed blocks, by the ranks of their elements.
#[inline(always)]
pub(crate) fn ranked<const N: usize>(
    target: &[u8],
    golden: &[u8],
    rank: impl Fn([u8; N]) -> Rank,
) -> UlpDistance {
    let mut max = [0u64; LANES];
    // In two halves, because distances of 64-bit values fill a lane on their own.
    let mut low = [0u64; LANES];
    let mut high = [0u64; LANES];
    let mut step = |lane: usize, a: [u8; N], b: [u8; N]| {
        let ((a, a_finite), (b, b_finite)) = (rank(a), rank(b));
        let apart = if a_finite & b_finite { a.abs_diff(b) } else { 0 };
        max[lane] = larger(max[lane], apart);
        low[lane] += apart & u64::from(u32::MAX);
        high[lane] += apart >> 32;
    };
    let (groups_a, tail_a) = target.as_chunks::<N>().0.as_chunks::<LANES>();
    let (groups_b, tail_b) = golden.as_chunks::<N>().0.as_chunks::<LANES>();
    for (group_a, group_b) in groups_a.iter().zip(groups_b) {
        for (lane, (a, b)) in group_a.iter().zip(group_b).enumerate() {
            step(lane, *a, *b);
        }
    }
    for (lane, (a, b)) in tail_a.iter().zip(tail_b).enumerate() {
        step(lane, *a, *b);
    }
    let add = |a, b| a + b;
    UlpDistance {
        max: fold(max, larger),
        sum: u128::from(fold(low, add)) + (u128::from(fold(high, add)) << 32),
    }
}

type Ranks = [Rank; 256];

/// The rank of each code's value among the finite values of an 8-bit float.
pub(crate) fn float8_ranks(dtype: DType, table: &Table) -> &'static Ranks {
    static RANKS: [OnceLock<Ranks>; DType::ALL.len()] = [const { OnceLock::new() }; DType::ALL.len()];
    RANKS[dtype as usize].get_or_init(|| ranks_in(table))
}

fn ranks_in(table: &Table) -> Ranks {
    let mut values: Vec<f32> = table.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f32::total_cmp);
    values.dedup_by(|a, b| a == b);
    table.map(|value| {
        let place = values.iter().position(|other| *other == value);
        (place.unwrap_or(0) as i64, place.is_some())
    })
}
