//! Blocks of several tensors as doubles, for passes that look at elements one by one.

use std::ops::Range;

use ulpscope_tensor::{Scalar, View};

/// The elements of a block, widened.
pub(crate) struct Decoded<const N: usize> {
    bytes: Vec<u8>,
    values: [Vec<f64>; N],
}

impl<const N: usize> Default for Decoded<N> {
    fn default() -> Self {
        Decoded { bytes: Vec::new(), values: [const { Vec::new() }; N] }
    }
}

impl<const N: usize> Decoded<N> {
    /// The same elements of each view; none of a view that is missing.
    pub(crate) fn read(&mut self, views: [Option<&View<'_>>; N], range: Range<usize>) -> [&[f64]; N] {
        for (view, values) in views.iter().zip(&mut self.values) {
            values.clear();
            let Some(view) = view else { continue };
            let size = view.dtype().size();
            self.bytes.resize(range.len() * size, 0);
            view.gather(range.start, &mut self.bytes);
            values.extend(self.bytes.chunks_exact(size).map(|one| Scalar::read(view.dtype(), one).to_f64()));
        }
        self.values.each_ref().map(Vec::as_slice)
    }
}
