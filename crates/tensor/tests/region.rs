//! Regions compared with sets of single bytes.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use ulpscope_tensor::Region;

/// Every byte of a layout.
fn bytes(start: usize, size: usize, shape: &[usize], strides: &[usize]) -> HashSet<usize> {
    let mut starts = vec![start];
    for (&count, &stride) in shape.iter().zip(strides) {
        starts =
            starts.iter().flat_map(|at| (0..count).map(move |place| at + place * stride * size)).collect();
    }
    starts.iter().flat_map(|at| *at..at + size).collect()
}

/// Slices of a matrix and of a cube, their transposes, diagonals, and every other element.
fn layouts() -> Vec<(usize, Vec<usize>, Vec<usize>)> {
    let mut found = Vec::new();
    for offset in 0..7 {
        for (rows, columns, step) in [(1, 4, 1), (3, 1, 1), (2, 2, 1), (3, 2, 2), (2, 3, 1), (1, 1, 1)] {
            found.push((offset, vec![rows, columns], vec![6, step]));
            found.push((offset, vec![columns, rows], vec![step, 6]));
            found.push((offset, vec![2, rows, columns], vec![18, 6, step]));
        }
        found.push((offset, vec![3], vec![7]));
        found.push((offset, vec![2, 3], vec![0, 5]));
        found.push((offset, vec![5, 2], vec![2, 12]));
    }
    found
}

#[test]
fn regions_meet_if_they_share_a_byte() {
    let mut met = [0, 0];
    for (offset, shape, strides) in layouts() {
        let left = Region::new(1000 + offset * 4, 4, &shape, &strides).unwrap();
        let own = bytes(1000 + offset * 4, 4, &shape, &strides);
        for (offset, shape, strides) in layouts() {
            let right = Region::new(1000 + offset * 4, 4, &shape, &strides).unwrap();
            let other = bytes(1000 + offset * 4, 4, &shape, &strides);
            let wanted = !own.is_disjoint(&other);
            assert_eq!(left.meets(&right), wanted, "{left:?} {right:?}");
            assert!(!left.covers(&right) || own.is_superset(&other), "{left:?} {right:?}");
            met[usize::from(wanted)] += 1;
        }
    }
    assert!(met[0] > 1000 && met[1] > 1000, "{met:?}");
}

#[test]
fn halves_of_a_long_matrix_do_not_meet() {
    let half = |first: usize| Region::new(first * 4, 4, &[1 << 20, 8], &[16, 1]).unwrap();
    assert!(!half(0).meets(&half(8)));
    assert!(half(0).meets(&half(7)));
}

#[test]
fn a_layout_that_overlaps_itself_counts_as_everything_between() {
    let crossing = Region::new(0, 1, &[3, 3], &[3, 2]).unwrap();
    let between = Region::new(1, 1, &[1], &[1]).unwrap();
    assert!(crossing.meets(&between));
}

#[test]
fn a_tensor_without_elements_has_no_region() {
    assert_eq!(Region::new(0, 4, &[2, 0], &[1, 1]), None);
}
