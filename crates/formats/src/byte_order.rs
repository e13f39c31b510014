//! Swaps the bytes of big-endian elements.

use ulpscope_tensor::DType;

/// The size of the unit that has a byte order and a sign: an element, or half of a complex one.
pub(crate) fn number_size(dtype: DType) -> usize {
    if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() }
}

/// The same numbers in the other byte order.
pub(crate) fn swapped(bytes: &[u8], number_size: usize) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    copy.chunks_exact_mut(number_size).for_each(<[u8]>::reverse);
    copy
}
