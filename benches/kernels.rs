//! How close the kernels come to reading memory at full speed: ratios within one run.
//!
//! Rounds of all measurements are interleaved and the best of each is kept, so that other load on the machine slows
//! all of them or none. `ULPSCOPE_BENCH_MIB` sets the size of the arrays (default 1024).

#![allow(missing_docs, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use ulpscope_kernels::{
    DigestKind, PeerArithmetic, Threads, Tolerance, compare, digest, distances, errors, peer_errors, stats,
};
use ulpscope_tensor::{DType, View};

const ROUNDS: usize = 7;

/// Reads every byte with as little work as possible; `AHEAD` is the prefetch distance in bytes.
#[allow(unsafe_code)]
fn read_all<const AHEAD: usize>(bytes: &[u8]) -> u64 {
    #[target_feature(enable = "avx512f")]
    fn wide<const AHEAD: usize>(bytes: &[u8]) -> u64 {
        body::<AHEAD>(bytes)
    }
    #[target_feature(enable = "avx2")]
    fn narrow<const AHEAD: usize>(bytes: &[u8]) -> u64 {
        body::<AHEAD>(bytes)
    }
    #[inline(always)]
    fn body<const AHEAD: usize>(bytes: &[u8]) -> u64 {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let mut lanes = [0u64; 32];
        for group in bytes.chunks_exact(256) {
            if AHEAD > 0 {
                for line in 0..4 {
                    // SAFETY: a prefetch is a hint and cannot fault.
                    unsafe {
                        _mm_prefetch::<_MM_HINT_T0>(group.as_ptr().wrapping_add(AHEAD + 64 * line).cast());
                    }
                }
            }
            for (lane, word) in lanes.iter_mut().zip(group.as_chunks::<8>().0) {
                *lane ^= u64::from_le_bytes(*word);
            }
        }
        lanes.iter().fold(0, |a, b| a ^ b)
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: detected.
        unsafe { wide::<AHEAD>(bytes) }
    } else {
        assert!(is_x86_feature_detected!("avx2"), "this benchmark is for machines with AVX2");
        // SAFETY: asserted.
        unsafe { narrow::<AHEAD>(bytes) }
    }
}

/// Values like those of an activation, and a copy with an error of one in ten thousand.
fn make_pair(bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let (mut target, mut golden) = (vec![0; bytes], vec![0; bytes]);
    for (t, g) in target.chunks_exact_mut(4).zip(golden.chunks_exact_mut(4)) {
        let value = random() * 8.0;
        g.copy_from_slice(&value.to_le_bytes());
        t.copy_from_slice(&(value * (1.0 + 2e-4 * random())).to_le_bytes());
    }
    (target, golden)
}

/// A copy with errors of one absolute size: for small values they are large, or change the sign.
fn with_noise(golden: &[u8]) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut noisy = golden.to_vec();
    for value in noisy.as_chunks_mut::<4>().0 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let error = ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 8e-3;
        *value = (f32::from_le_bytes(*value) + error).to_le_bytes();
    }
    noisy
}

/// The upper halves of f32 values, as bf16.
fn to_bf16(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks_exact(4).flat_map(|value| [value[2], value[3]]).collect()
}

/// Keeps the compiler from removing a result.
fn keep<T>(result: T) {
    black_box(&result);
}

/// A named measurement: how many bytes it reads, and what it runs.
type Measurement<'a> = (&'static str, usize, Box<dyn Fn() + 'a>);

fn main() {
    let mib: usize =
        std::env::var("ULPSCOPE_BENCH_MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(1024);
    let bytes = mib << 20;
    let (target, golden) = make_pair(bytes);
    let relu: Vec<u8> = golden
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|value| f32::from_le_bytes(*value).max(0.0).to_le_bytes())
        .collect();
    let (target_bf16, golden_bf16) = (to_bf16(&target), to_bf16(&golden));
    let view =
        |dtype: DType, bytes| View::contiguous(dtype, vec![mib << 20 >> 2], bytes).expect("sizes match");
    let (t, g) = (view(DType::F32, &target), view(DType::F32, &golden));
    let (t16, g16) = (view(DType::BF16, &target_bf16), view(DType::BF16, &golden_bf16));
    let relu = view(DType::F32, &relu);
    let f64s = |bytes| View::contiguous(DType::F64, vec![mib << 20 >> 3], bytes).expect("sizes match");
    let (t64, g64) = (f64s(&target), f64s(&golden));
    let tolerance = Tolerance::default();
    let noisy = with_noise(&golden);
    let noisy_bf16 = to_bf16(&noisy);
    let noisy16 = view(DType::BF16, &noisy_bf16);
    let noisy = view(DType::F32, &noisy);
    // The bits of bf16 values between 0.5 and 4 are f16 values of as many sizes: the speed of the loop is the same.
    let f16s = |bytes| view(DType::F16, bytes);
    let (t_half, g_half) = (f16s(&target_bf16), f16s(&golden_bf16));
    let copy = golden.clone();
    let copy = view(DType::F32, &copy);

    let measurements: Vec<Measurement<'_>> = vec![
        ("read, no prefetch", bytes, Box::new(|| keep(read_all::<0>(&target)))),
        ("read, prefetch 2 KiB", bytes, Box::new(|| keep(read_all::<2048>(&target)))),
        ("read, prefetch 4 KiB", bytes, Box::new(|| keep(read_all::<4096>(&target)))),
        ("stats f32", bytes, Box::new(|| keep(stats(&t, Threads::One)))),
        ("stats f32, half zeros", bytes, Box::new(|| keep(stats(&relu, Threads::One)))),
        ("stats bf16", bytes / 2, Box::new(|| keep(stats(&t16, Threads::One)))),
        ("stats f16", bytes / 2, Box::new(|| keep(stats(&t_half, Threads::One)))),
        ("distances f32", 2 * bytes, Box::new(|| keep(distances(&t, &g, Threads::One)))),
        ("distances f32, equal", 2 * bytes, Box::new(|| keep(distances(&copy, &g, Threads::One)))),
        ("distances f64", 2 * bytes, Box::new(|| keep(distances(&t64, &g64, Threads::One)))),
        ("distances bf16", bytes, Box::new(|| keep(distances(&t16, &g16, Threads::One)))),
        ("distances f16", bytes, Box::new(|| keep(distances(&t_half, &g_half, Threads::One)))),
        ("distances bf16 / f32", bytes / 2 * 3, Box::new(|| keep(distances(&t16, &g, Threads::One)))),
        ("compare f32", 2 * bytes, Box::new(|| keep(compare(&t, &g, tolerance, Threads::One)))),
        ("errors f32", 2 * bytes, Box::new(|| keep(errors(&t, &g, tolerance, Threads::One)))),
        ("errors bf16", bytes, Box::new(|| keep(errors(&t16, &g16, tolerance, Threads::One)))),
        ("errors f16", bytes, Box::new(|| keep(errors(&t_half, &g_half, tolerance, Threads::One)))),
        ("compare f32, noisy", 2 * bytes, Box::new(|| keep(compare(&noisy, &g, tolerance, Threads::One)))),
        (
            "compare f32, half zeros",
            2 * bytes,
            Box::new(|| keep(compare(&relu, &g, tolerance, Threads::One))),
        ),
        ("compare f64", 2 * bytes, Box::new(|| keep(compare(&t64, &g64, tolerance, Threads::One)))),
        ("compare bf16", bytes, Box::new(|| keep(compare(&t16, &g16, tolerance, Threads::One)))),
        ("compare bf16, noisy", bytes, Box::new(|| keep(compare(&noisy16, &g16, tolerance, Threads::One)))),
        ("compare f16", bytes, Box::new(|| keep(compare(&t_half, &g_half, tolerance, Threads::One)))),
        ("compare bf16 / f32", bytes / 2 * 3, Box::new(|| keep(compare(&t16, &g, tolerance, Threads::One)))),
        (
            "peer f32, promoted",
            2 * bytes,
            Box::new(|| keep(peer_errors(&t, &g, PeerArithmetic::Promoted, Threads::One))),
        ),
        (
            "peer f16, stored",
            bytes,
            Box::new(|| keep(peer_errors(&t_half, &g_half, PeerArithmetic::Stored, Threads::One))),
        ),
        ("stats f32, all cores", bytes, Box::new(|| keep(stats(&t, Threads::All)))),
        ("distances f32, all cores", 2 * bytes, Box::new(|| keep(distances(&t, &g, Threads::All)))),
        ("compare f32, all cores", 2 * bytes, Box::new(|| keep(compare(&t, &g, tolerance, Threads::All)))),
        ("digest xxh3", bytes, Box::new(|| keep(digest(&t, DigestKind::Xxh3)))),
        ("digest crc32", bytes, Box::new(|| keep(digest(&t, DigestKind::Crc32)))),
    ];
    let mut best = vec![f64::INFINITY; measurements.len()];
    for _ in 0..ROUNDS {
        for (best, (_, _, run)) in best.iter_mut().zip(&measurements) {
            let start = Instant::now();
            run();
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let speed = |index: usize| measurements[index].1 as f64 / best[index] / 1e9;
    // A digest reads every byte too, and some are faster than the plain loops above.
    let is_read =
        |index: &usize| ["read", "digest"].iter().any(|kind| measurements[*index].0.starts_with(kind));
    let bandwidth = (0..measurements.len()).filter(is_read).map(speed).fold(0.0, f64::max);
    println!(
        "arrays of {mib} MiB, best of {ROUNDS} interleaved rounds; ratio to the best read of the same run"
    );
    println!("{:<26} {:>8} {:>8}", "pass", "GB/s", "ratio");
    for (index, (name, ..)) in measurements.iter().enumerate() {
        println!("{name:<26} {:>8.1} {:>8.2}", speed(index), speed(index) / bandwidth);
    }
    let find =
        |wanted: &str| measurements.iter().position(|(name, ..)| *name == wanted).expect("measured above");
    for pass in ["stats", "distances", "errors", "compare"] {
        let elements = |dtype: &str| 1.0 / best[find(&format!("{pass} {dtype}"))];
        let of_f32 = |dtype: &str| elements(dtype) / elements("f32");
        println!(
            "{pass}: bf16 at {:.2}, f16 at {:.2} of the elements per second of f32",
            of_f32("bf16"),
            of_f32("f16")
        );
    }
    for name in ["stats f32", "distances f32", "compare f32"] {
        let cores = best[find(name)] / best[find(&format!("{name}, all cores"))];
        println!("{name}: all cores are {cores:.2} x one");
    }
}
