//! Two tensors without their sentinels, compared with explicit sums.

#![allow(clippy::unwrap_used)]

use ulpscope_kernels::{Reading, Threads, rest};
use ulpscope_tensor::{DType, View};

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn view<'a>(bytes: &'a [u8], shape: &[usize]) -> View<'a> {
    View::contiguous(DType::F32, shape.to_vec(), bytes).unwrap()
}

#[test]
fn pairs_of_sentinels_are_left_out_and_the_rest_is_measured() {
    let hidden = f32::MIN;
    let (target, golden) = ([1.0, hidden, -3.0, f32::NAN, hidden], [1.5, hidden, -3.0, f32::NAN, hidden]);
    let (one, other) = (bytes(&target), bytes(&golden));
    let found =
        rest(&view(&one, &[5]), &view(&other, &[5]), (hidden.into(), hidden.into()), Threads::One).unwrap();
    assert_eq!((found.left_out, found.one_sided, found.count), (2, 0, 2));
    assert_eq!((found.euclid(), found.max_abs, found.largest), (0.5, 0.5, 3.0));
    assert_eq!(found.norms(), [10f64.sqrt(), 11.25f64.sqrt()]);
    assert_eq!(found.cosine(), Some(10.5 / (10f64.sqrt() * 11.25f64.sqrt())));
}

#[test]
fn a_sentinel_of_one_side_is_counted() {
    let (one, other) = (bytes(&[-1e9, 1.0]), bytes(&[1.0, -1e9]));
    let found = rest(&view(&one, &[2]), &view(&other, &[2]), (-1e9, -1e9), Threads::One).unwrap();
    assert_eq!((found.left_out, found.one_sided, found.count), (0, 2, 0));
}

#[test]
fn threads_do_not_change_a_bit() {
    let values = |seed: u32| -> Vec<u8> {
        let of =
            |at: u32| if at.is_multiple_of(7) { -1e9 } else { (at.wrapping_mul(seed) % 1000) as f32 / 7.0 };
        bytes(&(0..1_500_000).map(of).collect::<Vec<f32>>())
    };
    let (one, other) = (values(2_654_435_761), values(2_246_822_519));
    let shape = [1_500_000];
    let measured = [Threads::One, Threads::All].map(|threads| {
        let reading: Reading<'_> = threads.into();
        rest(&view(&one, &shape), &view(&other, &shape), (-1e9, -1e9), reading).unwrap()
    });
    assert_eq!(measured[0], measured[1]);
    assert_eq!(measured[0].left_out, 1_500_000_u64.div_ceil(7));
}
