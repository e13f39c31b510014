//! Big-endian elements, turned around.

use ulpscope_tensor::DType;

/// The size of what has a byte order and a sign of its own: an element, or half a complex one.
pub(crate) fn number_size(dtype: DType) -> usize {
    if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() }
}

/// The same numbers in the other byte order.
pub(crate) fn swapped(bytes: &[u8], number_size: usize) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    copy.chunks_exact_mut(number_size).for_each(<[u8]>::reverse);
    copy
}
