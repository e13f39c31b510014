//! `compare`: two dumps in, a [`Comparison`] out.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyString};
use ulpscope_compare::{CompareError, Progress, Prover};
use ulpscope_dump::{Error, Select};
use ulpscope_session::units::{DumpNodes, Elsewhere, EngineSettings, Located, MOVE_LIMIT, ResultFolders};
use ulpscope_session::{
    Language, MappingFiles, MemoryOutputs, MemorySink, NumberRanges, Request, Threads, execute,
};

use crate::comparison::Comparison;
use crate::errors::{shown, to_python};
use crate::interrupt::{Stop, abandonable};
use crate::prover::PythonProver;
use crate::units::PythonDispatcher;

/// Compares two dumps: target, the suspected side, with golden, the trusted one. Each is a path to the output of a
/// tool: a dump's folder, a step or rank of it, a dump.json, a .pkl, a folder of tensors, a checkpoint.
/// step and rank select: 3, [0, "2-4"] or "0,2-4". noise is a second golden run: differences of the size found
/// between it and golden count as noise. target_data and golden_data are the folders of the tensors, if they are not
/// beside the dump.json or .pkl. prove replays blamed calls in raised precision, to prove or refute the verdict.
/// parallel says how the ranks of target share the work of golden's one process: "tp=2,dp=4".
/// engine: "threads", or "ray" to compare ranks as tasks of the Ray cluster at address; located: "auto" or a map, if
/// every node has ranks of its own; move_limit: how many bytes of tensors may be moved for a rank whose two sides are on
/// different nodes.
#[pyfunction]
#[pyo3(signature = (
    target, golden, *, style = "native", r#match = None, step = None, rank = None, data_mapping = None,
    cell_mapping = None, layer_mapping = None, noise = None, target_data = None, golden_data = None,
    prove = false, engine = "threads", address = None, located = None, move_limit = MOVE_LIMIT, parallel = None
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
    engine: &str,
    address: Option<String>,
    located: Option<PathBuf>,
    move_limit: u64,
    parallel: Option<&str>,
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
        parallel: parallel.map(|axes| axes.parse().map_err(|error| wrong(format!("{error}")))).transpose()?,
        select: Select { steps: Numbers::chosen(step), ranks: Numbers::chosen(rank) },
        language: Language::of_environment().map_err(wrong)?,
    };
    let stop = Stop::default();
    let located = Engine::of(engine, prove, address.is_some() || located.is_some())?.located(located)?;
    let dispatcher = match &located {
        Some(_) => {
            let settings = EngineSettings { address, ..EngineSettings::default() };
            Some(PythonDispatcher::new(py, &settings, Arc::clone(&stop))?)
        }
        None => None,
    };
    let prover = prove.then(|| PythonProver::new(py, Arc::clone(&stop))).transpose()?;
    let compared = abandonable(py, stop, move |stop| {
        let prover = prover.as_ref().map(|prover| prover as &dyn Prover);
        if let (Some(located), Some(dispatcher)) = (located, &dispatcher) {
            let folders = ResultFolders { results: None, formats: &[] };
            let nodes = DumpNodes { located, move_limit };
            let elsewhere = Elsewhere::<MemorySink>::new(dispatcher, &request, nodes, folders, false);
            return execute(request, &elsewhere.map_err(Error::whole)?);
        }
        let progress = Stoppable(stop.clone());
        execute(request, &Threads { outputs: &MemoryOutputs, progress: &progress, prover })
    })?
    .map_err(to_python)?;
    // If nothing could be compared there is no result to return.
    if compared.ranks.iter().all(|rank| rank.result.is_err()) {
        let first = compared.ranks.into_iter().find_map(|rank| rank.result.err());
        return Err(first.map_or_else(|| wrong("no step or rank is on both sides".to_owned()), of_compare));
    }
    Ok(Comparison::of(compared))
}

/// Where a comparison runs.
enum Engine {
    Threads,
    Ray,
}

impl Engine {
    fn of(name: &str, prove: bool, has_place: bool) -> PyResult<Engine> {
        let wrong = |text: String| Err(PyValueError::new_err(text));
        match name {
            "threads" if has_place => wrong("address and located are for engine=\"ray\"".to_owned()),
            "threads" => Ok(Engine::Threads),
            "ray" if prove => wrong("prove runs in this process: leave engine out".to_owned()),
            "ray" => Ok(Engine::Ray),
            _ => wrong(format!("engine: expected \"threads\" or \"ray\", found {name:?}")),
        }
    }

    /// Where the dumps are, if nodes read them.
    fn located(self, named: Option<PathBuf>) -> PyResult<Option<Located>> {
        match (self, named) {
            (Engine::Threads, _) => Ok(None),
            (Engine::Ray, None) => Ok(Some(Located::Shared)),
            (Engine::Ray, Some(word)) => Located::parse(&word).map(Some).map_err(to_python),
        }
    }
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
        CompareError::Elsewhere(why) => PyOSError::new_err(shown(why)),
        CompareError::Write(error) => PyOSError::new_err(shown(error.to_string())),
    }
}
