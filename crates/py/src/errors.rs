//! Converts Rust errors to Python exceptions.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use ulpscope_formats::{Error, Fault};
use ulpscope_report::escape;

pyo3::create_exception!(
    ulpscope,
    FormatError,
    PyValueError,
    "A file that is damaged, hostile, or of a kind that is not read."
);

/// A message that is safe to print on a terminal: control characters from files are escaped.
pub(crate) fn shown(message: String) -> String {
    escape::terminal(&message).into_owned()
}

/// Operating system errors keep their Python class (`FileNotFoundError`, `PermissionError`, …); the rest becomes a
/// [`FormatError`] with our whole message.
pub(crate) fn to_python(error: Error) -> PyErr {
    let message = shown(error.to_string());
    let Fault::Io(io) = error.fault else { return FormatError::new_err(message) };
    let Some(code) = io.raw_os_error() else { return PyOSError::new_err(message) };
    // Rust appends the code to the text; Python puts it in front. With the code, OSError picks the subclass.
    let text = io.to_string();
    let text = text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).to_owned();
    match error.file {
        Some(file) => PyOSError::new_err((code, text, file.into_os_string())),
        None => PyOSError::new_err((code, text)),
    }
}
