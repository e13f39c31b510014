//! A tensor that owns or shares its bytes.

use std::sync::Arc;

use ulpscope_tensor::{DType, View, ViewError, contiguous_strides};

use crate::bytes::Bytes;
use crate::error::Error;

/// More dimensions than torch supports, and as many as NumPy supports. Keeps the cost of one element independent
/// of the file.
pub(crate) const MAX_RANK: usize = 64;

/// The byte strides of a tensor whose first dimension is the innermost.
pub(crate) fn column_major_strides(shape: &[usize], element_size: usize) -> Vec<isize> {
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let mut strides = contiguous_strides(&reversed, element_size);
    strides.reverse();
    strides
}

/// A tensor read from a file. Cloning it and taking views of it copies no elements.
///
/// It is one pointer wide: a value is as large as its largest variant, and most values beside tensors are small.
#[derive(Clone)]
pub struct Tensor(Arc<Layout>);

#[derive(Debug)]
struct Layout {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<isize>,
    bytes: Bytes,
    origin: usize,
}

impl Tensor {
    /// A tensor with byte strides, element zero at byte `origin`. Fails if any element would be out of bounds.
    pub fn strided(
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<isize>,
        bytes: Bytes,
        origin: usize,
    ) -> Result<Tensor, ViewError> {
        View::strided(dtype, &shape, &strides, &bytes, origin)?;
        Ok(Tensor(Arc::new(Layout { dtype, shape, strides, bytes, origin })))
    }

    /// A row-major tensor from the start of `bytes`.
    pub fn contiguous(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Result<Tensor, ViewError> {
        let strides = contiguous_strides(&shape, dtype.size());
        Tensor::strided(dtype, shape, strides, bytes, 0)
    }

    /// The tensor as a view for the kernels.
    pub fn view(&self) -> View<'_> {
        View::strided(self.0.dtype, &self.0.shape, &self.0.strides, &self.0.bytes, self.0.origin)
            .expect("checked when the tensor was made")
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Byte strides, one per dimension.
    pub fn strides(&self) -> &[isize] {
        &self.0.strides
    }

    /// The storage of the tensor. Tensors that share one return the same bytes.
    pub fn storage(&self) -> &Bytes {
        &self.0.bytes
    }

    /// The same elements in one dimension; nothing if the tensor is not row-major.
    pub fn flattened(&self) -> Option<Tensor> {
        let size = self.0.dtype.size();
        if self.0.strides != contiguous_strides(&self.0.shape, size) {
            return None;
        }
        let count = self.view().len();
        let strides = vec![size as isize];
        Tensor::strided(self.0.dtype, vec![count], strides, self.0.bytes.clone(), self.0.origin).ok()
    }

    /// The same tensor over a copy of its storage.
    pub(crate) fn moved_to(&self, copy: Bytes) -> Tensor {
        let Layout { dtype, shape, strides, bytes, origin } = &*self.0;
        assert_eq!(copy.len(), bytes.len(), "a copy has as many bytes");
        let (shape, strides) = (shape.clone(), strides.clone());
        Tensor(Arc::new(Layout { dtype: *dtype, shape, strides, bytes: copy, origin: *origin }))
    }

    /// An error if the file of the elements has shrunk, so that zeros may have been read: see
    /// [`Bytes::check`]. Call it after every pass over them.
    pub fn check(&self) -> Result<(), Error> {
        self.0.bytes.check()
    }

    /// Has the elements read now, if they are in a remote file: see [`Bytes::fetch`].
    pub fn fetch(&self) -> Result<(), Error> {
        let Layout { dtype, shape, strides, bytes, origin } = &*self.0;
        if shape.contains(&0) {
            return Ok(());
        }
        let (mut first, mut last) = (*origin, *origin);
        for (dim, stride) in shape.iter().zip(strides) {
            let reach = (dim - 1) * stride.unsigned_abs();
            if *stride < 0 { first -= reach } else { last += reach }
        }
        bytes.slice(first..last + dtype.size()).fetch()
    }

    /// Returns the memory of elements that have been read to the system: see [`Bytes::release`]. Row-major
    /// tensors only: the elements of others are scattered.
    pub fn release(&self, elements: std::ops::Range<usize>) {
        let size = self.0.dtype.size();
        if self.0.strides == contiguous_strides(&self.0.shape, size) {
            self.0.bytes.release(self.0.origin + elements.start * size..self.0.origin + elements.end * size);
        }
    }

    /// Byte position of element zero within [`Tensor::storage`].
    pub fn origin(&self) -> usize {
        self.0.origin
    }
}

impl std::fmt::Debug for Tensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Layout { dtype, shape, strides, bytes, origin } = &*self.0;
        f.debug_struct("Tensor")
            .field("dtype", dtype)
            .field("shape", shape)
            .field("strides", strides)
            .field("bytes", bytes)
            .field("origin", origin)
            .finish()
    }
}
