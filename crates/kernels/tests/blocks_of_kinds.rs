//! How a block is measured depends on the blocks before it: shares and maxima are those of plain f64 in every case.

#![allow(clippy::unwrap_used)]

use half::{bf16, f16};
use proptest::prelude::*;
use ulpscope_kernels::{Level, Threads, Tolerance, distances_at, errors_at};
use ulpscope_tensor::{DType, Scalar, View};

/// Longer than a block, and no multiple of one, so that kinds change inside of blocks, too.
const PART: usize = 4321;

/// Target and golden: parts of several kinds.
fn pairs(kinds: &[u8], seed: u64) -> Vec<[f32; 2]> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut pair = |kind: &u8| {
        let golden = random() * 8.0;
        let target = match kind {
            0 => golden * (1.0 + 1e-4 * random()),
            1 => golden * (1.0 + 0.02 * random()),
            2 => golden + 0.01 * random(),
            // Both limits themselves, and largest differences that tie.
            3 => {
                return [[1001.0, 1000.0], [201.0, 200.0], [-4.0, 4.0], [0.5, 0.0]]
                    [(random() * 4.0 + 2.0) as usize];
            }
            _ => random() * 8.0,
        };
        [target, golden]
    };
    kinds.iter().flat_map(|kind| (0..PART).map(|_| pair(kind)).collect::<Vec<_>>()).collect()
}

fn encode(dtype: DType, value: f32) -> Vec<u8> {
    match dtype {
        DType::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn have_the_shares_and_maxima_of_plain_f64(
        dtype in prop::sample::select(&[DType::F32, DType::BF16, DType::F16][..]),
        kinds in prop::collection::vec(0u8..5, 1..9),
        seed in any::<u64>(),
    ) {
        let pairs = pairs(&kinds, seed);
        let [target, golden] =
            [0, 1].map(|side| pairs.iter().flat_map(|pair| encode(dtype, pair[side])).collect::<Vec<u8>>());
        let values = |bytes: &[u8]| -> Vec<f64> {
            bytes.chunks_exact(dtype.size()).map(|element| Scalar::read(dtype, element).to_f64()).collect()
        };
        let (plain_target, plain_golden) = (values(&target), values(&golden));
        let (mut under, mut max_abs, mut worst, mut max_rel) = ([0u32; 2], 0.0, None, 0.0f64);
        for (index, (t, g)) in plain_target.iter().zip(&plain_golden).enumerate() {
            let abs = (t - g).abs();
            if abs > max_abs {
                (max_abs, worst) = (abs, Some(index as u64));
            }
            if *g != 0.0 {
                max_rel = max_rel.max(abs / g.abs());
            }
            let rel = if abs == 0.0 { 0.0 } else { abs / g.abs() };
            under[0] += u32::from(rel < 1e-3);
            under[1] += u32::from(rel < 5e-3);
        }
        let expected = (under.map(|under| f64::from(under) / pairs.len() as f64), max_abs, worst, max_rel);
        let view = |bytes| View::contiguous(dtype, vec![pairs.len()], bytes).unwrap();
        let (target, golden) = (view(&target), view(&golden));
        for level in Level::available() {
            let distances = distances_at(level, &target, &golden, Threads::One).unwrap();
            let tolerance = Tolerance::default();
            let errors = errors_at(level, &target, &golden, tolerance, Threads::One).unwrap().distances;
            for found in [distances, errors] {
                let shares = [found.under_1e3, found.under_5e3];
                prop_assert_eq!((shares, found.max_abs, found.worst_index, found.max_rel), expected);
            }
        }
    }
}
