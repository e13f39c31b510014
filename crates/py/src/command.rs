//! The command line, for the script that a wheel installs.

use std::ffi::OsString;
use std::path::Path;

use pyo3::prelude::*;
use ulpscope_cli::PythonParts;
use ulpscope_compare::Prover;
use ulpscope_session::units::{Dispatcher, EngineSettings};

use crate::interrupt::Stop;
use crate::prover::PythonProver;
use crate::units::PythonDispatcher;

/// Runs the command `ulpscope` with these arguments, the program's name first; returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let open = || -> Result<Box<dyn Prover + Send>, String> {
        let opened = Python::attach(|py| {
            PythonProver::new(py, Stop::default()).map_err(|error| error.value(py).to_string())
        });
        Ok(Box::new(opened?))
    };
    let open_dispatcher = |settings: &EngineSettings| -> Result<Box<dyn Dispatcher + Send>, String> {
        let opened = Python::attach(|py| {
            PythonDispatcher::new(py, settings, Stop::default()).map_err(|error| error.value(py).to_string())
        });
        Ok(Box::new(opened?))
    };
    let write_database = |folder: &Path| {
        Python::attach(|py| {
            let written =
                || py.import("ulpscope._scale.database")?.call_method1("write", (folder,))?.extract();
            written().map_err(|error: PyErr| error.value(py).to_string())
        })
    };
    let parts = PythonParts { prover: &open, dispatcher: &open_dispatcher, database: &write_database };
    py.detach(|| ulpscope_cli::run(arguments, Some(parts)))
}
