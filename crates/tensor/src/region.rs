//! The memory of a tensor's elements, and whether two tensors share any.
//!
//! Views of one tensor may be interleaved (the columns of a matrix) without sharing an element. The answer is exact
//! for the results of slicing, transposing and expanding. A layout that overlaps itself, or has very many pieces
//! that are not aligned with those of the other one, counts as everything between its first byte and its last.

/// Maximum pieces of a layout that are examined one by one.
const MAX_PIECES: usize = 1 << 12;

/// The bytes of a tensor's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The address of the first byte.
    start: usize,
    /// The number of adjacent bytes.
    run: usize,
    /// How often that is repeated and at which distance, the widest distance first. Each distance is at least the
    /// length of what it repeats.
    repeats: Vec<Repeat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repeat {
    distance: usize,
    count: usize,
}

impl Region {
    /// The bytes of elements of the given size, the first at `start`, with strides in elements; nothing if there are
    /// no elements.
    pub fn new(start: usize, size: usize, shape: &[usize], strides: &[usize]) -> Option<Region> {
        if shape.contains(&0) {
            return None;
        }
        // A dimension of one element may have any stride.
        let several = shape.iter().zip(strides).filter(|(count, stride)| **count > 1 && **stride > 0);
        let repeat = |(&count, &stride): (&usize, &usize)| Repeat { distance: stride * size, count };
        let mut repeats: Vec<Repeat> = several.map(repeat).collect();
        repeats.sort_unstable_by_key(|repeat| repeat.distance);
        let mut region = Region { start, run: size, repeats: Vec::new() };
        let mut crosses = false;
        // From the innermost outwards; repetitions without a gap are merged.
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

    /// The number of its bytes.
    pub fn bytes(&self) -> usize {
        self.run.saturating_mul(self.pieces())
    }

    /// From the first byte to the last.
    fn length(&self) -> usize {
        length(self.run, &self.repeats)
    }

    fn end(&self) -> usize {
        self.start + self.length()
    }

    /// Whether a different region is known to be within this one.
    pub fn covers(&self, other: &Region) -> bool {
        self == other || self.repeats.is_empty() && self.start <= other.start && other.end() <= self.end()
    }

    /// Whether they share a byte.
    pub fn meets(&self, other: &Region) -> bool {
        if self.start >= other.end() || other.start >= self.end() {
            return false;
        }
        if let Some(answer) = on_one_grid(self, other) {
            return answer;
        }
        let (few, many) = if self.pieces() <= other.pieces() { (self, other) } else { (other, self) };
        few.pieces() > MAX_PIECES || few.any_piece(|from| many.has_any(from, from + few.run))
    }

    /// The number of pieces.
    fn pieces(&self) -> usize {
        self.repeats.iter().fold(1, |pieces, repeat| pieces.saturating_mul(repeat.count))
    }

    /// Whether `holds` is true for the start of any piece.
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

    /// Whether it has a byte between two addresses.
    fn has_any(&self, from: usize, to: usize) -> bool {
        to > self.start && has_any(self.run, &self.repeats, from.saturating_sub(self.start), to - self.start)
    }
}

fn length(run: usize, repeats: &[Repeat]) -> usize {
    run + repeats.iter().map(|repeat| (repeat.count - 1) * repeat.distance).sum::<usize>()
}

/// Whether a layout that begins at 0 has a byte between two positions.
fn has_any(run: usize, repeats: &[Repeat], from: usize, to: usize) -> bool {
    let Some((outer, inner)) = repeats.split_first() else { return from < run && to > 0 };
    let within = length(run, inner);
    let last = (to.saturating_sub(1) / outer.distance).min(outer.count - 1);
    // The first repetition that ends after `from`.
    let first = if from < within { 0 } else { (from - within) / outer.distance + 1 };
    (first..=last).any(|place| {
        let at = place * outer.distance;
        at >= from || has_any(run, inner, from - at, to - at)
    })
}

/// The answer for two layouts with the same distances of repetition, neither across the end of a repetition: they
/// share a byte if they do so along each distance. Nothing for others.
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
    // A multiple of the widest distance at or before both.
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
