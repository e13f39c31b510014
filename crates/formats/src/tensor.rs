//! A tensor that owns, or shares, its bytes.

use ulpscope_tensor::{DType, View, ViewError, contiguous_strides};

use crate::bytes::Bytes;

/// A tensor read from a file. Cloning it, and taking views of it, copies no elements.
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<isize>,
    bytes: Bytes,
    origin: usize,
}

impl Tensor {
    /// A tensor with byte strides, element zero at byte `origin`; refused when any element would lie outside.
    pub fn strided(
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<isize>,
        bytes: Bytes,
        origin: usize,
    ) -> Result<Tensor, ViewError> {
        View::strided(dtype, shape.clone(), strides.clone(), &bytes, origin)?;
        Ok(Tensor { dtype, shape, strides, bytes, origin })
    }

    /// A row-major tensor from the start of `bytes`.
    pub fn contiguous(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Result<Tensor, ViewError> {
        let strides = contiguous_strides(&shape, dtype.size());
        Tensor::strided(dtype, shape, strides, bytes, 0)
    }

    /// A packed copy of a view.
    pub fn copy_of(view: &View<'_>) -> Tensor {
        Tensor::contiguous(view.dtype(), view.shape().to_vec(), view.to_packed().into_owned().into())
            .expect("the packed bytes of a view hold its shape")
    }

    /// The tensor as the kernels want it.
    pub fn view(&self) -> View<'_> {
        View::strided(self.dtype, self.shape.clone(), self.strides.clone(), &self.bytes, self.origin)
            .expect("checked when the tensor was made")
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

    /// The storage behind the tensor; tensors that share one return the same bytes.
    pub fn storage(&self) -> &Bytes {
        &self.bytes
    }

    /// Byte position of element zero within [`Tensor::storage`].
    pub fn origin(&self) -> usize {
        self.origin
    }
}
