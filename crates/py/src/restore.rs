//! Restores results from pickles.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::comparison::{Comparison, Outcome};
use crate::diff::{Diff, ElementDiff};
use crate::divergence::Divergence;
use crate::files::Unread;
use crate::region::{Region, RegionCall};
use crate::result_bytes::restored;
use crate::stats::Stats;

/// Restores a result from the bytes in a pickle. Only Python's pickle calls it.
#[pyfunction]
pub(crate) fn restore(py: Python<'_>, kind: &str, state: &[u8]) -> PyResult<Py<PyAny>> {
    match kind {
        "Comparison" => Comparison::from(restored::<Outcome>(state)?).into_py_any(py),
        "Diff" => restored::<Diff>(state)?.into_py_any(py),
        "Divergence" => restored::<Divergence>(state)?.into_py_any(py),
        "ElementDiff" => restored::<ElementDiff>(state)?.into_py_any(py),
        "Region" => restored::<Region>(state)?.into_py_any(py),
        "RegionCall" => restored::<RegionCall>(state)?.into_py_any(py),
        "Stats" => restored::<Stats>(state)?.into_py_any(py),
        "Unread" => restored::<Unread>(state)?.into_py_any(py),
        _ => Err(PyValueError::new_err(format!("the pickle holds {kind:?}, which is no result of ulpscope"))),
    }
}
