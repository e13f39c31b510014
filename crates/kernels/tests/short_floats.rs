//! Pairs of 16-bit floats use estimates that f32 pairs of the same values do not use: the results are the same.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use ulpscope_kernels::{Comparison, Level, Threads, Tolerance, compare_at, distances_at, stats_at};
use ulpscope_tensor::{DType, Scalar, View};

/// How target differs from golden.
const KINDS: [&str; 7] =
    ["any bits", "last place", "noise", "zeros", "constant", "one size", "tiny and huge"];

fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

fn pairs(kind: &str, infinity: u16, count: usize, seed: u64) -> Vec<[u16; 2]> {
    let mut random = random(seed);
    let one = infinity & (infinity >> 1);
    let step = infinity & infinity.wrapping_neg();
    let constant = [random() as u16 & !infinity | one, random() as u16 & !infinity | one];
    let mut pair = || {
        let bits = random();
        let (sign, fraction) = (bits as u16 & 0x8000, (bits >> 16) as u16 & (step - 1));
        // Values from 1/8 to 8.
        let golden = sign | (one - 3 * step + step * ((bits >> 32) as u16 % 6)) | fraction;
        match kind {
            "any bits" => [(bits >> 40) as u16, bits as u16],
            "last place" => [golden.wrapping_add((bits >> 40) as u16 % 3).wrapping_sub(1), golden],
            "noise" => [golden ^ ((bits >> 40) as u16 & ((step / 4) | 1)), golden],
            "zeros" if bits >> 40 & 3 == 0 => [sign, 0],
            "zeros" => {
                [golden.wrapping_add((bits >> 42) as u16 & 1), if bits >> 50 & 7 == 0 { 0 } else { golden }]
            }
            "constant" => constant,
            "one size" => [golden | 1, golden & !1],
            _ => {
                let far = (bits >> 40) as u16 & 0x7fff;
                [if far < infinity { far | sign } else { golden }, golden]
            }
        }
    };
    (0..count).map(|_| pair()).collect()
}

/// The bytes of one side, and the same values as f32.
fn side(dtype: DType, pairs: &[[u16; 2]], side: usize) -> (Vec<u8>, Vec<u8>) {
    let short: Vec<u8> = pairs.iter().flat_map(|pair| pair[side].to_le_bytes()).collect();
    let wide = short.chunks_exact(2).map(|element| Scalar::read(dtype, element).to_f64() as f32);
    let wide = wide.flat_map(f32::to_le_bytes).collect();
    (short, wide)
}

/// As text, because NaN is not equal to itself. Distances in the last place, and the bits that are equal, depend on the
/// dtype.
fn shown(comparison: Comparison) -> String {
    let mut comparison = Comparison { max_ulp: None, mean_ulp: None, ..comparison };
    comparison.distances.equal = false;
    format!("{comparison:?}")
}

fn check(dtype: DType, kind: &str, count: usize, seed: u64, tolerance: Tolerance) {
    let infinity = if dtype == DType::BF16 { 0x7f80 } else { 0x7c00 };
    let pairs = pairs(kind, infinity, count, seed);
    let (target, wide_target) = side(dtype, &pairs, 0);
    let (golden, wide_golden) = side(dtype, &pairs, 1);
    let view = |dtype, bytes| View::contiguous(dtype, vec![count], bytes).unwrap();
    let (target, golden) = (view(dtype, &target), view(dtype, &golden));
    let (wide_target, wide_golden) = (view(DType::F32, &wide_target), view(DType::F32, &wide_golden));
    for level in Level::available() {
        let at = format!("{dtype:?}, {kind}, {level:?}");
        let compared = |target, golden| compare_at(level, target, golden, tolerance, Threads::One).unwrap();
        let (short, wide) = (compared(&target, &golden), compared(&wide_target, &wide_golden));
        let distances = distances_at(level, &target, &golden, Threads::One).unwrap();
        assert_eq!(format!("{distances:?}"), format!("{:?}", short.distances), "{at}");
        assert_eq!(shown(short), shown(wide), "{at}");

        let mut stats = [&target, &wide_target].map(|view| stats_at(level, view, Threads::One));
        let is_subnormal =
            |pair: &[u16; 2]| (1..infinity & infinity.wrapping_neg()).contains(&(pair[0] & 0x7fff));
        assert_eq!(
            stats[0].subnormals,
            pairs.iter().filter(|pair| is_subnormal(pair)).count() as u64,
            "{at}"
        );
        stats[1].subnormals = stats[0].subnormals;
        assert_eq!(format!("{:?}", stats[0]), format!("{:?}", stats[1]), "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn have_the_results_of_f32_with_the_same_values(
        dtype in prop::sample::select(&[DType::BF16, DType::F16][..]),
        kind in prop::sample::select(&KINDS[..]),
        count in prop_oneof![1usize..70, 4000usize..4200, 10_000usize..30_000],
        seed in any::<u64>(),
        atol in prop::sample::select(&[0.0, 1e-45, 1e-9, 1e-3, 1.0 / 128.0, 1e40][..]),
        rtol in prop::sample::select(&[0.0, 1e-45, 1e-4, 1e-3, 1.0 / 256.0, 0.5, 1e40][..]),
    ) {
        check(dtype, kind, count, seed, Tolerance::new(atol, rtol).unwrap());
    }
}
