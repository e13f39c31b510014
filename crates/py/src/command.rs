//! The command line, for the script that a wheel installs.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command `ulpscope` with these arguments, the program's name first; returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| ulpscope_cli::run(arguments))
}
