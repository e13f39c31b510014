//! Where the elements of a tensor lie in memory, and whether two tensors have any in common.
//!
//! Views of one tensor may lie between each other's elements (the columns of a matrix) without sharing one. The answer is
//! exact for what slicing, transposing and expanding make; a layout that crosses itself, or is made of very many pieces
//! that the other one's do not line up with, is taken for everything between its first byte and its last.

use pyo3::intern;
use pyo3::prelude::*;

/// Pieces of a layout that are looked at one by one.
const MAX_PIECES: usize = 1 << 12;

/// The bytes that a tensor shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// The address of the first.
    start: usize,
    /// How many lie side by side.
    run: usize,
    /// How often that is repeated and at which distance, the widest distance first. Each is more than what is within it.
    repeats: Vec<Repeat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repeat {
    distance: usize,
    count: usize,
}

impl Region {
    /// The bytes of a tensor, whose first is at an address; nothing if it has none.
    pub(super) fn of(tensor: &Bound<'_, PyAny>, start: usize) -> PyResult<Option<Region>> {
        let py = tensor.py();
        let size: usize = tensor.call_method0(intern!(py, "element_size"))?.extract()?;
        if tensor.call_method0(intern!(py, "is_contiguous"))?.is_truthy()? {
            let count: usize = tensor.call_method0(intern!(py, "numel"))?.extract()?;
            return Ok((count > 0).then(|| Region { start, run: count * size, repeats: Vec::new() }));
        }
        let shape: Vec<usize> = tensor.getattr(intern!(py, "shape"))?.extract()?;
        let strides: Vec<usize> = tensor.call_method0(intern!(py, "stride"))?.extract()?;
        Ok(Region::new(start, size, &shape, &strides))
    }

    /// The bytes of elements of a size, with strides in elements.
    fn new(start: usize, size: usize, shape: &[usize], strides: &[usize]) -> Option<Region> {
        if shape.contains(&0) {
            return None;
        }
        let repeat = |(&count, &stride): (&usize, &usize)| Repeat { distance: stride * size, count };
        let mut repeats: Vec<Repeat> = shape.iter().zip(strides).map(repeat).collect();
        repeats.retain(|repeat| repeat.count > 1 && repeat.distance > 0);
        repeats.sort_unstable_by_key(|repeat| repeat.distance);
        let mut region = Region { start, run: size, repeats: Vec::new() };
        let mut crosses = false;
        // From the inside out; what follows without a gap is part of what is before it.
        for Repeat { distance, count } in repeats {
            let within = region.length();
            crosses |= distance < within;
            match region.repeats.first_mut() {
                None if distance == within => region.run *= count,
                Some(outer) if distance == outer.distance * outer.count => outer.count *= count,
                _ => region.repeats.insert(0, Repeat { distance, count }),
            }
        }
        if crosses {
            region = Region { start, run: region.length(), repeats: Vec::new() };
        }
        Some(region)
    }

    /// From the first byte to the last.
    fn length(&self) -> usize {
        length(self.run, &self.repeats)
    }

    fn end(&self) -> usize {
        self.start + self.length()
    }

    /// Whether another region is known to lie within this one.
    pub(super) fn covers(&self, other: &Region) -> bool {
        self == other || self.repeats.is_empty() && self.start <= other.start && other.end() <= self.end()
    }

    /// Whether there is a byte in both.
    pub(super) fn meets(&self, other: &Region) -> bool {
        if self.start >= other.end() || other.start >= self.end() {
            return false;
        }
        if let Some(answer) = on_one_grid(self, other) {
            return answer;
        }
        let (few, many) = if self.pieces() <= other.pieces() { (self, other) } else { (other, self) };
        few.pieces() > MAX_PIECES || few.any_piece(|from| many.has_any(from, from + few.run))
    }

    /// How many pieces there are.
    fn pieces(&self) -> usize {
        self.repeats.iter().fold(1, |pieces, repeat| pieces.saturating_mul(repeat.count))
    }

    /// Whether something holds for the beginning of any piece.
    fn any_piece(&self, holds: impl Fn(usize) -> bool) -> bool {
        let mut at = vec![0; self.repeats.len()];
        loop {
            let offset: usize =
                at.iter().zip(&self.repeats).map(|(place, repeat)| place * repeat.distance).sum();
            if holds(self.start + offset) {
                return true;
            }
            let next = (0..at.len()).rev().find(|&axis| at[axis] + 1 < self.repeats[axis].count);
            let Some(axis) = next else { return false };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
    }

    /// Whether there is a byte of it from one address up to another.
    fn has_any(&self, from: usize, to: usize) -> bool {
        to > self.start && has_any(self.run, &self.repeats, from.saturating_sub(self.start), to - self.start)
    }
}

fn length(run: usize, repeats: &[Repeat]) -> usize {
    run + repeats.iter().map(|repeat| (repeat.count - 1) * repeat.distance).sum::<usize>()
}

/// Whether a layout that begins at 0 has a byte from one place up to another.
fn has_any(run: usize, repeats: &[Repeat], from: usize, to: usize) -> bool {
    let Some((outer, inner)) = repeats.split_first() else { return from < run && to > 0 };
    let within = length(run, inner);
    let last = (to.saturating_sub(1) / outer.distance).min(outer.count - 1);
    // The first whose end lies behind the beginning.
    let first = if from < within { 0 } else { (from - within) / outer.distance + 1 };
    (first..=last).any(|place| {
        let at = place * outer.distance;
        at >= from || has_any(run, inner, from - at, to - at)
    })
}

/// The answer for two layouts that are repeated at the same distances, neither across the end of a repetition: they
/// meet where they do so along each. Nothing for others.
fn on_one_grid(left: &Region, right: &Region) -> Option<bool> {
    let [outer, ..] = left.repeats.as_slice() else { return None };
    if left
        .repeats
        .iter()
        .map(|repeat| repeat.distance)
        .ne(right.repeats.iter().map(|repeat| repeat.distance))
    {
        return None;
    }
    // A whole number of the widest distances before both.
    let origin = left.start.min(right.start) / outer.distance * outer.distance;
    let (mut first, mut second) = (left.start - origin, right.start - origin);
    let mut meets = true;
    for (axis, (own, other)) in left.repeats.iter().zip(&right.repeats).enumerate() {
        let distance = own.distance;
        let (place, other_place) = (first / distance, second / distance);
        (first, second) = (first % distance, second % distance);
        let crosses =
            |from: usize, region: &Region| from + length(region.run, &region.repeats[axis + 1..]) > distance;
        if crosses(first, left) || crosses(second, right) {
            return None;
        }
        meets &= place < other_place + other.count && other_place < place + own.count;
    }
    Some(meets && first < second + right.run && second < first + left.run)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;

    /// Every byte, one by one.
    fn bytes(start: usize, size: usize, shape: &[usize], strides: &[usize]) -> HashSet<usize> {
        let mut starts = vec![start];
        for (&count, &stride) in shape.iter().zip(strides) {
            starts = starts
                .iter()
                .flat_map(|at| (0..count).map(move |place| at + place * stride * size))
                .collect();
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
    fn regions_meet_where_they_have_a_byte_in_common() {
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
    fn what_crosses_itself_is_taken_for_everything_between() {
        let crossing = Region::new(0, 1, &[3, 3], &[3, 2]).unwrap();
        let between = Region::new(1, 1, &[1], &[1]).unwrap();
        assert!(crossing.meets(&between));
    }

    #[test]
    fn what_has_no_elements_is_nowhere() {
        assert_eq!(Region::new(0, 4, &[2, 0], &[1, 1]), None);
    }
}
