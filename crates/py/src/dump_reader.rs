//! Dumps for Python: the calls of each rank with their arguments, to make them again.
//!
//! A dump is data. Its containers become Python's, its tensors and values become objects that only say what was
//! recorded. What may be called with them is decided in `python/ulpscope/_replay`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{Argument, Content, Dump, Rank, RankPlace, Select, TensorEntry};
use ulpscope_formats::json::Json;
use ulpscope_kernels::SUMMARY_KEYS;

use crate::compare::Numbers;
use crate::errors::{shown, to_python};
use crate::files::FileTensor;

/// One rank of one step.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct DumpRank {
    rank: Arc<Rank>,
    /// The number of the step; None in dumps without steps.
    #[pyo3(get)]
    step: Option<u64>,
    /// The name of the rank's folder; empty if there is none.
    #[pyo3(get)]
    name: String,
    /// The number of the rank, if its folder has one.
    #[pyo3(get)]
    number: Option<u64>,
}

/// A tensor of a call, as recorded.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct DumpTensor {
    entry: TensorEntry,
    rank: Arc<Rank>,
}

/// A plain value of a call: its kind as recorded, `int`, `torch.dtype`, and its value. The kind is empty for a value
/// that is not described by one.
#[pyclass(frozen, get_all, module = "ulpscope")]
pub(crate) struct DumpValue {
    kind: String,
    value: Py<PyAny>,
}

/// The arguments and results of a call.
#[pyclass(frozen, get_all, module = "ulpscope")]
pub(crate) struct DumpCall {
    positional: Py<PyList>,
    keyword: Py<PyDict>,
    results: Py<PyList>,
    parameters: Py<PyDict>,
}

/// Whether the results of a function, `empty_like`, are uninitialised memory.
#[pyfunction]
pub(crate) fn returns_blank(function: &str) -> bool {
    ApiName { namespace: "Torch", function }.returns_blank()
}

/// Opens the rank that a `RankUnit` names. Returns it with what could not be read.
#[pyfunction]
#[pyo3(signature = (place, step))]
pub(crate) fn open_rank(py: Python<'_>, place: &str, step: Option<u64>) -> PyResult<(DumpRank, Vec<String>)> {
    let place: RankPlace =
        serde_json::from_str(place).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let rank = py.detach(|| place.open()).map_err(to_python)?;
    let problems = rank.problems().listed().iter().map(|problem| shown(problem.clone())).collect();
    let (rank, name, number) = (Arc::new(rank), place.name.clone(), place.number);
    Ok((DumpRank { rank, step, name, number }, problems))
}

/// Opens the ranks of a dump, in order of steps and ranks. Returns them, and what could not be read.
#[pyfunction]
#[pyo3(signature = (path, step = None, rank = None))]
pub(crate) fn open_dump(
    py: Python<'_>,
    path: PathBuf,
    step: Option<Numbers>,
    rank: Option<Numbers>,
) -> PyResult<(Vec<DumpRank>, Vec<String>)> {
    let select = Select { steps: Numbers::chosen(step), ranks: Numbers::chosen(rank) };
    let dump = Dump::open(&path, &select).map_err(to_python)?;
    let mut problems = dump.problems.clone();
    let mut ranks = Vec::new();
    for step in &dump.steps {
        for place in &step.ranks {
            match py.detach(|| place.open()) {
                Ok(rank) => {
                    problems.extend(rank.problems());
                    ranks.push(DumpRank {
                        rank: Arc::new(rank),
                        step: step.number,
                        name: place.name.clone(),
                        number: place.number,
                    });
                }
                Err(error) => problems.add(&error),
            }
        }
    }
    Ok((ranks, problems.listed().iter().map(|problem| shown(problem.clone())).collect()))
}

#[pymethods]
impl DumpRank {
    /// The names of the calls, in order.
    fn calls(&self) -> Vec<String> {
        (0..self.rank.calls().len()).map(|call| self.rank.name(call)).collect()
    }

    /// Whether capture ended before the step did: calls may be missing.
    #[getter]
    fn is_cut(&self) -> bool {
        self.rank.is_cut()
    }

    /// The tool that wrote it.
    #[getter]
    fn tool(&self) -> String {
        self.rank.tool.to_string()
    }

    /// Where it was read from.
    #[getter]
    fn path(&self) -> PathBuf {
        self.rank.path.clone()
    }

    /// The arguments and results of a call by its number; None if its tool does not record them all.
    fn call(&self, py: Python<'_>, number: usize) -> PyResult<Option<DumpCall>> {
        if number >= self.rank.calls().len() {
            return Ok(None);
        }
        let Some(call) = self.rank.arguments(number).map_err(to_python)? else { return Ok(None) };
        let items = |items: &[Argument]| {
            let items = items.iter().map(|item| self.object(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items).map(Bound::unbind)
        };
        let pairs = |pairs: &[(String, Argument)]| self.dict(py, pairs);
        Ok(Some(DumpCall {
            positional: items(&call.positional)?,
            keyword: pairs(&call.keyword)?,
            results: items(&call.results)?,
            parameters: pairs(&call.parameters)?,
        }))
    }
}

impl DumpRank {
    /// A rank that is open already; where it lies is not asked for.
    pub(crate) fn of(rank: Arc<Rank>) -> DumpRank {
        DumpRank { rank, step: None, name: String::new(), number: None }
    }

    /// The reader limits the depth.
    fn object(&self, py: Python<'_>, argument: &Argument) -> PyResult<Py<PyAny>> {
        match argument {
            Argument::List(items) => {
                let items = items.iter().map(|item| self.object(py, item)).collect::<PyResult<Vec<_>>>()?;
                PyList::new(py, items)?.into_py_any(py)
            }
            Argument::Dict(pairs) => self.dict(py, pairs)?.into_py_any(py),
            Argument::Leaf(Content::None) => Ok(py.None()),
            Argument::Leaf(Content::Tensor(entry)) => {
                DumpTensor { entry: (**entry).clone(), rank: Arc::clone(&self.rank) }.into_py_any(py)
            }
            Argument::Leaf(Content::Scalar { kind, value }) => {
                DumpValue { kind: kind.clone(), value: plain(py, value)? }.into_py_any(py)
            }
            Argument::Leaf(Content::Other(value)) => {
                DumpValue { kind: String::new(), value: plain(py, value)? }.into_py_any(py)
            }
        }
    }

    fn dict(&self, py: Python<'_>, pairs: &[(String, Argument)]) -> PyResult<Py<PyDict>> {
        let dict = PyDict::new(py);
        for (name, argument) in pairs {
            dict.set_item(name, self.object(py, argument)?)?;
        }
        Ok(dict.unbind())
    }
}

/// A JSON value as Python has it.
fn plain(py: Python<'_>, value: &Json) -> PyResult<Py<PyAny>> {
    match value {
        Json::Null => Ok(py.None()),
        Json::Bool(value) => value.into_py_any(py),
        Json::Int(value) => match i64::try_from(*value) {
            Ok(value) => value.into_py_any(py),
            // As a float: no argument of torch is an integer of that size.
            Err(_) => (*value as f64).into_py_any(py),
        },
        Json::Float(value) => value.into_py_any(py),
        Json::Str(value) => value.into_py_any(py),
        Json::List(items) => {
            let items = items.iter().map(|item| plain(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_py_any(py)
        }
        Json::Object(pairs) => {
            let dict = PyDict::new(py);
            for (name, value) in pairs {
                dict.set_item(name, plain(py, value)?)?;
            }
            dict.into_py_any(py)
        }
    }
}

#[pymethods]
impl DumpTensor {
    /// Element type as recorded, `torch.float32`.
    #[getter]
    fn dtype(&self) -> &str {
        &self.entry.dtype
    }

    /// The class as recorded, `torch.Tensor`; empty if unknown.
    #[getter]
    fn class_name(&self) -> &str {
        &self.entry.class
    }

    /// The dimensions; None if they were not recorded.
    #[getter]
    fn shape(&self) -> Option<Vec<u64>> {
        self.entry.shape.clone()
    }

    /// The strides in elements; None if they were not recorded.
    #[getter]
    fn strides(&self) -> Option<Vec<u64>> {
        self.entry.strides.clone()
    }

    /// Whether it required a gradient.
    #[getter]
    fn requires_grad(&self) -> bool {
        matches!(self.entry.requires_grad, Json::Bool(true))
    }

    /// The entry that produced it, if recorded.
    #[getter]
    fn source(&self) -> Option<&str> {
        self.entry.source.as_deref()
    }

    /// Whether it is uninitialised memory, of which no numbers are recorded.
    #[getter]
    fn is_blank(&self) -> bool {
        self.entry.is_blank
    }

    /// Whether its call had changed it before it was recorded.
    #[getter]
    fn is_changed(&self) -> bool {
        self.entry.is_changed
    }

    /// Whether its elements are in the dump.
    #[getter]
    fn has_data(&self) -> bool {
        self.entry.has_data()
    }

    /// The recorded statistics by their keys, `Max` and the like.
    fn statistics(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        let found = PyDict::new(py);
        for (key, value) in SUMMARY_KEYS.iter().zip(&self.entry.stats) {
            found.set_item(*key, plain(py, value)?)?;
        }
        for (statistic, value) in &self.entry.further {
            found.set_item(statistic.key, plain(py, value)?)?;
        }
        Ok(found.unbind())
    }

    /// Reads its elements; None if only statistics were recorded.
    fn load(&self, py: Python<'_>) -> PyResult<Option<FileTensor>> {
        let tensor = py.detach(|| self.rank.tensor(&self.entry)).map_err(to_python)?;
        Ok(tensor.map(FileTensor::new))
    }
}
