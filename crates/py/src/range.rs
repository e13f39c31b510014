//! Whether the elements of a tensor are within the range of their dtype.

use pyo3::prelude::*;
use ulpscope_kernels::Threads;

use crate::input::Input;

/// How far the largest magnitude of a tensor goes: 0 in range, 1 the largest number of its dtype, 2 infinity, 3 NaN.
/// `None` for a tensor that is not in ordinary memory: nothing is copied.
#[pyfunction]
pub(crate) fn reach(tensor: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    let Some(input) = Input::magnitudes_in_memory(tensor)? else { return Ok(None) };
    let found = input.detached(tensor.py(), |view| ulpscope_kernels::reach(view, Threads::One))?;
    Ok(Some(found as u8))
}
