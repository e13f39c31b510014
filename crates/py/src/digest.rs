//! Digests from Python.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ulpscope_kernels::DigestKind;

use crate::input::Input;

/// The digest of a tensor's bytes in row-major order, in hex: "crc32" (as in msprobe and ptdbg_ascend), "md5",
/// "xxh3", or "mix64" (which a GPU computes, too).
#[pyfunction]
#[pyo3(signature = (x, kind = "xxh3"))]
pub(crate) fn digest(py: Python<'_>, x: &Bound<'_, PyAny>, kind: &str) -> PyResult<String> {
    let kind = match kind {
        "crc32" => DigestKind::Crc32,
        "md5" => DigestKind::Md5,
        "xxh3" => DigestKind::Xxh3,
        "mix64" => DigestKind::Mix64,
        _ => {
            let message = format!("kind is {kind:?}; expected crc32, md5, xxh3 or mix64");
            return Err(PyValueError::new_err(message));
        }
    };
    Input::of(x)?.detached(py, |view| ulpscope_kernels::digest(view, kind).to_string())
}
