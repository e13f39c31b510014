//! Judges the result of a call against the same call in raised precision.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use ulpscope_compare::standards::{
    COLUMNS, CheckStatus, Computation, DetailsRow, OwnErrorJudgement, RATIO_COLUMNS, RatioRow, Standard,
    StandardMeasurement, own_error_of, ratios,
};
use ulpscope_formats::pkl_lines::dtype_named;
use ulpscope_kernels::{ReplayReference, ShapeMismatch};
use ulpscope_report::Cell;
use ulpscope_tensor::View;

use crate::input::Input;
use crate::sheets::to_object;

/// What became of a call's result.
#[pyclass(frozen, module = "ulpscope")]
pub(crate) struct Judgement {
    judged: OwnErrorJudgement,
    standard: Standard,
    measured: Option<Measured>,
}

/// The numbers of msprobe's standards.
struct Measured {
    cascade: CheckStatus,
    by_standard: Option<CheckStatus>,
    cells: Vec<Cell>,
}

/// Judges a result. All tensors are real and of the same shape. `moved` are two references from inputs that were moved
/// relatively by `shift`, and by a sixteenth of it. `coarsest` is the coarsest dtype of the call's tensors. `peer` is
/// the result of a healthy device. Without `standards`, the numbers of msprobe's standards are not measured.
#[pyfunction]
#[pyo3(signature = (api, result, reference, *, moved = None, shift = 1.0, terms = 1.0, coarsest = None, peer = None, standards = true))]
#[expect(clippy::too_many_arguments, reason = "one for each keyword of the Python function")]
pub(crate) fn judge_result(
    py: Python<'_>,
    api: &str,
    result: &Bound<'_, PyAny>,
    reference: &Bound<'_, PyAny>,
    moved: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    shift: f64,
    terms: f64,
    coarsest: Option<&str>,
    peer: Option<&Bound<'_, PyAny>>,
    standards: bool,
) -> PyResult<Judgement> {
    let mut inputs = vec![Input::of(result)?, Input::of(reference)?];
    let has_moved = moved.is_some();
    let computation = Computation { terms, coarsest: coarsest.and_then(dtype_named) };
    if let Some((far, near)) = moved {
        inputs.extend([Input::of(&far)?, Input::of(&near)?]);
    }
    inputs.extend(peer.map(Input::of).transpose()?);
    let inputs: Vec<&Input<'_>> = inputs.iter().collect();
    let judged = Input::detached_together(&inputs, py, |views| {
        let moved = has_moved.then(|| [&views[2], &views[3]]);
        let peer = views.get(peer_position(has_moved));
        let reference = ReplayReference { exact: &views[1], moved, shift };
        let own = own_error_of(&views[0], reference, computation)?;
        let peers = peer.map(|peer| own_error_of(peer, reference, computation)).transpose()?;
        let standard = Standard::of(api, views[0].dtype());
        let measured = standards.then(|| measured(standard, &views[0], &views[1], peer)).transpose()?;
        Ok::<_, ShapeMismatch>(Judgement { judged: own.judge(peers.as_ref()), standard, measured })
    })?;
    judged.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Where the peer is among the inputs.
fn peer_position(has_moved: bool) -> usize {
    if has_moved { 4 } else { 2 }
}

fn measured(
    standard: Standard,
    result: &View<'_>,
    exact: &View<'_>,
    peer: Option<&View<'_>>,
) -> Result<Measured, ShapeMismatch> {
    let measured = StandardMeasurement::of(result, exact)?;
    let peer = peer.map(|peer| StandardMeasurement::of(peer, exact)).transpose()?;
    let ratios = peer.map(|peer| ratios(&measured, &peer));
    Ok(Measured {
        cascade: measured.cascade(),
        by_standard: measured.by_standard(standard, ratios.as_ref()),
        cells: measured.cells(),
    })
}

#[pymethods]
impl Judgement {
    /// By rounding alone: "pass", "warning" or "error".
    #[getter]
    fn status(&self) -> &'static str {
        self.judged.status.word()
    }

    /// The same by msprobe's cascade; empty if that was not measured.
    #[getter]
    fn cascade(&self) -> &'static str {
        self.measured.as_ref().map_or("", |measured| measured.cascade.word())
    }

    /// The standard that msprobe has for the API.
    #[getter]
    fn standard(&self) -> &'static str {
        self.standard.name()
    }

    /// The status by that standard; None if it needs the result of a different device, or was not measured.
    #[getter]
    fn by_standard(&self) -> Option<&'static str> {
        self.measured.as_ref()?.by_standard.map(CheckStatus::word)
    }

    /// Why, in words; empty if there is nothing to say.
    #[getter]
    fn message(&self) -> &str {
        &self.judged.message
    }

    /// The error relative to the reference.
    #[getter]
    fn error(&self) -> f64 {
        self.judged.error
    }

    /// What rounding explains of it.
    #[getter]
    fn floor(&self) -> f64 {
        self.judged.floor
    }

    /// How many times what rounding explains.
    #[getter]
    fn ratio(&self) -> f64 {
        self.judged.ratio
    }

    /// The largest errors that pass, absolute: of the whole tensor (L2), and of one element.
    #[getter]
    fn limits(&self) -> (f64, f64) {
        let [whole, element] = self.judged.limits;
        (whole, element)
    }

    /// The measured values of a row of details, from "Bench Dtype" on.
    fn measured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let cells = self.measured.iter().flat_map(|measured| &measured.cells);
        let cells = cells.map(|cell| to_object(py, cell)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, cells)
    }
}

/// The columns of the details.
#[pyfunction]
pub(crate) fn detail_columns(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, COLUMNS)
}

/// Judges a row of details by the same row of a different device: its status, why, and its cells.
#[pyfunction]
pub(crate) fn judge_ratios<'py>(
    py: Python<'py>,
    api: &str,
    dtype: &str,
    own: DetailsRow,
    peer: DetailsRow,
) -> PyResult<(&'static str, String, Bound<'py, PyList>)> {
    let row = RatioRow::of(api, dtype_named(dtype), &own, &peer);
    let cells = row.cells().iter().map(|cell| to_object(py, cell)).collect::<PyResult<Vec<_>>>()?;
    let status = row.status().map_or("SKIP", CheckStatus::word);
    Ok((status, row.message().to_owned(), PyList::new(py, cells)?))
}

/// The columns of these rows.
#[pyfunction]
pub(crate) fn ratio_columns(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    PyList::new(py, RATIO_COLUMNS)
}
