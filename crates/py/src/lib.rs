//! `ulpscope._core`: the extension module of the Python package.
//!
//! It has two parts:
//!
//! - The functions and classes of the package (`stats`, `diff`, `compare`, files): they convert arguments, release the
//!   GIL, call the crate that does the work, and map errors.
//! - `capture`: the part of recording that reads Python and torch objects during the program's calls.
//!   `ulpscope-capture` and the Python front decide what is recorded, under which limits, and how it is written.

// The macros of pyo3 generate full paths.
#![allow(unused_qualifications)]

mod capture;
mod command;
mod compare;
mod comparison;
mod comparison_page;
mod diff;
mod digest;
mod divergence;
mod dlpack;
mod dump_reader;
mod errors;
mod files;
mod input;
mod interrupt;
mod numbers;
mod operand;
mod own_error;
mod prover;
mod range;
mod region;
mod restore;
mod result_bytes;
mod sheets;
mod stats;
mod units;

use pyo3::prelude::*;

/// The compiled core of Ulpscope.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::capture::{CapturedGraph, HookPlacer, OpenCall, Recorder};
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
    use crate::dump_reader::{
        DumpCall, DumpRank, DumpTensor, DumpValue, open_dump, open_rank, returns_blank,
    };
    #[pymodule_export]
    use crate::errors::FormatError;
    #[pymodule_export]
    use crate::files::{FileTensor, Unread, pack_size, read_file, recorded_formats, write_file};
    #[pymodule_export]
    use crate::own_error::{Judgement, detail_columns, judge_ratios, judge_result, ratio_columns};
    #[pymodule_export]
    use crate::range::reach;
    #[pymodule_export]
    use crate::region::{Region, RegionCall};
    #[pymodule_export]
    use crate::restore::restore;
    #[pymodule_export]
    use crate::sheets::write_sheet;
    #[pymodule_export]
    use crate::stats::{Stats, recorded_statistics, stats};
    #[pymodule_export]
    use crate::units::{RankUnit, UnitQueue, answer_about_files, answer_unit, find_dump, rank_units};

    /// Makes dumps in buckets readable. Connects to nothing.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        ulpscope_store::register();
        Ok(())
    }

    #[pymodule_export]
    #[expect(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
