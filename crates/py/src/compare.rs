//! `compare`: two dumps in, a [`Comparison`] out.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};
use ulpscope_compare::{CompareError, Progress, Prover};
use ulpscope_dump::Select;
use ulpscope_session::{Language, MappingFiles, MemoryOutputs, NumberRanges, Request, execute};

use crate::comparison::Comparison;
use crate::errors::{shown, to_python};
use crate::interrupt::{Stop, abandonable};
use crate::prover::PythonProver;

/// Compares two dumps: target, the suspected side, with golden, the trusted one. Each is a path to the output of a
/// tool: a dump's folder, a step or rank of it, a dump.json, a .pkl, a folder of tensors, a checkpoint.
/// step and rank select: 3, [0, "2-4"] or "0,2-4". noise is a second golden run: differences of the size found
/// between it and golden count as noise. target_data and golden_data are the folders of the tensors, if they are not
/// beside the dump.json or .pkl. prove replays blamed calls in raised precision, to prove or refute the verdict.
#[pyfunction]
#[pyo3(signature = (
    target, golden, *, style = "native", r#match = None, step = None, rank = None, data_mapping = None,
    cell_mapping = None, layer_mapping = None, noise = None, target_data = None, golden_data = None,
    prove = false
))]
#[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn compare(
    py: Python<'_>,
    target: PathBuf,
    golden: PathBuf,
    style: &str,
    r#match: Option<&str>,
    step: Option<Numbers>,
    rank: Option<Numbers>,
    data_mapping: Option<PathBuf>,
    cell_mapping: Option<PathBuf>,
    layer_mapping: Option<PathBuf>,
    noise: Option<PathBuf>,
    target_data: Option<PathBuf>,
    golden_data: Option<PathBuf>,
    prove: bool,
) -> PyResult<Comparison> {
    let wrong = |error: String| PyValueError::new_err(error);
    let request = Request {
        target,
        golden,
        target_data,
        golden_data,
        style: style.parse().map_err(wrong)?,
        matching: r#match.map(|word| word.parse().map_err(|error| wrong(format!("{error}")))).transpose()?,
        mapping: MappingFiles { data: data_mapping, cell: cell_mapping.map(Some), layer: layer_mapping },
        stack_column: false,
        noise,
        select: Select { steps: Numbers::chosen(step), ranks: Numbers::chosen(rank) },
        language: Language::of_environment().map_err(wrong)?,
    };
    let stop = Stop::default();
    let prover = prove.then(|| PythonProver::new(py, Arc::clone(&stop))).transpose()?;
    let compared = abandonable(py, stop, move |stop| {
        let prover = prover.as_ref().map(|prover| prover as &dyn Prover);
        execute(request, &MemoryOutputs, &Stoppable(stop.clone()), prover)
    })?
    .map_err(to_python)?;
    // If nothing could be compared there is no result to return.
    if compared.ranks.iter().all(|rank| rank.result.is_err()) {
        let first = compared.ranks.into_iter().find_map(|rank| rank.result.err());
        return Err(first.map_or_else(|| wrong("no step or rank is on both sides".to_owned()), of_compare));
    }
    Ok(Comparison::of(compared))
}

/// Tells a comparison to stop.
struct Stoppable(Stop);

impl Progress for Stoppable {
    fn start(&self, _units: u64) {}

    fn advance(&self, _bytes: u64) {}

    fn stop(&self) -> Option<&Stop> {
        Some(&self.0)
    }
}

/// Numbers of steps or ranks: 3, [0, "2-4"], "0,2-4".
pub(crate) struct Numbers(Vec<u64>);

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Numbers> {
        if let Some(numbers) = Numbers::of_one(&object)? {
            return Ok(Numbers(numbers));
        }
        let wrong = || {
            let found = object.get_type().to_string();
            PyTypeError::new_err(format!(
                "expected a number from 0 up, a text such as \"0,2-4\", or a list of these, found {found}"
            ))
        };
        // Python accepts bytes and booleans as numbers; here they are mistakes.
        if object.is_instance_of::<PyBytes>() {
            return Err(wrong());
        }
        let mut all = Vec::new();
        for item in object.try_iter().map_err(|_| wrong())? {
            all.extend(Numbers::of_one(&item?)?.ok_or_else(wrong)?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(Numbers(all))
    }
}

impl Numbers {
    /// The numbers; none, which selects all, if nothing was given.
    pub(crate) fn chosen(given: Option<Numbers>) -> Vec<u64> {
        given.map(|numbers| numbers.0).unwrap_or_default()
    }

    /// The numbers of a value that is not a list.
    fn of_one(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u64>>> {
        if let Ok(text) = object.cast::<PyString>() {
            let numbers: NumberRanges = text.to_string().parse().map_err(PyValueError::new_err)?;
            return Ok(Some(numbers.0));
        }
        if object.is_instance_of::<PyBool>() {
            return Ok(None);
        }
        Ok(object.extract().ok().map(|number| vec![number]))
    }
}

fn of_compare(error: CompareError) -> PyErr {
    match error {
        CompareError::Dump(error) => to_python(error),
        CompareError::Write(error) => PyOSError::new_err(shown(error.to_string())),
    }
}
