//! Rust's errors as Python's.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use ulpscope_formats::{Error, Fault};

pyo3::create_exception!(
    ulpscope,
    FormatError,
    PyValueError,
    "A file that is damaged, hostile, or of a kind that is not read."
);

/// Operating system errors stay what they are to Python (`FileNotFoundError`, `PermissionError`, …); the rest
/// is a [`FormatError`]. Either way the message is the whole of ours.
pub(crate) fn to_python(error: Error) -> PyErr {
    let message = error.to_string();
    match error.fault {
        Fault::Io(io) => match io.raw_os_error() {
            // With the code, Python's OSError picks the subclass.
            Some(code) => PyOSError::new_err((code, message)),
            None => PyOSError::new_err(message),
        },
        _ => FormatError::new_err(message),
    }
}
