//! Which part of one tensor another is, by its elements.

use ulpscope_dump::{Rank, TensorEntry};

/// Elements that are read of a tensor: more are not inputs of a model that is being debugged.
const MOST_ELEMENTS: usize = 1 << 24;

/// The elements of a tensor, in order.
#[derive(Debug)]
pub(super) struct Elements {
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// The part that two tensors have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slice {
    /// The same elements in order, in different shapes.
    Reshaped,
    /// All of one, and a part of the other.
    Part {
        /// By dimension: where it starts in the one and in the other, and how long it is.
        ranges: Vec<[usize; 3]>,
        /// Where it ends in the whole, along the first dimension in which it is a part.
        end: usize,
    },
}

impl Elements {
    /// Reads them; nothing, where a dump has none, or too many.
    pub(super) fn read(rank: &Rank, entry: &TensorEntry) -> Option<Elements> {
        if entry.count()? > MOST_ELEMENTS as u64 {
            return None;
        }
        let tensor = rank.tensor(entry).ok()??;
        let view = tensor.view();
        let values = (0..view.len()).map(|index| view.get(index).to_f64()).collect();
        Some(Elements { shape: view.shape().to_vec(), values })
    }

    /// The size of each dimension.
    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// All of them.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// The offset of the first element of a part, and the distance of elements along each dimension.
    fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1; self.shape.len()];
        for dimension in (1..self.shape.len()).rev() {
            strides[dimension - 1] = strides[dimension] * self.shape[dimension];
        }
        strides
    }

    /// The numbers of the elements of a part, in order.
    fn places(&self, starts: &[usize], sizes: &[usize]) -> Vec<usize> {
        let strides = self.strides();
        let mut places = vec![starts.iter().zip(&strides).map(|(start, stride)| start * stride).sum()];
        for (size, stride) in sizes.iter().zip(&strides) {
            places = places
                .iter()
                .flat_map(|&at: &usize| (0..*size).map(move |number| at + number * stride))
                .collect();
        }
        places
    }
}

impl Slice {
    /// Where `part` is in `whole`, from `from` on along the first dimension that differs.
    pub(super) fn locate(part: &Elements, whole: &Elements, from: usize) -> Option<Slice> {
        if part.shape != whole.shape && part.values == whole.values {
            return Some(Slice::Reshaped);
        }
        let is_within = part.shape.len() == whole.shape.len()
            && part.shape.iter().zip(&whole.shape).all(|(one, other)| one <= other);
        if !is_within || part.values.is_empty() {
            return None;
        }
        let room: Vec<usize> = part.shape.iter().zip(&whole.shape).map(|(one, other)| other - one).collect();
        let first = room.iter().position(|&room| room > 0).unwrap_or(0);
        let mut starts = vec![0; room.len()];
        if let Some(start) = starts.get_mut(first) {
            *start = from;
        }
        if starts.iter().zip(&room).any(|(start, room)| start > room) {
            return None;
        }
        loop {
            let places = whole.places(&starts, &part.shape);
            if places.iter().zip(&part.values).all(|(&at, value)| is_same(whole.values[at], *value)) {
                let ranges = starts.iter().zip(&part.shape).map(|(&start, &size)| [0, start, size]).collect();
                let end =
                    starts.get(first).zip(part.shape.get(first)).map_or(0, |(start, size)| start + size);
                return Some(Slice::Part { ranges, end });
            }
            // The next place, the last dimension first.
            let next = (0..room.len()).rev().find(|&dimension| starts[dimension] < room[dimension])?;
            starts[next] += 1;
            starts[next + 1..].iter_mut().for_each(|start| *start = 0);
        }
    }

    /// Where it ends in the whole.
    pub(super) fn end(&self) -> usize {
        match self {
            Slice::Reshaped => 0,
            Slice::Part { end, .. } => *end,
        }
    }

    /// The same part, with the two tensors in the other order.
    pub(super) fn swapped(self) -> Slice {
        match self {
            Slice::Reshaped => Slice::Reshaped,
            Slice::Part { ranges, end } => {
                let ranges = ranges.into_iter().map(|[one, other, size]| [other, one, size]).collect();
                Slice::Part { ranges, end }
            }
        }
    }

    /// The relative distance of two tensors that were computed from inputs of these sizes, in this part; nothing, where it is
    /// not known which part of them that is.
    pub(super) fn distance(&self, [one, other]: [&Elements; 2], inputs: &[Vec<u64>; 2]) -> Option<f64> {
        let (ours, theirs): (Vec<usize>, Vec<usize>) = match self {
            Slice::Reshaped => (one.values.len() == other.values.len())
                .then(|| (0..one.values.len()).map(|at| (at, at)).unzip())?,
            Slice::Part { ranges, .. } => {
                if one.shape.len() != other.shape.len() {
                    return None;
                }
                let found: Option<Vec<[usize; 3]>> = one
                    .shape
                    .iter()
                    .zip(&other.shape)
                    .map(|(&one, &other)| {
                        if one == other {
                            return Some([0, 0, one]);
                        }
                        let sizes = inputs[0].iter().zip(&inputs[1]).zip(ranges);
                        let mut cut = sizes
                            .filter(|((ours, theirs), _)| [**ours, **theirs] == [one as u64, other as u64]);
                        cut.next().map(|(_, range)| *range)
                    })
                    .collect();
                let found = found?;
                let part = |side: usize| found.iter().map(|range| range[side]).collect::<Vec<usize>>();
                (one.places(&part(0), &part(2)), other.places(&part(1), &part(2)))
            }
        };
        let (mut error, mut sizes) = (0.0, [0.0f64; 2]);
        for (&one_at, &other_at) in ours.iter().zip(&theirs) {
            let (one, other) = (one.values[one_at], other.values[other_at]);
            if !is_same(one, other) {
                error += (one - other) * (one - other);
            }
            if one.is_finite() && other.is_finite() {
                sizes = [sizes[0] + one * one, sizes[1] + other * other];
            }
        }
        let size = sizes[0].max(sizes[1]).sqrt();
        let distance = if error == 0.0 { 0.0 } else { error.sqrt() / size };
        Some(if distance.is_nan() { f64::INFINITY } else { distance })
    }

    /// `[:, 0:12]`: the part of the tensor of a side; nothing, where it is all of it.
    pub(super) fn words(&self, side: usize, inputs: &[Vec<u64>; 2]) -> Option<String> {
        let Slice::Part { ranges, .. } = self else { return None };
        let words: Vec<String> = ranges
            .iter()
            .zip(&inputs[side])
            .map(|(range, &whole)| match range[2] as u64 == whole {
                true => ":".to_owned(),
                false => format!("{}:{}", range[side], range[side] + range[2]),
            })
            .collect();
        words.iter().any(|word| word != ":").then(|| format!("[{}]", words.join(", ")))
    }
}

fn is_same(one: f64, other: f64) -> bool {
    one == other || one.is_nan() && other.is_nan()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize], values: &[u32]) -> Elements {
        Elements { shape: shape.to_vec(), values: values.iter().map(|&value| f64::from(value)).collect() }
    }

    #[test]
    fn a_part_is_found_by_its_elements() {
        let whole = counted(&[2, 4], &[1, 2, 3, 4, 5, 6, 7, 8]);
        let found = Slice::locate(&counted(&[2, 2], &[2, 3, 6, 7]), &whole, 0).expect("it is there");
        assert_eq!(found.words(1, &[vec![2, 2], vec![2, 4]]).as_deref(), Some("[:, 1:3]"));
        assert_eq!(found.end(), 3);
        assert_eq!(Slice::locate(&counted(&[2, 2], &[2, 3, 6, 8]), &whole, 0), None);
        assert_eq!(
            Slice::locate(&counted(&[1, 8], &[1, 2, 3, 4, 5, 6, 7, 8]), &whole, 0),
            Some(Slice::Reshaped)
        );
    }

    #[test]
    fn equal_pieces_follow_one_another() {
        let whole = counted(&[1, 4], &[7, 7, 7, 7]);
        let piece = counted(&[1, 1], &[7]);
        let found: Vec<usize> =
            (0..4).map(|from| Slice::locate(&piece, &whole, from).expect("found").end()).collect();
        assert_eq!(found, [1, 2, 3, 4]);
    }

    #[test]
    fn results_are_compared_in_the_part_that_both_have() {
        let ids = counted(&[1, 2], &[3, 4]);
        let slice = Slice::locate(&ids, &counted(&[1, 3], &[2, 3, 4]), 0).expect("it is there");
        let one = counted(&[1, 2, 1], &[30, 40]);
        let other = counted(&[1, 3, 1], &[99, 30, 40]);
        let inputs = [vec![1, 2], vec![1, 3]];
        assert_eq!(slice.distance([&one, &other], &inputs), Some(0.0));
        assert_eq!(slice.distance([&one, &counted(&[1, 3, 1], &[99, 30, 0])], &inputs), Some(0.8));
        assert_eq!(slice.distance([&one, &counted(&[3, 1], &[1, 2, 3])], &inputs), None);
    }
}
