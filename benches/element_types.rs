//! How many elements of 16-bit floats the kernels measure per second, against float32 with the same values.
//!
//! Arrays of this size fit the cache, so that arithmetic decides and not memory. Rounds are short and interleaved, and the
//! best of each is kept: other load on the machine then matters little. Arguments: elements per array (default 524288),
//! rounds (default 60), and a text that names of measurements must contain.

#![allow(missing_docs, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use ulpscope_kernels::{Level, Threads, Tolerance, compare_at, distances_at, errors_at, stats_at};
use ulpscope_tensor::{DType, View};

const DTYPES: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

/// Uniform numbers between -0.5 and 0.5.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32 - 0.5
    }
}

/// Target and golden, by what differs between them.
fn pairs(kind: &str, count: usize) -> Vec<[f32; 2]> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut pair = || {
        let golden = random.next() * 8.0;
        let target = match kind {
            "close" => golden * (1.0 + 2e-4 * random.next()),
            "rounded" => golden * (1.0 + 8e-3 * random.next()),
            "noisy" | "noisy relu" => golden + 8e-3 * random.next(),
            _ => random.next() * 8.0,
        };
        if kind.ends_with("relu") { [target.max(0.0), golden.max(0.0)] } else { [target, golden] }
    };
    (0..count).map(|_| pair()).collect()
}

/// A value in a dtype, rounded to nearest.
fn encode(dtype: DType, value: f32) -> Vec<u8> {
    let rounded = |dropped: u32| {
        let bits = value.to_bits();
        (bits + (1 << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped
    };
    match dtype {
        DType::BF16 => (rounded(16) as u16).to_le_bytes().to_vec(),
        DType::F16 => {
            const REBIAS: u32 = (127 - 15) << 10;
            let sign = (value.to_bits() >> 16) as u16 & 0x8000;
            let size = rounded(13) & (u32::MAX >> 14);
            let subnormal = (value.abs() * (1 << 24) as f32).round_ties_even() as u32;
            (sign | if subnormal < 1024 { subnormal } else { size - REBIAS } as u16).to_le_bytes().to_vec()
        }
        _ => value.to_le_bytes().to_vec(),
    }
}

/// Keeps the compiler from removing a result.
fn keep<T>(result: T) {
    black_box(&result);
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let count = numbers.first().copied().unwrap_or(1 << 19);
    let rounds = numbers.get(1).copied().unwrap_or(60);
    let wanted =
        std::env::args().skip(1).find(|text| !text.starts_with('-') && text.parse::<usize>().is_err());
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|wanted| name.contains(wanted));
    let tolerance = Tolerance::default();
    let kinds = ["close", "rounded", "noisy", "noisy relu", "unrelated"];
    println!(
        "{count} elements, best of {rounds} interleaved rounds: ns per 1000 elements, and of float32's speed"
    );
    println!(
        "{:<9} {:<26} {:>6} {:>6} {:>6} {:>6} {:>6}",
        "level", "pass", "f32", "bf16", "f16", "bf16", "f16"
    );
    for level in Level::available() {
        for kind in kinds {
            let values = pairs(kind, count);
            let data: Vec<[Vec<u8>; 2]> = (DTYPES.iter())
                .map(|dtype| {
                    [0, 1].map(|side| values.iter().flat_map(|pair| encode(*dtype, pair[side])).collect())
                })
                .collect();
            let view = |index: usize, side: usize| {
                View::contiguous(DTYPES[index], vec![count], &data[index][side]).expect("sizes match")
            };
            let views: Vec<[View<'_>; 2]> =
                (0..DTYPES.len()).map(|index| [view(index, 0), view(index, 1)]).collect();
            type Pass<'a> = (&'a str, Box<dyn Fn(&View<'_>, &View<'_>) + 'a>);
            let mut passes: Vec<Pass<'_>> = vec![
                ("stats", Box::new(|t, _| keep(stats_at(level, t, Threads::One)))),
                ("distances", Box::new(|t, g| keep(distances_at(level, t, g, Threads::One)))),
                ("errors", Box::new(|t, g| keep(errors_at(level, t, g, tolerance, Threads::One)))),
                ("compare", Box::new(|t, g| keep(compare_at(level, t, g, tolerance, Threads::One)))),
            ];
            passes.retain(|(name, _)| is_wanted(&format!("{level:?} {name}, {kind}")));
            let mut best = vec![[f64::INFINITY; DTYPES.len()]; passes.len()];
            for _ in 0..rounds {
                for ((_, pass), best) in passes.iter().zip(&mut best) {
                    for ([target, golden], best) in views.iter().zip(best) {
                        let start = Instant::now();
                        pass(target, golden);
                        *best = best.min(start.elapsed().as_secs_f64());
                    }
                }
            }
            for ((name, _), best) in passes.iter().zip(best) {
                let [single, brain, half] = best.map(|seconds| seconds / count as f64 * 1e12);
                println!(
                    "{:<9} {:<26} {single:>6.0} {brain:>6.0} {half:>6.0} {:>6.2} {:>6.2}",
                    format!("{level:?}"),
                    format!("{name}, {kind}"),
                    single / brain,
                    single / half
                );
            }
        }
    }
}
