//! `Stats`, and the function that returns it.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_compare::results;
use ulpscope_kernels as kernels;
use ulpscope_kernels::Threads;
use ulpscope_report::{Record, Table, Terminal, json};
use ulpscope_tensor::{DType, Scalar};

use crate::input::Input;
use crate::numbers;
use crate::operand::Operand;
use crate::result_bytes::{Reduced, hash, packed, reduce, same};

/// Statistics of one tensor, computed in one pass in float64.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct Stats {
    dtype: DType,
    shape: Vec<usize>,
    stats: kernels::Stats,
}

packed! { Stats { dtype, shape, stats } }

/// Statistics of a torch tensor, a numpy array or a file. A dictionary, or a file with several tensors, gives a
/// dictionary by name.
#[pyfunction]
pub(crate) fn stats(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    match Operand::readable(x)? {
        Operand::One(input) => measure(py, &input)?.into_py_any(py),
        Operand::Named(tensors) => {
            let all = PyDict::new(py);
            for (name, tensor) in tensors {
                let stats = measure(py, &tensor.input(&name)?)?;
                all.set_item(name, stats)?;
            }
            all.into_py_any(py)
        }
    }
}

/// The statistics that capture records, by their keys in `dump.json`. For a value that could not be measured: the
/// common keys without values.
#[pyfunction]
#[pyo3(signature = (stats))]
pub(crate) fn recorded_statistics<'py>(
    py: Python<'py>,
    stats: Option<&Bound<'py, Stats>>,
) -> PyResult<Bound<'py, PyDict>> {
    let stats = stats.map(|stats| &stats.get().stats);
    let recorded = PyDict::new(py);
    for statistic in &kernels::RECORDED {
        if statistic.is_summary() || stats.is_some_and(|stats| statistic.is_recorded_of(stats)) {
            let value = stats.and_then(|stats| statistic.of(stats, false));
            recorded.set_item(statistic.key, extremum(py, value)?)?;
        }
    }
    Ok(recorded)
}

fn measure(py: Python<'_>, input: &Input<'_>) -> PyResult<Stats> {
    input.detached(py, |view| Stats {
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        stats: kernels::stats(view, Threads::All),
    })
}

impl Stats {
    fn record(&self) -> Record {
        results::of_stats(self.dtype, &self.shape, &self.stats)
    }
}

fn extremum(py: Python<'_>, scalar: Option<Scalar>) -> PyResult<Option<Py<PyAny>>> {
    scalar.map(|scalar| numbers::to_python(py, scalar)).transpose()
}

#[pymethods]
impl Stats {
    /// Dimensions, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Element type, by torch's name.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// Largest element; NaN if there is one, as in torch.
    #[getter]
    fn max(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        extremum(py, self.stats.max)
    }

    /// Smallest element; NaN if there is one, as in torch.
    #[getter]
    fn min(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        extremum(py, self.stats.min)
    }

    /// Mean, summed in float64.
    #[getter]
    fn mean(&self) -> Option<f64> {
        self.stats.mean
    }

    /// L2 norm, summed in float64.
    #[getter]
    fn norm(&self) -> f64 {
        self.stats.norm
    }

    /// Elements that are NaN.
    #[getter]
    fn nan(&self) -> u64 {
        self.stats.nan
    }

    /// Elements that are +Inf.
    #[getter]
    fn pos_inf(&self) -> u64 {
        self.stats.pos_inf
    }

    /// Elements that are -Inf.
    #[getter]
    fn neg_inf(&self) -> u64 {
        self.stats.neg_inf
    }

    /// Elements equal to zero.
    #[getter]
    fn zeros(&self) -> u64 {
        self.stats.zeros
    }

    /// Elements too small for a full mantissa in their own dtype.
    #[getter]
    fn subnormals(&self) -> u64 {
        self.stats.subnormals
    }

    /// Largest finite element.
    #[getter]
    fn finite_max(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        extremum(py, self.stats.finite_max)
    }

    /// Smallest finite element.
    #[getter]
    fn finite_min(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        extremum(py, self.stats.finite_min)
    }

    /// The fields as strict JSON; non-finite numbers become the strings "NaN", "Infinity", "-Infinity".
    fn to_json(&self) -> String {
        json::line(&self.record().to_json())
    }

    fn __repr__(&self) -> String {
        let shown = Terminal::default().render(&Table::of_record("Stats", &self.record()));
        // The prompt ends the line.
        shown.trim_end().to_owned()
    }

    fn _repr_html_(&self) -> String {
        Table::of_record("Stats", &self.record()).to_html()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(self, other.cast::<Stats>().ok().map(Bound::get))
    }

    fn __hash__(&self) -> u64 {
        hash(self)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        reduce(py, "Stats", self)
    }
}
