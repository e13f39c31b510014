//! The check before first use: the kernel measures fixed tensors of awkward values, and its numbers have to be those of
//! the host. A GPU, a compiler or a driver with which they are not is not used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ulpscope_kernels::{DigestKind, Stats, Threads, digest, stats};
use ulpscope_tensor::{DType, NumberKind, View};

use crate::error::Error;
use crate::gpu::{Gpu, GpuTensor, Measurement};
use crate::graph_measurement::GraphMeasurement;
use crate::launch::{FEW_TENSORS, function_name};

/// Bytes that are measured for each dtype: several blocks, with a last round that is not full.
const BYTES: usize = (1 << 18) + 48;

/// How far sums may be from those of the host, which are in a different order.
const BOUND: f64 = 1e-12;

const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Runs every kernel over tensors of several layouts, on a stream of our own: nothing waits for the program's work.
pub(crate) fn run(gpu: &Arc<Gpu>) -> Result<(), Error> {
    gpu.with_own_stream(BYTES, |stream, host, device| {
        let dtypes = DType::ALL.into_iter().filter(|&dtype| function_name(dtype).is_ok());
        dtypes.into_iter().try_for_each(|dtype| {
            let bytes = awkward(dtype);
            debug_assert!(bytes.len() <= BYTES);
            // SAFETY: the memory has this size, and no kernel reads it: all that were launched have ended.
            #[expect(unsafe_code)]
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), host as *mut u8, bytes.len());
            }
            let cases = cases(dtype, &bytes);
            check(device, &cases, |tensors| gpu.measure(stream, tensors, true))?;
            // The kernel for few.
            let few = |cases: &[Case<'_>]| check(device, cases, |tensors| gpu.measure(stream, tensors, true));
            cases.chunks(FEW_TENSORS).try_for_each(few)?;
            if dtype != DType::F32 {
                return Ok(());
            }
            // Where no graph is captured, it runs at once. A kernel is loaded by its first launch, which may wait.
            let mut graph = GraphMeasurement::new(gpu);
            check(device, &cases, |tensors| match graph.add(stream, tensors, true) {
                (_, None) => graph.take(stream),
                (_, error) => (graph.take(stream).0, error),
            })
        })
    })?;
    Ok(())
}

fn check(
    address: u64,
    cases: &[Case<'_>],
    measure: impl FnOnce(&[GpuTensor]) -> (Measurement, Option<Error>),
) -> Result<(), Error> {
    let tensor = |case: &Case<'_>| GpuTensor {
        dtype: case.view.dtype(),
        address: address + case.origin as u64,
        shape: case.view.shape().to_vec(),
        strides: case.view.strides().to_vec(),
    };
    let tensors: Vec<GpuTensor> = cases.iter().map(tensor).collect();
    let (measurement, error) = measure(&tensors);
    if let Some(error) = error {
        return Err(error);
    }
    let begun = Instant::now();
    while !measurement.has_arrived() {
        measurement.check()?;
        if begun.elapsed() > LONGEST_WAIT {
            return Err(Error::NoAnswer(LONGEST_WAIT.as_secs()));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    for (case, found) in cases.iter().zip(measurement.numbers()) {
        let expected = Stats { subnormals: 0, ..stats(&case.view, Threads::One) };
        let expected_digest = Some(digest(&case.view, DigestKind::Mix64));
        if !found.as_ref().is_some_and(|found| found.1 == expected_digest && is_same(&found.0, &expected)) {
            let (expected, found) = (format!("{expected:?} {expected_digest:?}"), format!("{found:?}"));
            return Err(Error::SelfCheck { dtype: case.view.dtype(), expected, found });
        }
    }
    Ok(())
}

struct Case<'a> {
    view: View<'a>,
    origin: usize,
}

/// Views of the same bytes: packed, not aligned, in whole rows, transposed, with gaps, expanded, of one element.
fn cases(dtype: DType, bytes: &[u8]) -> Vec<Case<'_>> {
    let size = dtype.size();
    let all = bytes.len() / size;
    // Shape, strides in elements, first element.
    let finite = [(all / 2 - 1).min(30_000)];
    let layouts: [(&[usize], &[isize], usize); 10] = [
        (&finite, &[1], 0),
        (&[100], &[1], 0),
        (&[all], &[1], 0),
        (&[all - 1], &[1], 1),
        (&[100, 16], &[64, 1], 0),
        (&[90, 70], &[1, 90], 0),
        (&[17, 30], &[140, 2], 3),
        (&[9, 1, 100], &[0, 5, 1], 1),
        (&[3, 4, 5, 6], &[1000, 7, 1, 30], 2),
        (&[1], &[1], 5),
    ];
    let case = |(shape, strides, first): (&[usize], &[isize], usize)| {
        let strides: Vec<isize> = strides.iter().map(|stride| stride * size as isize).collect();
        let origin = first * size;
        Some(Case { view: View::strided(dtype, shape.to_vec(), strides, bytes, origin).ok()?, origin })
    };
    layouts.into_iter().filter_map(case).collect()
}

/// Bytes that contain, for a dtype of up to 16 bits, every pattern; for others numbers of all sizes, zeros of both signs,
/// subnormals, NaN and infinities.
fn awkward(dtype: DType) -> Vec<u8> {
    let size = dtype.size();
    let kind = dtype.encoding().kind();
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 11
    };
    let part = match kind {
        NumberKind::Complex => size / 2,
        _ => size,
    };
    let mut bytes = Vec::with_capacity(BYTES);
    for number in 0..BYTES / part {
        let random = next();
        // The first half is finite, so that its sums can be compared.
        let is_special = number > BYTES / part / 2 && number % 509 == 0;
        let bits: u64 = match (kind, part) {
            (NumberKind::Bool, _) => random & 1,
            (_, 1 | 2) => number as u64,
            (NumberKind::Float | NumberKind::Complex, 4) => special(random, is_special, f32_bits),
            (NumberKind::Float | NumberKind::Complex, _) => special(random, is_special, f64::to_bits),
            _ => random.rotate_left((number % 64) as u32) ^ random << 40,
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..part]);
    }
    bytes
}

fn f32_bits(value: f64) -> u64 {
    (value as f32).to_bits().into()
}

/// Mostly ordinary numbers of many sizes, in between the special ones.
fn special(random: u64, is_special: bool, to_bits: fn(f64) -> u64) -> u64 {
    const RARE: [f64; 8] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e-40, -5e-324, 3e38];
    if is_special {
        return to_bits(RARE[random as usize % RARE.len()]);
    }
    let unit = random as f64 / (1u64 << 53) as f64 - 0.5;
    to_bits(unit * f64::powi(2.0, (random % 61) as i32 - 30))
}

/// Whether numbers agree: sums within the bound, all others in every bit.
fn is_same(found: &Stats, expected: &Stats) -> bool {
    let close = |one: f64, other: f64| {
        one == other || one.is_nan() && other.is_nan() || (one - other).abs() <= BOUND * other.abs()
    };
    // Sums may cancel: the norm is larger than the mean of absolute values.
    let scale = expected.norm;
    let (mean, other) = (found.mean.unwrap_or(0.0), expected.mean.unwrap_or(0.0));
    let is_close_mean = close(mean, other) || (mean - other).abs() <= BOUND * scale;
    let rest = |stats: &Stats| format!("{:?}", Stats { mean: None, norm: 0.0, ..stats.clone() });
    // NaN is not equal to itself; the text is.
    is_close_mean && close(found.norm, expected.norm) && rest(found) == rest(expected)
}
