//! The arithmetic of the older tools. Expected values come from the tools' own numpy formulas.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use ulpscope_kernels::{Level, PeerArithmetic, PeerErrors, Threads, peer_errors, peer_errors_at};
use ulpscope_tensor::{DType, View};

const ALL: [PeerArithmetic; 4] = [
    PeerArithmetic::Promoted,
    PeerArithmetic::Stored,
    PeerArithmetic::StoredUnmasked,
    PeerArithmetic::Double,
];

/// A dtype and the bytes of some elements.
type Tensor = (DType, Vec<u8>);

fn f16s(bits: &[u16]) -> Tensor {
    (DType::F16, bits.iter().flat_map(|bits| bits.to_le_bytes()).collect())
}

fn f32s(values: &[f64]) -> Tensor {
    (DType::F32, values.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect())
}

fn f64s(values: &[f64]) -> Tensor {
    (DType::F64, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn i32s(values: &[i32]) -> Tensor {
    (DType::I32, values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn view((dtype, bytes): &Tensor) -> View<'_> {
    View::contiguous(*dtype, vec![bytes.len() / dtype.size()], bytes).unwrap()
}

fn measure(target: &Tensor, golden: &Tensor, arithmetic: PeerArithmetic) -> PeerErrors {
    peer_errors(&view(target), &view(golden), arithmetic, Threads::One).unwrap()
}

/// 1.1, 0.25, 0, -3, 2.002 and 0.001 as f16, f32 and f64.
fn targets() -> [Tensor; 3] {
    let values = [1.1, 0.25, 0.0, -3.0, 2.002, 1e-3];
    [f16s(&[0x3c66, 0x3400, 0, 0xc200, 0x4001, 0x1419]), f32s(&values), f64s(&values)]
}

/// 1, 0, 0, -3.3, 2 and 0.0010005 as f16, f32 and f64.
fn goldens() -> [Tensor; 3] {
    let values = [1.0, 0.0, 0.0, -3.3, 2.0, 1.0005e-3];
    [f16s(&[0x3c00, 0, 0, 0xc29a, 0x4000, 0x1419]), f32s(&values), f64s(&values)]
}

/// The result of numpy: largest relative error, and how many of six are under each limit.
type Expected = (f64, u32, u32);

fn check(arithmetic: PeerArithmetic, expected: [[Expected; 3]; 3]) {
    for (target, row) in targets().iter().zip(expected) {
        for (golden, (max_rel, under_1e3, under_5e3)) in goldens().iter().zip(row) {
            let found = measure(target, golden, arithmetic);
            let shares = [under_1e3, under_5e3].map(|under| f64::from(under) / 6.0);
            assert_eq!(
                (found.mismatched, found.max_rel, [found.under_1e3, found.under_5e3]),
                (false, max_rel, shares),
                "{:?} against {:?}, {arithmetic:?}",
                target.0,
                golden.0
            );
        }
    }
}

#[test]
fn in_the_promoted_type() {
    const DOUBLE: f64 = 1_125_899_906_842_624.0;
    check(
        PeerArithmetic::Promoted,
        [
            [(2_097_152.0, 3, 3), (2_097_152.0, 3, 3), (DOUBLE, 3, 3)],
            [(2_097_152.0, 2, 3), (2_097_152.0, 2, 3), (DOUBLE, 2, 3)],
            [(DOUBLE, 3, 3), (DOUBLE, 3, 3), (DOUBLE, 3, 3)],
        ],
    );
}

#[test]
fn in_the_stored_types() {
    // The target keeps its type when epsilon is added: 0.25 + 2^-52 is 0.25 in f16.
    let expected = [
        [(256.0, 3, 3), (2_097_151.0, 3, 3), (1_125_899_906_842_623.0, 2, 2)],
        [(256.0, 2, 3), (2_097_152.0, 2, 3), (1_125_899_906_842_623.0, 2, 3)],
        [(256.0, 3, 3), (2_097_152.0, 3, 3), (1_125_899_906_842_624.0, 3, 3)],
    ];
    check(PeerArithmetic::Stored, expected);
    check(PeerArithmetic::StoredUnmasked, expected);
}

#[test]
fn in_double() {
    let [_, target, _] = targets();
    let [_, golden, _] = goldens();
    let found = measure(&target, &golden, PeerArithmetic::Double);
    assert_eq!((found.max_rel, found.max_abs), (1_125_899_906_842_624.0, 0.299_999_952_316_284_2));
}

#[test]
fn epsilon_that_stays_affects_the_other_errors() {
    let (target, golden) = (f16s(&[0x5640, 0x3c00]), f16s(&[0, 0x3c00]));
    let stored = measure(&target, &golden, PeerArithmetic::Stored);
    assert_eq!((stored.max_abs, stored.dot), (99.999_023_437_5, 1.097_656_25));
    // In f16 the quotient of 100 and epsilon exceeds the largest number.
    assert_eq!(stored.max_rel, f64::INFINITY);
    let promoted = measure(&target, &golden, PeerArithmetic::Promoted);
    assert_eq!((promoted.max_abs, promoted.dot, promoted.golden_norm), (100.0, 1.0, 1.0));
}

#[test]
fn integers_become_double() {
    let (target, golden) = (i32s(&[3, 0, -2]), i32s(&[2, 0, 0]));
    for arithmetic in ALL {
        let found = measure(&target, &golden, arithmetic);
        assert_eq!((found.max_rel, found.under_1e3), (2.0 * 2f64.powi(52), 1.0 / 3.0), "{arithmetic:?}");
        assert_eq!((found.max_abs, found.dot, found.euclid), (2.0, 6.0, 5f64.sqrt()), "{arithmetic:?}");
    }
}

#[test]
fn a_limit_is_rounded_like_the_errors() {
    // 1/1000 is not under the limit of 1/1000 in any type; in f32 the quotient and the limit round to the same
    // number.
    let (target, golden) = ([1001.0, 1000.9, 1004.9], [1000.0; 3]);
    for arithmetic in ALL {
        for (target, golden) in [(f32s(&target), f32s(&golden)), (f64s(&target), f64s(&golden))] {
            let found = measure(&target, &golden, arithmetic);
            assert_eq!((found.under_1e3, found.under_5e3), (1.0 / 3.0, 1.0), "{arithmetic:?}");
        }
    }
}

#[test]
fn elements_that_are_not_finite() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let golden = f32s(&[1.0, inf, nan, 2.0]);
    // The sign of an infinity does not count; masked elements are a pair of zeros, hence without an error.
    let target = f32s(&[1.0, -inf, nan, 2.5]);
    for arithmetic in [PeerArithmetic::Promoted, PeerArithmetic::Stored, PeerArithmetic::Double] {
        let found = measure(&target, &golden, arithmetic);
        assert_eq!((found.mismatched, found.max_rel, found.under_1e3), (false, 0.25, 0.75), "{arithmetic:?}");
        assert_eq!((found.max_abs, found.euclid), (0.5, 0.5), "{arithmetic:?}");
    }
    let unmasked = measure(&target, &golden, PeerArithmetic::StoredUnmasked);
    assert!(unmasked.max_rel.is_nan());
    assert_eq!((unmasked.mismatched, unmasked.under_1e3, unmasked.max_abs), (false, 0.25, 0.5));
    for other in [[1.0, nan, nan, 2.0], [1.0, inf, inf, 2.0], [1.0, 0.0, nan, 2.0], [inf, inf, nan, 2.0]] {
        for arithmetic in ALL {
            assert!(measure(&f32s(&other), &golden, arithmetic).mismatched, "{other:?}, {arithmetic:?}");
        }
    }
}

#[test]
fn empty_tensors() {
    let empty = f32s(&[]);
    for arithmetic in ALL {
        let found = measure(&empty, &empty, arithmetic);
        assert_eq!((found.mismatched, found.max_rel, found.under_1e3, found.dot), (false, 0.0, 0.0, 0.0));
    }
}

#[test]
fn shapes_must_agree() {
    let (a, b) = (f32s(&[1.0]), f32s(&[1.0, 2.0]));
    assert!(peer_errors(&view(&a), &view(&b), PeerArithmetic::Double, Threads::One).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_instruction_set_and_no_number_of_threads_changes_a_bit(
        target in prop::sample::select(&DType::ALL[..]),
        golden in prop::sample::select(&DType::ALL[..]),
        count in prop_oneof![0usize..40, 4080usize..4120, 524_280usize..524_300],
        seed in any::<u64>(),
    ) {
        let mut state = seed | 1;
        let mut tensor = |dtype: DType| {
            let bytes = (0..count * dtype.size()).map(|index| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Runs of zeros among random bits.
                if index / 512 % 3 == 0 { 0 } else { (state >> 56) as u8 }
            });
            (dtype, bytes.collect::<Vec<u8>>())
        };
        let (target, golden) = (tensor(target), tensor(golden));
        for arithmetic in ALL {
            let measure = |level, threads| {
                format!("{:?}", peer_errors_at(level, &view(&target), &view(&golden), arithmetic, threads).unwrap())
            };
            let expected = measure(Level::Baseline, Threads::One);
            for level in Level::available() {
                for threads in [Threads::One, Threads::All] {
                    prop_assert_eq!(&measure(level, threads), &expected, "{:?}, {:?}, {:?}", arithmetic, level, threads);
                }
            }
        }
    }
}
