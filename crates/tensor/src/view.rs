//! A borrowed, bounds-checked, strided view of bytes.

use std::borrow::Cow;

use crate::{DType, Scalar};

/// Why bytes, shape and strides do not form a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The element count or byte extent exceeds the address space.
    #[error("shape {shape:?} with strides {strides:?} overflows the address space")]
    Overflow {
        /// The requested shape.
        shape: Vec<usize>,
        /// The requested strides, in bytes.
        strides: Vec<isize>,
    },
    /// Some element is outside the bytes.
    #[error("shape {shape:?} needs bytes {first}..{end}, but there are {found}")]
    OutOfBounds {
        /// The requested shape.
        shape: Vec<usize>,
        /// First byte needed (negative if strides lead before the bytes).
        first: i128,
        /// One past the last byte needed.
        end: i128,
        /// Available bytes.
        found: usize,
    },
    /// Shape and strides differ in length.
    #[error("shape has {shape} dimensions, strides have {strides}")]
    RankMismatch {
        /// Length of the shape.
        shape: usize,
        /// Length of the strides.
        strides: usize,
    },
}

/// The number of elements of a shape, unless it overflows.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    // A zero anywhere makes the product zero, however large the other dimensions are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

/// Row-major strides in bytes.
///
/// If a shape contains a zero, its other dimensions may be huge. The strides then saturate, and nothing reads them.
pub fn contiguous_strides(shape: &[usize], item_size: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = item_size;
    for (stride, &dim) in strides.iter_mut().zip(shape).rev() {
        *stride = isize::try_from(step).unwrap_or(isize::MAX);
        step = step.saturating_mul(dim.max(1));
    }
    strides
}

/// The coordinates of row-major position `index` in a shape.
pub fn coordinates(shape: &[usize], mut index: usize) -> Vec<usize> {
    let mut coordinates = vec![0; shape.len()];
    for (coordinate, &dim) in coordinates.iter_mut().zip(shape).rev() {
        *coordinate = index % dim;
        index /= dim;
    }
    coordinates
}

/// A tensor over borrowed bytes. Cheap to create; strides are in bytes and may be zero or negative.
#[derive(Clone, Debug)]
pub struct View<'a> {
    dtype: DType,
    shape: Cow<'a, [usize]>,
    strides: Cow<'a, [isize]>,
    bytes: &'a [u8],
    /// Byte position of element `[0, 0, ...]`.
    origin: usize,
    count: usize,
}

impl<'a> View<'a> {
    /// A view with explicit byte strides, element zero at byte `origin`.
    pub fn strided(
        dtype: DType,
        shape: impl Into<Cow<'a, [usize]>>,
        strides: impl Into<Cow<'a, [isize]>>,
        bytes: &'a [u8],
        origin: usize,
    ) -> Result<View<'a>, ViewError> {
        let (shape, strides) = (shape.into(), strides.into());
        if shape.len() != strides.len() {
            return Err(ViewError::RankMismatch { shape: shape.len(), strides: strides.len() });
        }
        let Some(count) = element_count(&shape).filter(|&n| isize::try_from(n).is_ok()) else {
            return Err(ViewError::Overflow { shape: shape.into_owned(), strides: strides.into_owned() });
        };
        if count > 0 {
            let (mut first, mut last) = (origin as i128, origin as i128);
            for (&dim, &stride) in shape.iter().zip(strides.iter()) {
                let reach = (dim as i128 - 1) * stride as i128;
                if reach < 0 { first += reach } else { last += reach }
            }
            let end = last + dtype.size() as i128;
            if first < 0 || end > bytes.len() as i128 {
                let shape = shape.into_owned();
                return Err(ViewError::OutOfBounds { shape, first, end, found: bytes.len() });
            }
        }
        Ok(View { dtype, shape, strides, bytes, origin, count })
    }

    /// A row-major view from the start of `bytes`; trailing bytes are ignored.
    pub fn contiguous(dtype: DType, shape: Vec<usize>, bytes: &'a [u8]) -> Result<View<'a>, ViewError> {
        let strides = contiguous_strides(&shape, dtype.size());
        View::strided(dtype, shape, strides, bytes, 0)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Byte strides, one per dimension.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of bytes of the elements if packed.
    pub fn packed_size(&self) -> usize {
        self.count.saturating_mul(self.dtype.size())
    }

    /// The elements as one packed row-major run, if they are stored so.
    pub fn as_packed(&self) -> Option<&'a [u8]> {
        if self.count == 0 {
            return Some(&[]);
        }
        let mut step = self.dtype.size() as isize;
        for (&dim, &stride) in self.shape.iter().zip(self.strides.iter()).rev() {
            if dim != 1 {
                if stride != step {
                    return None;
                }
                step *= dim as isize;
            }
        }
        Some(&self.bytes[self.origin..self.origin + self.packed_size()])
    }

    /// Each element once along the dimensions that repeat it (those with stride zero), and how often all of them
    /// occur.
    pub fn without_repeats(&self) -> (View<'a>, usize) {
        let mut view = self.clone();
        for (dim, _) in view
            .shape
            .to_mut()
            .iter_mut()
            .zip(self.strides.iter())
            .filter(|(dim, stride)| **dim > 1 && **stride == 0)
        {
            view.count /= *dim;
            *dim = 1;
        }
        let repeats = self.count.checked_div(view.count).unwrap_or(1);
        (view, repeats)
    }

    /// The same elements with the dimensions in reverse order; a column-major view becomes a packed one.
    pub fn transposed(&self) -> View<'a> {
        let mut view = self.clone();
        view.shape.to_mut().reverse();
        view.strides.to_mut().reverse();
        view
    }

    /// The same elements with the dimensions from the largest step in memory to the smallest: if they fill their memory
    /// in any order, it is a packed view.
    pub fn in_memory_order(&self) -> View<'a> {
        let mut order: Vec<usize> = (0..self.shape.len()).collect();
        order.sort_by_key(|&dim| std::cmp::Reverse(self.strides[dim].unsigned_abs()));
        let mut view = self.clone();
        *view.shape.to_mut() = order.iter().map(|&dim| self.shape[dim]).collect();
        *view.strides.to_mut() = order.iter().map(|&dim| self.strides[dim]).collect();
        view
    }

    /// Copies `out.len() / size` elements, in row-major order from element `start`, packed into `out`.
    ///
    /// # Panics
    /// If that range is out of bounds or `out` is not a whole number of elements.
    pub fn gather(&self, start: usize, out: &mut [u8]) {
        let size = self.dtype.size();
        assert!(out.len().is_multiple_of(size), "whole elements");
        let wanted = out.len() / size;
        assert!(start + wanted <= self.count, "elements {start}.. + {wanted} of {}", self.count);
        if let Some(packed) = self.as_packed() {
            out.copy_from_slice(&packed[start * size..start * size + out.len()]);
            return;
        }
        // It is not packed, so there is at least one dimension.
        let (&inner_dim, outer_shape) = self.shape.split_last().expect("a strided view has dimensions");
        let inner_stride = *self.strides.last().expect("one stride per dimension");
        let mut row = start / inner_dim;
        let mut column = start % inner_dim;
        let mut rest = out;
        while !rest.is_empty() {
            let run = (inner_dim - column).min(rest.len() / size);
            let (now, later) = rest.split_at_mut(run * size);
            let from = self.row_origin(outer_shape, row) + column as isize * inner_stride;
            if inner_stride == size as isize {
                now.copy_from_slice(&self.bytes[from as usize..from as usize + run * size]);
            } else {
                for (index, element) in now.chunks_exact_mut(size).enumerate() {
                    let at = (from + index as isize * inner_stride) as usize;
                    element.copy_from_slice(&self.bytes[at..at + size]);
                }
            }
            rest = later;
            row += 1;
            column = 0;
        }
    }

    /// Byte position of the first element of row-major row number `row`.
    fn row_origin(&self, outer_shape: &[usize], mut row: usize) -> isize {
        let mut at = self.origin as isize;
        for (&dim, &stride) in outer_shape.iter().zip(self.strides.iter()).rev() {
            at += (row % dim) as isize * stride;
            row /= dim;
        }
        at
    }

    /// All elements packed in row-major order: borrowed if they are stored so, copied otherwise.
    pub fn to_packed(&self) -> Cow<'a, [u8]> {
        match self.as_packed() {
            Some(bytes) => bytes.into(),
            None => {
                let mut out = vec![0; self.packed_size()];
                self.gather(0, &mut out);
                out.into()
            }
        }
    }

    /// The element at row-major position `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> Scalar {
        let mut element = [0; 16];
        let element = &mut element[..self.dtype.size()];
        self.gather(index, element);
        Scalar::read(self.dtype, element)
    }

    /// The coordinates of row-major position `index`.
    pub fn coordinates(&self, index: usize) -> Vec<usize> {
        coordinates(&self.shape, index)
    }
}
