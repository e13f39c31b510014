//! The command line, for the script that a wheel installs.

use std::ffi::OsString;

use pyo3::prelude::*;
use ulpscope_compare::Prover;

use crate::interrupt::Stop;
use crate::prover::PythonProver;

/// Runs the command `ulpscope` with these arguments, the program's name first; returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let open = || -> Result<Box<dyn Prover + Send>, String> {
        let opened = Python::attach(|py| {
            PythonProver::new(py, Stop::default()).map_err(|error| error.value(py).to_string())
        });
        Ok(Box::new(opened?))
    };
    py.detach(|| ulpscope_cli::run(arguments, Some(&open)))
}
