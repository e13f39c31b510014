//! Distances in units in the last place: how many steps of the dtype are between two values.

use std::sync::OnceLock;

use ulpscope_tensor::{DType, Table};

use crate::blocks::BLOCK;
use crate::lanes::{LANES, fold, larger, smaller};
use crate::level::Kernel;

/// Largest and summed distance over a range of pairs. The sum is an integer, so its order does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UlpDistance {
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
/// Complex numbers have no order and hence no distance.
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

/// Elements of 16 bits that fill a cache line.
const SHORT_LANES: usize = 32;

/// The distances of a block of 16-bit IEEE floats, in lanes of the same width.
#[inline(always)]
fn short_distances(target: &[u8], golden: &[u8], infinity: u16) -> UlpDistance {
    const MAGNITUDE: u16 = u16::MAX >> 1;
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
    UlpDistance { max: max.into_iter().fold(0, larger).into(), sum: (total(low) + (total(high) << 8)).into() }
}

impl Kernel for Distances<'_> {
    type Output = UlpDistance;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> UlpDistance {
        let Distances { dtype, target, golden } = self;
        match dtype {
            DType::F64 => distances(target, golden, |element| {
                // Sign and magnitude become a signed integer in which neighbours differ by one, and both zeros
                // are zero.
                let bits = u64::from_le_bytes(element);
                let magnitude = (bits & (u64::MAX >> 1)) as i64;
                (if bits >> 63 != 0 { -magnitude } else { magnitude }, magnitude < 0x7ff0_0000_0000_0000)
            }),
            // The lean loop measures these.
            DType::F32 => UlpDistance::default(),
            DType::F16 => short_distances(target, golden, 0x7c00),
            DType::BF16 => short_distances(target, golden, 0x7f80),
            DType::I8 => distances(target, golden, |e| (i8::from_le_bytes(e).into(), true)),
            DType::I16 => distances(target, golden, |e| (i16::from_le_bytes(e).into(), true)),
            DType::I32 => distances(target, golden, |e| (i32::from_le_bytes(e).into(), true)),
            DType::I64 => distances(target, golden, |e| (i64::from_le_bytes(e), true)),
            DType::U8 => distances(target, golden, |e| (u8::from_le_bytes(e).into(), true)),
            DType::U16 => distances(target, golden, |e| (u16::from_le_bytes(e).into(), true)),
            DType::U32 => distances(target, golden, |e| (u32::from_le_bytes(e).into(), true)),
            // Shifting both by 2^63 keeps the distance and makes them signed.
            DType::U64 => distances(target, golden, |e| ((u64::from_le_bytes(e) ^ (1 << 63)) as i64, true)),
            DType::Bool => distances(target, golden, |[byte]| ((byte != 0).into(), true)),
            DType::C64 | DType::C128 => UlpDistance::default(),
            DType::F8E4M3FN
            | DType::F8E5M2
            | DType::F8E4M3FNUZ
            | DType::F8E5M2FNUZ
            | DType::F8E8M0
            | DType::HiF8 => {
                let ranks = float8_ranks(dtype);
                distances(target, golden, |[code]| ranks[usize::from(code)])
            }
        }
    }
}

/// The rank of a value in its dtype, and whether the value is finite.
type Key = (i64, bool);

#[inline(always)]
fn distances<const N: usize>(target: &[u8], golden: &[u8], key: impl Fn([u8; N]) -> Key) -> UlpDistance {
    let mut max = [0u64; LANES];
    // In two halves, because distances of 64-bit values fill a lane on their own.
    let mut low = [0u64; LANES];
    let mut high = [0u64; LANES];
    let mut step = |lane: usize, a: [u8; N], b: [u8; N]| {
        let ((a, a_finite), (b, b_finite)) = (key(a), key(b));
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

type Ranks = [Key; 256];

/// The rank of each code's value among the finite values of its dtype.
fn float8_ranks(dtype: DType) -> &'static Ranks {
    static RANKS: [OnceLock<Ranks>; DType::ALL.len()] = [const { OnceLock::new() }; DType::ALL.len()];
    RANKS[dtype as usize].get_or_init(|| rank(dtype))
}

fn rank(dtype: DType) -> Ranks {
    let table: &Table = dtype.float8_table().expect("an 8-bit float");
    let mut values: Vec<f32> = table.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f32::total_cmp);
    values.dedup_by(|a, b| a == b);
    table.map(|value| {
        let place = values.iter().position(|other| *other == value);
        (place.unwrap_or(0) as i64, place.is_some())
    })
}
