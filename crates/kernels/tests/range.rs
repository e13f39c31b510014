//! Range checks: one known bad element anywhere is found, and what a conversion loses is counted as torch rounds.

use half::{bf16, f16};
use ulpscope_kernels::{Level, Reach, Survival, Threads, reach_at, survival};
use ulpscope_tensor::{DType, View};

fn view(dtype: DType, bytes: &[u8]) -> View<'_> {
    View::contiguous(dtype, vec![bytes.len() / dtype.size()], bytes).expect("whole elements")
}

/// The reach of `count` zeros with one element, at every place that decides, on every instruction set.
fn found(dtype: DType, element: &[u8], count: usize) -> Reach {
    let mut found = Vec::new();
    for place in [0, 1, count / 2, count - 2, count - 1] {
        let mut bytes = vec![0; count * dtype.size()];
        bytes[place * dtype.size()..][..element.len()].copy_from_slice(element);
        for level in Level::available() {
            for threads in [Threads::One, Threads::All] {
                found.push(reach_at(level, &view(dtype, &bytes), threads));
            }
        }
    }
    assert!(found.iter().all(|one| *one == found[0]), "{dtype:?} {element:?} {count}: {found:?}");
    found[0]
}

#[test]
fn one_element_decides_wherever_it_is() {
    use Reach::{AtLimit, InRange, Infinite, Nan};
    let cases: Vec<(DType, Vec<u8>, Reach)> = vec![
        (DType::F32, f32::NAN.to_le_bytes().into(), Nan),
        (DType::F32, f32::NEG_INFINITY.to_le_bytes().into(), Infinite),
        (DType::F32, f32::MIN.to_le_bytes().into(), AtLimit),
        (DType::F32, f32::MAX.next_down().to_le_bytes().into(), InRange),
        (DType::F64, f64::NAN.to_le_bytes().into(), Nan),
        (DType::F64, f64::MAX.to_le_bytes().into(), AtLimit),
        (DType::F16, f16::INFINITY.to_le_bytes().into(), Infinite),
        (DType::F16, f16::MIN.to_le_bytes().into(), AtLimit),
        (DType::F16, f16::from_f32(65472.0).to_le_bytes().into(), InRange),
        (DType::BF16, bf16::NAN.to_le_bytes().into(), Nan),
        (DType::BF16, bf16::MAX.to_le_bytes().into(), AtLimit),
        // The parts of a complex number count, not its modulus.
        (DType::C64, f32::INFINITY.to_le_bytes().into(), Infinite),
        (DType::C128, f64::MIN.to_le_bytes().into(), AtLimit),
        (DType::F8E4M3FN, vec![0x7f], Nan),
        (DType::F8E4M3FN, vec![0xfe], AtLimit),
        (DType::F8E4M3FN, vec![0x7d], InRange),
        (DType::F8E5M2, vec![0x7c], Infinite),
        (DType::F8E5M2, vec![0x7d], Nan),
        (DType::F8E5M2, vec![0x7b], AtLimit),
        (DType::I64, i64::MAX.to_le_bytes().into(), InRange),
    ];
    for (dtype, element, expected) in cases {
        for count in [5, 64, 4096, 600_000] {
            assert_eq!(found(dtype, &element, count), expected, "{dtype:?} {element:?} among {count}");
        }
    }
    assert_eq!(reach_at(Level::best(), &view(DType::F32, &[]), Threads::One), InRange);
}

#[test]
fn strided_elements_are_found_and_those_between_are_not() {
    let values = [1.0f32, f32::NAN, 2.0, f32::NAN, 3.0, f32::NAN];
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let every_other = |origin| View::strided(DType::F32, &[3], &[8], &bytes, origin).expect("within");
    assert_eq!(reach_at(Level::best(), &every_other(0), Threads::One), Reach::InRange);
    assert_eq!(reach_at(Level::best(), &every_other(4), Threads::One), Reach::Nan);
}

#[test]
fn a_permuted_tensor_is_read_whole() {
    let mut values = [0.0f32; 2 * 3 * 5];
    for place in 0..values.len() {
        values[place] = f32::INFINITY;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let strides: &[isize] = &[4, 40, 8];
        let view = View::strided(DType::F32, &[2, 3, 5], strides, &bytes, 0).expect("within");
        assert_eq!(reach_at(Level::best(), &view, Threads::One), Reach::Infinite, "element {place}");
        // An expanded one repeats the first row: it has no other elements.
        let rows: &[isize] = &[0, 4];
        let view = View::strided(DType::F32, &[1000, 5], rows, &bytes, 0).expect("within");
        let expected = if place < 5 { Reach::Infinite } else { Reach::InRange };
        assert_eq!(reach_at(Level::best(), &view, Threads::One), expected, "element {place}");
        values[place] = 0.0;
    }
}

#[test]
fn survival_agrees_with_an_exact_conversion_around_the_limits() {
    // Around half a unit above the largest and half of the smallest number of float16, in steps of a float32.
    let mut values = vec![0.0f32, -0.0, f32::NAN, f32::INFINITY, 1.0, -3.5, f32::MAX, f32::from_bits(1)];
    for centre in [65504.0f32, 65519.99, 65520.0, 5.960_464_5e-8, 2.980_232_2e-8] {
        values.extend((-3i32..=3).flat_map(|step| {
            let near = f32::from_bits((centre.to_bits() as i32 + step) as u32);
            [near, -near]
        }));
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let counted = values.iter().filter(|value| value.is_finite() && **value != 0.0);
    let mut expected = Survival::default();
    for value in counted {
        let converted = f16::from_f32(*value);
        expected.elements += 1;
        expected.overflows += u64::from(!converted.is_finite());
        expected.underflows += u64::from(converted.to_f32() == 0.0);
    }
    assert!(expected.overflows > 8 && expected.underflows > 8);
    assert_eq!(survival(&view(DType::F32, &bytes), DType::F16, Threads::One), Some(expected));
    assert_eq!(survival(&view(DType::F32, &bytes), DType::I32, Threads::One), None);
}
