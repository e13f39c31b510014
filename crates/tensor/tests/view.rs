//! Views address exactly the elements they should.

#![allow(clippy::unwrap_used)]

use ulpscope_tensor::{DType, Scalar, View, ViewError};

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn values(view: &View<'_>) -> Vec<f64> {
    (0..view.len()).map(|i| view.get(i).to_f64()).collect()
}

#[test]
fn transposed_reversed_and_broadcast_views_read_in_logical_order() {
    let data = bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let transposed = View::strided(DType::F32, vec![3, 2], vec![4, 12], &data, 0).unwrap();
    assert_eq!(values(&transposed), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let reversed = View::strided(DType::F32, vec![6], vec![-4], &data, 20).unwrap();
    assert_eq!(values(&reversed), [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
    let broadcast = View::strided(DType::F32, vec![2, 3], vec![0, 4], &data, 12).unwrap();
    assert_eq!(values(&broadcast), [3.0, 4.0, 5.0, 3.0, 4.0, 5.0]);
    assert!(transposed.as_packed().is_none());
    assert_eq!(View::contiguous(DType::F32, vec![2, 3], &data).unwrap().as_packed(), Some(&data[..]));
}

#[test]
fn gather_from_any_start_equals_the_packed_whole() {
    let data = bytes(&(0..60).map(|v| v as f32).collect::<Vec<_>>());
    let view = View::strided(DType::F32, vec![3, 4, 5], vec![4, 60, 12], &data, 0).unwrap();
    let whole = view.to_packed();
    for start in 0..60 {
        for count in [1, 2, 7, 60 - start] {
            if start + count <= 60 {
                let mut part = vec![0; count * 4];
                view.gather(start, &mut part);
                assert_eq!(part, whole[start * 4..(start + count) * 4]);
            }
        }
    }
}

#[test]
fn a_view_that_would_leave_its_bytes_is_refused() {
    let data = [0u8; 24];
    let out_of_bounds = |shape: Vec<usize>, strides: Vec<isize>, origin| {
        View::strided(DType::F32, shape, strides, &data, origin).unwrap_err()
    };
    assert!(matches!(out_of_bounds(vec![7], vec![4], 0), ViewError::OutOfBounds { end: 28, .. }));
    assert!(matches!(out_of_bounds(vec![6], vec![-4], 16), ViewError::OutOfBounds { first: -4, .. }));
    assert!(matches!(out_of_bounds(vec![1], vec![4], 21), ViewError::OutOfBounds { end: 25, .. }));
    assert!(matches!(out_of_bounds(vec![2], vec![isize::MAX], 0), ViewError::OutOfBounds { .. }));
    assert!(matches!(out_of_bounds(vec![usize::MAX, 2], vec![0, 0], 0), ViewError::Overflow { .. }));
    assert!(matches!(out_of_bounds(vec![1], vec![], 0), ViewError::RankMismatch { .. }));
}

#[test]
fn empty_views_may_point_anywhere() {
    let view = View::contiguous(DType::F64, vec![3, 0, usize::MAX], &[]).unwrap();
    assert!(view.is_empty());
    assert_eq!(view.as_packed(), Some(&[][..]));
}

#[test]
fn zero_dimensions_are_one_element() {
    let data = 2.5f64.to_le_bytes();
    let view = View::contiguous(DType::F64, vec![], &data).unwrap();
    assert_eq!(view.len(), 1);
    assert_eq!(view.get(0), Scalar::Float(2.5));
}
