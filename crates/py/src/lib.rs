//! `ulpscope._core`: the extension module of the Python package.
//!
//! Two things, and nothing else:
//!
//! - The functions and classes of the package (`stats`, `diff`, `compare`, files): arguments are converted, the GIL is
//!   released, the crate that does the work is called, errors are mapped.
//! - [`capture`]: the part of recording that reads objects of Python and torch, in the midst of the program's calls. What is
//!   recorded, under which limits, and how it is written is decided in `ulpscope-capture` and the Python front.

// The macros of pyo3 write paths in full.
#![allow(unused_qualifications)]

mod capture;
mod command;
mod compare;
mod comparison;
mod diff;
mod digest;
mod divergence;
mod dlpack;
mod errors;
mod files;
mod input;
mod interrupt;
mod numbers;
mod operand;
mod restore;
mod result_bytes;
mod stats;

use pyo3::prelude::*;

/// The compiled core of Ulpscope.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::capture::{HookPlacer, OpenCall, Recorder};
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::compare::compare;
    #[pymodule_export]
    use crate::comparison::Comparison;
    #[pymodule_export]
    use crate::diff::{Diff, ElementDiff, diff};
    #[pymodule_export]
    use crate::digest::digest;
    #[pymodule_export]
    use crate::divergence::Divergence;
    #[pymodule_export]
    use crate::errors::FormatError;
    #[pymodule_export]
    use crate::files::{FileTensor, Unread, read_file, write_file};
    #[pymodule_export]
    use crate::restore::restore;
    #[pymodule_export]
    use crate::stats::{Stats, recorded_statistics, stats};

    #[pymodule_export]
    #[expect(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
