//! No instruction set, no number of threads and no memory layout changes a bit of any result.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use ulpscope_kernels::{Level, Threads, Tolerance, compare_at, distances_at, kl_divergence, stats_at, worst};
use ulpscope_tensor::{DType, View};

/// Long enough for several spans, so that there is work for several threads.
const SEVERAL_SPANS: usize = 3 * 128 * 4096 + 77;

/// Bytes of different kinds: random ones (including NaN, infinities and subnormals), moderate ones, zeros, repeats.
fn elements(dtype: DType, count: usize, seed: u64, temper: u8) -> Vec<u8> {
    let mut state = seed | 1;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(count * dtype.size());
    for index in 0..count {
        let kind = if temper == 3 { index / 5000 % 3 } else { temper.into() };
        match kind {
            0 => bytes.extend(&[random().to_le_bytes(), random().to_le_bytes()].concat()[..dtype.size()]),
            1 => {
                let value = (random() >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
                match dtype {
                    DType::F64 | DType::C128 => {
                        bytes.extend(&[value.to_le_bytes(), (-value).to_le_bytes()].concat()[..dtype.size()]);
                    }
                    DType::F32 | DType::C64 => {
                        let value = value as f32;
                        bytes.extend(&[value.to_le_bytes(), value.to_le_bytes()].concat()[..dtype.size()]);
                    }
                    _ => bytes.extend(&random().to_le_bytes()[..dtype.size()]),
                }
            }
            _ => bytes.extend(vec![0; dtype.size()]),
        }
    }
    bytes
}

/// The same elements in a layout with gaps: every second element of a row twice as long.
fn with_gaps(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.chunks_exact(size).flat_map(|element| element.iter().copied().chain(vec![0xa5; size])).collect()
}

/// A target that equals golden at most positions.
fn nearly(golden: &[u8], seed: u64) -> Vec<u8> {
    let mut target = golden.to_vec();
    let mut at = seed as usize % 97;
    while at < target.len() {
        target[at] ^= 1 << (seed % 7);
        at += 1 + (seed as usize % 1009);
    }
    target
}

fn check(dtype: DType, golden_dtype: DType, count: usize, seed: u64, temper: u8) {
    let golden_bytes = elements(golden_dtype, count, seed, temper);
    let target_bytes = if dtype == golden_dtype {
        nearly(&golden_bytes, seed)
    } else {
        elements(dtype, count, seed ^ 0xabcd, temper)
    };
    let target = View::contiguous(dtype, vec![count], &target_bytes).unwrap();
    let golden = View::contiguous(golden_dtype, vec![count], &golden_bytes).unwrap();
    let gaps = with_gaps(&target_bytes, dtype.size());
    let strided = View::strided(dtype, vec![count], vec![2 * dtype.size() as isize], &gaps, 0).unwrap();

    // Text, because NaN is not equal to itself; it shows every bit of an f64.
    let measure = |level, target: &View<'_>, threads| {
        format!(
            "{:?}\n{:?}\n{:?}",
            stats_at(level, target, threads),
            distances_at(level, target, &golden, threads).unwrap(),
            compare_at(level, target, &golden, Tolerance::default(), threads).unwrap(),
        ) + &format!("{:?}\n{:?}", kl_divergence(target, &golden, threads), worst(target, &golden, 5))
    };
    let expected = measure(Level::Baseline, &target, Threads::One);
    for level in Level::available() {
        for threads in [Threads::One, Threads::All] {
            assert_eq!(measure(level, &target, threads), expected, "{level:?}, {threads:?}");
            assert_eq!(measure(level, &strided, threads), expected, "{level:?}, {threads:?}, strided");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn for_any_two_dtypes_and_any_bytes(
        dtype in prop::sample::select(&DType::ALL[..]),
        golden in prop::sample::select(&DType::ALL[..]),
        same in any::<bool>(),
        count in prop_oneof![0usize..40, 4080usize..4120, 0usize..20_000],
        seed in any::<u64>(),
        temper in 0u8..4,
    ) {
        check(dtype, if same { dtype } else { golden }, count, seed, temper);
    }
}

#[test]
fn across_spans() {
    for (dtype, golden) in [
        (DType::F32, DType::F32),
        (DType::BF16, DType::BF16),
        (DType::F16, DType::F16),
        (DType::BF16, DType::F32),
        (DType::F64, DType::F64),
        (DType::F8E4M3FN, DType::F8E4M3FN),
        (DType::I64, DType::I64),
    ] {
        for temper in [1, 3] {
            check(dtype, golden, SEVERAL_SPANS, 42, temper);
        }
    }
}

#[test]
fn with_one_two_and_seven_threads() {
    let golden = elements(DType::F32, SEVERAL_SPANS, 7, 3);
    let target = nearly(&golden, 7);
    let view = |bytes| View::contiguous(DType::F32, vec![SEVERAL_SPANS], bytes).unwrap();
    let results: Vec<String> = [1, 2, 7]
        .into_iter()
        .map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let best = Level::available().last().unwrap();
                let stats = stats_at(best, &view(&target), Threads::All);
                let comparison =
                    compare_at(best, &view(&target), &view(&golden), Tolerance::default(), Threads::All)
                        .unwrap();
                format!("{stats:?} {comparison:?}")
            })
        })
        .collect();
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
}
