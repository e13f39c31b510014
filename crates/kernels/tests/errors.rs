//! Errors of blocks that are measured in an unusual way: masked, rounded, or with differences beyond f32.

#![allow(clippy::unwrap_used)]

use ulpscope_kernels::{Comparison, Threads, Tolerance, compare, errors};
use ulpscope_tensor::{DType, View};

fn measure(dtype: DType, target: &[u8], golden: &[u8]) -> Comparison {
    let view = |bytes| View::contiguous(dtype, vec![target.len() / dtype.size()], bytes).unwrap();
    compare(&view(target), &view(golden), Tolerance::default(), Threads::One).unwrap()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn distances_in_the_last_place_beside_a_nan() {
    for (dtype, one, nan) in [(DType::F16, 0x3c00u16, 0x7e00u16), (DType::BF16, 0x3f80, 0x7fc0)] {
        let golden: Vec<u8> = [one, nan, one, 1].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let target: Vec<u8> =
            [one + 3, nan, one, 0x8001].iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let found = measure(dtype, &target, &golden);
        assert_eq!((found.max_ulp, found.mean_ulp), (Some(3), Some(5.0 / 3.0)), "{dtype:?}");
    }
    let (one, next) = (1f32, 1f32.next_up());
    let found = measure(DType::F32, &f32s(&[next, f32::NAN, 0.0]), &f32s(&[one, f32::NAN, -0.0]));
    assert_eq!((found.max_ulp, found.mean_ulp), (Some(1), Some(0.5)));
}

#[test]
fn distances_across_zero_fill_32_bits() {
    let (target, golden) = (f32s(&[f32::MAX; 5000]), f32s(&[f32::MIN; 5000]));
    let apart = 2 * u64::from(f32::MAX.to_bits());
    let found = measure(DType::F32, &target, &golden);
    assert_eq!((found.max_ulp, found.mean_ulp), (Some(apart), Some(apart as f64)));
}

#[test]
fn exponents_where_f32_and_f64_differences_disagree() {
    // Rounded up to a power of two in f32: 1 - 2^-30 is below it.
    let found = measure(DType::F32, &f32s(&[2f32.powi(-30), 3.0]), &f32s(&[1.0, 3.0]));
    assert_eq!((found.exponents.zeros, &found.exponents.rows[..]), (1, &[(-1, 1)][..]));
    // Subnormal in f32, but not in f64.
    let tiny = f32::from_bits(5);
    let found = measure(DType::F32, &f32s(&[tiny, 0.0, 1.0]), &f32s(&[0.0, 0.0, 1.0]));
    assert_eq!((found.exponents.zeros, &found.exponents.rows[..]), (2, &[(-147, 1)][..]));
    // Beyond the largest f32.
    let found = measure(DType::F32, &f32s(&[f32::MAX, 2.0]), &f32s(&[f32::MIN, 1.0]));
    assert_eq!(found.exponents.rows, [(0, 1), (128, 1)]);
}

#[test]
fn exponents_of_every_size_in_one_block() {
    let target: Vec<f32> = (0..4096).map(|index| 2f32.powi(index % 200 - 100)).collect();
    let found = measure(DType::F32, &f32s(&target), &f32s(&vec![0.0; 4096]));
    let expected: Vec<(i32, u64)> =
        (-100..100).map(|exponent| (exponent, if exponent < -4 { 21 } else { 20 })).collect();
    assert_eq!((found.exponents.zeros, found.exponents.rows), (0, expected));
}

#[test]
fn shares_at_their_very_limit_in_16_bits() {
    // 200 and 201, 1000 and 1001 times the smallest f16: errors of exactly the limits are under neither.
    let golden: Vec<u8> = [200u16, 1000, 1000, 1000].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let target: Vec<u8> = [201u16, 1001, 1004, 1000].iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let found = measure(DType::F16, &target, &golden).distances;
    assert_eq!((found.under_1e3, found.under_5e3, found.max_rel), (0.25, 0.75, 0.005));
}

#[test]
fn without_the_histogram_everything_else_is_the_same() {
    let golden: Vec<f32> = (0..10_000).map(|index| (index as f32 / 7.0).sin()).collect();
    let target: Vec<f32> = golden.iter().map(|value| value * 1.001).collect();
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I32, DType::C64] {
        let (target, golden) = (f32s(&target), f32s(&golden));
        let view = |bytes| View::contiguous(dtype, vec![target.len() / dtype.size()], bytes).unwrap();
        let (target, golden) = (view(&target), view(&golden));
        let whole = compare(&target, &golden, Tolerance::default(), Threads::One).unwrap();
        let without = errors(&target, &golden, Tolerance::default(), Threads::One).unwrap();
        assert!(!whole.exponents.rows.is_empty());
        let expected = Comparison { exponents: Default::default(), ..whole };
        assert_eq!(format!("{without:?}"), format!("{expected:?}"), "{dtype:?}");
    }
}
