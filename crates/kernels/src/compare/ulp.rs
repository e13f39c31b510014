//! Distances in units in the last place: how many values of the dtype lie between two of them.

use std::sync::LazyLock;

use ulpscope_tensor::{DType, Table};

use crate::lanes::larger;

/// Largest and summed distance over some run of pairs. The sum is an integer, so its order is of no matter.
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

    #[inline(always)]
    fn see(&mut self, distance: u64) {
        self.max = larger(self.max, distance);
        self.sum += u128::from(distance);
    }
}

/// The distances of two packed blocks of one dtype; pairs that are not finite on both sides are left out.
/// Complex numbers have no order and hence no distance.
#[inline(always)]
pub(super) fn measure(dtype: DType, target: &[u8], golden: &[u8]) -> UlpDistance {
    /// IEEE floats: sign and magnitude bits become a signed integer in which neighbours differ by one, and
    /// both zeros are zero.
    macro_rules! ieee {
        ($bits:ident, $signed:ident, $infinity:expr) => {
            distances(target, golden, |element| {
                let bits = $bits::from_le_bytes(element);
                let magnitude = (bits & ($bits::MAX >> 1)) as $signed;
                (magnitude < $infinity).then_some(i64::from(if bits >> ($bits::BITS - 1) == 0 {
                    magnitude
                } else {
                    -magnitude
                }))
            })
        };
    }
    match dtype {
        DType::F64 => ieee!(u64, i64, 0x7ff0_0000_0000_0000),
        DType::F32 => ieee!(u32, i32, 0x7f80_0000),
        DType::F16 => ieee!(u16, i16, 0x7c00),
        DType::BF16 => ieee!(u16, i16, 0x7f80),
        DType::I8 => distances(target, golden, |e| Some(i8::from_le_bytes(e).into())),
        DType::I16 => distances(target, golden, |e| Some(i16::from_le_bytes(e).into())),
        DType::I32 => distances(target, golden, |e| Some(i32::from_le_bytes(e).into())),
        DType::I64 => distances(target, golden, |e| Some(i64::from_le_bytes(e))),
        DType::U8 => distances(target, golden, |e| Some(u8::from_le_bytes(e).into())),
        DType::U16 => distances(target, golden, |e| Some(u16::from_le_bytes(e).into())),
        DType::U32 => distances(target, golden, |e| Some(u32::from_le_bytes(e).into())),
        // Shifting both by 2^63 keeps the distance and makes them signed.
        DType::U64 => distances(target, golden, |e| Some((u64::from_le_bytes(e) ^ (1 << 63)) as i64)),
        DType::Bool => distances(target, golden, |[byte]| Some((byte != 0).into())),
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

#[inline(always)]
fn distances<const N: usize>(
    target: &[u8],
    golden: &[u8],
    key: impl Fn([u8; N]) -> Option<i64>,
) -> UlpDistance {
    let mut distance = UlpDistance::default();
    for (a, b) in target.as_chunks().0.iter().zip(golden.as_chunks().0) {
        if let (Some(a), Some(b)) = (key(*a), key(*b)) {
            distance.see(a.abs_diff(b));
        }
    }
    distance
}

type Ranks = [Option<i64>; 256];

/// The place of each code's value among the finite values of its dtype.
fn float8_ranks(dtype: DType) -> &'static Ranks {
    static RANKS: [LazyLock<Ranks>; 6] = [
        LazyLock::new(|| rank(DType::F8E4M3FN)),
        LazyLock::new(|| rank(DType::F8E5M2)),
        LazyLock::new(|| rank(DType::F8E4M3FNUZ)),
        LazyLock::new(|| rank(DType::F8E5M2FNUZ)),
        LazyLock::new(|| rank(DType::F8E8M0)),
        LazyLock::new(|| rank(DType::HiF8)),
    ];
    let index = match dtype {
        DType::F8E4M3FN => 0,
        DType::F8E5M2 => 1,
        DType::F8E4M3FNUZ => 2,
        DType::F8E5M2FNUZ => 3,
        DType::F8E8M0 => 4,
        _ => 5,
    };
    &RANKS[index]
}

fn rank(dtype: DType) -> Ranks {
    let table: &Table = dtype.float8_table().expect("an 8-bit float");
    let mut values: Vec<f32> = table.iter().copied().filter(|value| value.is_finite()).collect();
    values.sort_by(f32::total_cmp);
    values.dedup_by(|a, b| a == b);
    table.map(|value| values.iter().position(|other| *other == value).map(|at| at as i64))
}
