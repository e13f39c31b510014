//! How the tensors of several ranks make one: the rule, the slice of each rank, and the elements.

use std::collections::BTreeMap;
use std::ops::Range;

use ulpscope_formats::{Bytes, Error, Fault, Tensor};
use ulpscope_tensor::{DType, Scalar, View, element_count};

use super::parallel::Grid;

/// A merged tensor may have this many elements ...
const MIN_ELEMENTS: u64 = 1 << 28;

/// ... or this many for each byte of its parts, if that is more.
const MAX_ELEMENTS_PER_BYTE: u64 = 2;

/// How the ranks along an axis share a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Placed {
    /// Each has all of it.
    Same,
    /// Each has a slice along a dimension.
    Shard(u8),
    /// Each has a slice of what the ranks along the axes inside this one have slices of: data parallelism that cuts parameters
    /// which tensor parallelism has cut.
    Inner(u8),
    /// The tensor is the sum of theirs.
    Sum,
    /// A norm of all elements, of which each has the norm of its own.
    Norm,
}

/// How the tensors of all ranks make one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// One for each axis.
    pub(crate) placed: Vec<Placed>,
    /// A factor of the result: gradients of a mean over a part of the batch are larger than those over all of it.
    pub(crate) scale: f64,
    /// The only place that counts, where ranks should have the same and do not.
    pub(crate) only: Option<usize>,
}

/// The slice of a tensor that a rank has, by dimension.
pub(crate) type Slice = Vec<Range<usize>>;

impl Rule {
    /// Every rank has all of it.
    pub(crate) fn same(grid: &Grid) -> Rule {
        Rule { placed: vec![Placed::Same; grid.sizes.len()], scale: 1.0, only: None }
    }

    /// One rank stands for all.
    pub(crate) fn only(grid: &Grid, place: usize) -> Rule {
        Rule { only: Some(place), ..Rule::same(grid) }
    }

    pub(crate) fn is_sum(&self) -> bool {
        self.placed.contains(&Placed::Sum)
    }

    pub(crate) fn is_sharded(&self) -> bool {
        self.placed.iter().any(|placed| matches!(placed, Placed::Shard(_) | Placed::Inner(_)))
    }

    pub(crate) fn is_norm(&self) -> bool {
        self.placed.contains(&Placed::Norm)
    }

    /// The places whose tensors count.
    pub(crate) fn places(&self, grid: &Grid) -> Vec<usize> {
        if let Some(place) = self.only {
            return vec![place];
        }
        let is_first = |place: usize| {
            let same = self.placed.iter().enumerate().filter(|(_, placed)| **placed == Placed::Same);
            same.map(|(axis, _)| grid.coordinate(place, axis)).all(|at| at == 0)
        };
        (0..grid.len()).filter(|&place| is_first(place)).collect()
    }

    /// The shape of the whole, and the slice of each place; nothing if the shapes do not fit together.
    pub(crate) fn slices(&self, grid: &Grid, shapes: &[Vec<usize>]) -> Option<(Vec<usize>, Vec<Slice>)> {
        let dims = shapes.first()?.len();
        if self.only.is_some() {
            let slice = |shape: &Vec<usize>| shape.iter().map(|&size| 0..size).collect();
            return Some((shapes[self.only?].clone(), shapes.iter().map(slice).collect()));
        }
        let mut whole = Vec::with_capacity(dims);
        let mut slices = vec![Slice::with_capacity(dims); grid.len()];
        for dim in 0..dims {
            let key = |place: usize| -> Vec<usize> {
                let along = |wanted: Placed| {
                    let axes = self.placed.iter().enumerate().filter(move |(_, placed)| **placed == wanted);
                    axes.map(|(axis, _)| grid.coordinate(place, axis))
                };
                along(Placed::Shard(dim as u8)).chain(along(Placed::Inner(dim as u8))).collect()
            };
            let mut sizes: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
            for (place, shape) in shapes.iter().enumerate() {
                let size = *shape.get(dim).filter(|_| shape.len() == dims)?;
                if *sizes.entry(key(place)).or_insert(size) != size {
                    return None;
                }
            }
            let mut starts: BTreeMap<Vec<usize>, Range<usize>> = BTreeMap::new();
            let mut end = 0usize;
            for (key, size) in sizes {
                starts.insert(key, end..end.checked_add(size)?);
                end += size;
            }
            for (place, slice) in slices.iter_mut().enumerate() {
                slice.push(starts[&key(place)].clone());
            }
            whole.push(end);
        }
        Some((whole, slices))
    }

    /// The elements of the whole. Sums are made in float64.
    pub(crate) fn assemble(&self, grid: &Grid, tensors: &[Tensor]) -> Result<Tensor, Error> {
        if let Some(place) = self.only {
            return Ok(tensors[place].clone());
        }
        let places = self.places(grid);
        if let ([place], true) = (&places[..], self.scale == 1.0) {
            return Ok(tensors[*place].clone());
        }
        let shapes: Vec<Vec<usize>> = tensors.iter().map(|tensor| tensor.shape().to_vec()).collect();
        let unfit = || Fault::malformed("shapes of ranks that fit together", format!("{shapes:?}"));
        let (whole, slices) = self.slices(grid, &shapes).ok_or_else(|| Error::whole(unfit()))?;
        let count = element_count(&whole).ok_or_else(|| Error::whole(unfit()))?;
        // A few bytes of a file may stand for any number of equal elements.
        let stored: u64 = places.iter().map(|&place| tensors[place].storage().len() as u64).sum();
        let limit = stored.saturating_mul(MAX_ELEMENTS_PER_BYTE).max(MIN_ELEMENTS);
        if count as u64 > limit {
            let found = count as u64;
            return Err(Error::whole(Fault::TooLarge {
                what: "the number of merged elements",
                limit,
                found,
            }));
        }
        let dtype = tensors[places[0]].dtype();
        let is_copied = !self.is_sum() && !self.is_norm() && self.scale == 1.0;
        let same_dtype = places.iter().all(|&place| tensors[place].dtype() == dtype);
        let made = if is_copied && same_dtype {
            let mut bytes = vec![0; count * dtype.size()];
            for &place in &places {
                let packed = tensors[place].view().to_packed();
                copy(&packed, &slices[place], &whole, dtype.size(), &mut bytes);
            }
            Tensor::contiguous(dtype, whole, Bytes::from(bytes))
        } else {
            let mut sum = vec![0.0; count];
            for &place in &places {
                let mut values = decoded(&tensors[place].view());
                if self.is_norm() {
                    values.iter_mut().for_each(|value| *value *= *value);
                }
                add(&values, &slices[place], &whole, &mut sum);
            }
            if self.is_norm() {
                sum.iter_mut().for_each(|value| *value = value.sqrt());
            }
            let (dtype, bytes) = encoded(dtype, sum.into_iter().map(|value| value * self.scale));
            Tensor::contiguous(dtype, whole, Bytes::from(bytes))
        };
        places.iter().try_for_each(|&place| tensors[place].check())?;
        made.map_err(|error| Error::whole(Fault::malformed("a tensor", error.to_string())))
    }
}

/// Calls `with` for each run of elements: where it begins in the slice and in the whole, and its length.
fn runs(slice: &Slice, whole: &[usize], mut with: impl FnMut(usize, usize, usize)) {
    if slice.iter().any(Range::is_empty) {
        return;
    }
    let Some(last) = slice.len().checked_sub(1) else { return with(0, 0, 1) };
    let length = slice[last].len();
    let mut at: Vec<usize> = slice.iter().map(|range| range.start).collect();
    let mut from = 0;
    loop {
        let to = at.iter().zip(whole).fold(0, |to, (&at, &size)| to * size + at);
        with(from, to, length);
        from += length;
        // The next row: an odometer over all dimensions except the last.
        let mut dim = last;
        loop {
            let Some(before) = dim.checked_sub(1) else { return };
            dim = before;
            at[dim] += 1;
            if at[dim] < slice[dim].end {
                break;
            }
            at[dim] = slice[dim].start;
        }
    }
}

fn copy(part: &[u8], slice: &Slice, whole: &[usize], size: usize, out: &mut [u8]) {
    runs(slice, whole, |from, to, length| {
        let part = &part[from * size..(from + length) * size];
        out[to * size..(to + length) * size].copy_from_slice(part);
    });
}

fn add(part: &[f64], slice: &Slice, whole: &[usize], out: &mut [f64]) {
    runs(slice, whole, |from, to, length| {
        let sums = &mut out[to..to + length];
        sums.iter_mut().zip(&part[from..from + length]).for_each(|(sum, value)| *sum += value);
    });
}

fn decoded(view: &View<'_>) -> Vec<f64> {
    let packed = view.to_packed();
    packed.chunks_exact(view.dtype().size()).map(|bytes| Scalar::read(view.dtype(), bytes).to_f64()).collect()
}

/// Sums of half precision are kept in float32: rounding them would be an error of our own.
fn encoded(dtype: DType, values: impl Iterator<Item = f64>) -> (DType, Vec<u8>) {
    match dtype {
        DType::F64 | DType::I64 | DType::I32 => (DType::F64, values.flat_map(f64::to_ne_bytes).collect()),
        _ => (DType::F32, values.flat_map(|value| (value as f32).to_ne_bytes()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(sizes: &[usize]) -> Grid {
        Grid {
            sizes: sizes.to_vec(),
            numbers: (0..sizes.iter().product::<usize>() as u64).collect(),
            has_pieces: false,
        }
    }

    fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        Tensor::contiguous(DType::F32, shape.to_vec(), Bytes::from(bytes)).expect("as many bytes")
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        decoded(&tensor.view())
    }

    #[test]
    fn columns_of_two_ranks_are_put_side_by_side() {
        let rule = Rule { placed: vec![Placed::Shard(1)], ..Rule::same(&grid(&[2])) };
        let parts = [tensor(&[2, 1], &[1.0, 3.0]), tensor(&[2, 2], &[5.0, 6.0, 7.0, 8.0])];
        let whole = rule.assemble(&grid(&[2]), &parts).expect("they fit");
        assert_eq!(whole.shape(), [2, 3]);
        assert_eq!(values(&whole), [1.0, 5.0, 6.0, 3.0, 7.0, 8.0]);
    }

    #[test]
    fn two_axes_cut_one_dimension_the_outer_one_first() {
        let grid = grid(&[2, 2]);
        let rule = Rule { placed: vec![Placed::Shard(0), Placed::Shard(0)], ..Rule::same(&grid) };
        let parts: Vec<Tensor> = (0..4u8).map(|place| tensor(&[1], &[f32::from(place)])).collect();
        assert_eq!(values(&rule.assemble(&grid, &parts).expect("they fit")), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn what_was_cut_inside_is_cut_again_outside() {
        let grid = grid(&[2, 2]);
        let rule = Rule { placed: vec![Placed::Inner(0), Placed::Shard(0)], ..Rule::same(&grid) };
        // Place 1 is the second along the inner axis, and has the second half's first half.
        let parts: Vec<Tensor> = [0.0, 2.0, 1.0, 3.0].map(|value| tensor(&[1], &[value])).to_vec();
        assert_eq!(values(&rule.assemble(&grid, &parts).expect("they fit")), [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn norms_of_parts_make_that_of_the_whole() {
        let rule = Rule { placed: vec![Placed::Norm], ..Rule::same(&grid(&[2])) };
        let whole = rule.assemble(&grid(&[2]), &[tensor(&[], &[3.0]), tensor(&[], &[4.0])]);
        assert_eq!(values(&whole.expect("they fit")), [5.0]);
    }

    #[test]
    fn parts_are_summed_along_one_axis_and_replicas_counted_once() {
        let grid = grid(&[2, 2]);
        let rule = Rule { placed: vec![Placed::Same, Placed::Sum], scale: 0.5, only: None };
        let parts: Vec<Tensor> = [1.0, 2.0, 1.0, 2.0].map(|value| tensor(&[2], &[value, 10.0])).to_vec();
        assert_eq!(values(&rule.assemble(&grid, &parts).expect("they fit")), [1.5, 10.0]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let rule = Rule { placed: vec![Placed::Shard(0)], ..Rule::same(&grid(&[2])) };
        let parts = [tensor(&[2, 1], &[1.0, 3.0]), tensor(&[2, 2], &[5.0, 6.0, 7.0, 8.0])];
        assert!(rule.assemble(&grid(&[2]), &parts).is_err());
    }
}
