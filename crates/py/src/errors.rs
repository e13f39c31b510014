//! Rust's errors as Python's.

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

/// A message as Python prints it: on a terminal, where names out of files must not act.
pub(crate) fn shown(message: String) -> String {
    escape::terminal(&message).into_owned()
}

/// Operating system errors stay what they are to Python (`FileNotFoundError`, `PermissionError`, …); the rest
/// is a [`FormatError`], whose message is the whole of ours.
pub(crate) fn to_python(error: Error) -> PyErr {
    let message = shown(error.to_string());
    let Fault::Io(io) = error.fault else { return FormatError::new_err(message) };
    let Some(code) = io.raw_os_error() else { return PyOSError::new_err(message) };
    // Rust adds the code to the text; Python puts it in front. With it, OSError picks the subclass.
    let text = io.to_string();
    let text = text.strip_suffix(&format!(" (os error {code})")).unwrap_or(&text).to_owned();
    match error.file {
        Some(file) => PyOSError::new_err((code, text, file.into_os_string())),
        None => PyOSError::new_err((code, text)),
    }
}
