//! Units of comparisons for engines in Python: `ulpscope._scale` sends jobs and brings answers, and looks into neither.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use ulpscope_dump::Select;
use ulpscope_session::units::{self, Dispatcher, EngineSettings, FileReader, Located, NodeListing, Worker};

use crate::compare::Numbers;
use crate::errors::{shown, to_python};
use crate::interrupt::{Stop, interruptible};

/// Compares the pair of ranks of a job. Returns the answer, its rows and the sheets that were written; these go to
/// folder, if one is given. node is the name of this node; ask has a question about files answered by one of some nodes.
#[pyfunction]
#[pyo3(signature = (job, folder = None, node = None, ask = None))]
pub(crate) fn answer_unit<'py>(
    py: Python<'py>,
    job: String,
    folder: Option<PathBuf>,
    node: Option<String>,
    ask: Option<Py<PyAny>>,
) -> PyResult<(String, Bound<'py, PyBytes>, Vec<PathBuf>)> {
    let reader = ask.map(PythonReader);
    let reader = reader.as_ref().map(|reader| reader as &dyn FileReader);
    let answered =
        interruptible(py, move |_| units::answer(&job, folder, Worker { node: node.as_deref(), reader }))?;
    let answered = answered.map_err(|error| PyValueError::new_err(shown(error)))?;
    Ok((answered.answer, PyBytes::new(py, &answered.rows), answered.files))
}

/// Answers a question of a different node about the files of a rank here.
#[pyfunction]
pub(crate) fn answer_about_files(py: Python<'_>, question: String) -> PyResult<Bound<'_, PyBytes>> {
    let answer = py.detach(|| units::answer_about_files(&question));
    answer.map(|bytes| PyBytes::new(py, &bytes)).map_err(|error| PyOSError::new_err(shown(error)))
}

/// A function of Python that asks other nodes.
struct PythonReader(Py<PyAny>);

impl FileReader for PythonReader {
    fn ask(&self, nodes: &[String], question: &str) -> Result<Vec<u8>, String> {
        let asked = Python::try_attach(|py| {
            let answer =
                self.0.bind(py).call1((nodes, question)).map_err(|error| error.value(py).to_string())?;
            let bytes = answer.cast_into::<PyBytes>().map_err(|error| error.to_string())?;
            Ok(bytes.as_bytes().to_vec())
        });
        // Python is shutting down.
        asked.unwrap_or_else(|| Err("it was interrupted".to_owned()))
    }
}

/// What this machine has of a dump; None if it has no such path.
#[pyfunction]
pub(crate) fn find_dump(py: Python<'_>, path: PathBuf) -> PyResult<Option<String>> {
    py.detach(|| units::find(&path)).map_err(|error| PyOSError::new_err(shown(error)))
}

/// The units of a comparison that are to be answered.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct UnitQueue {
    queue: Arc<units::UnitQueue>,
    stop: Stop,
}

#[pymethods]
impl UnitQueue {
    /// All units, including those that are not open.
    fn __len__(&self) -> usize {
        self.queue.units().len()
    }

    /// The numbers of the units to answer.
    fn open(&self) -> Vec<usize> {
        let units = self.queue.units().iter().enumerate();
        units.filter(|(_, unit)| unit.is_open()).map(|(number, _)| number).collect()
    }

    /// The name of a unit.
    fn label(&self, number: usize) -> PyResult<String> {
        Ok(self.unit(number)?.label.clone())
    }

    /// The size of its files.
    fn size(&self, number: usize) -> PyResult<u64> {
        Ok(self.unit(number)?.bytes())
    }

    /// The nodes that can answer it; None: all.
    fn nodes(&self, number: usize) -> PyResult<Option<Vec<String>>> {
        Ok(self.unit(number)?.nodes.as_ref().and_then(|nodes| nodes.as_ref().ok().cloned()))
    }

    /// What to send to a worker.
    fn job(&self, number: usize) -> PyResult<String> {
        self.queue.job(number).map_err(|error| PyValueError::new_err(shown(error)))
    }

    /// Saves an answer. Returns whether the pair could be compared.
    fn deliver(&self, py: Python<'_>, number: usize, answer: String, rows: Vec<u8>) -> PyResult<bool> {
        let delivered = py.detach(|| self.queue.deliver(number, answer.as_bytes(), &rows));
        let answer = delivered.map_err(|error| PyValueError::new_err(shown(error)))?;
        Ok(!answer.is_error())
    }

    /// Gives a unit up, and says why.
    fn fail(&self, number: usize, why: String) {
        self.queue.fail(number, why);
    }

    /// Whether the result is no longer needed.
    #[getter]
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl UnitQueue {
    fn unit(&self, number: usize) -> PyResult<&units::QueuedUnit> {
        let unit = self.queue.units().get(number);
        unit.ok_or_else(|| PyValueError::new_err(format!("there is no unit {number}")))
    }
}

/// A rank of a dump, and where it can be read.
#[pyclass(frozen, get_all, module = "ulpscope._core")]
pub(crate) struct RankUnit {
    /// Its name.
    label: String,
    /// The number of the step.
    step: Option<u64>,
    /// What `open_rank` opens.
    place: String,
    /// What tells whether its files changed.
    inputs: String,
    /// The size of its files.
    bytes: u64,
    /// The nodes that have it; None: all.
    nodes: Option<Vec<String>>,
    /// Why no node can answer for it.
    why: Option<String>,
}

/// The ranks of a dump for an engine, in order, and what could not be searched.
#[pyfunction]
pub(crate) fn rank_units(
    py: Python<'_>,
    engine: Py<PyAny>,
    path: PathBuf,
    step: Option<Numbers>,
    rank: Option<Numbers>,
    located: Option<PathBuf>,
) -> PyResult<(Vec<RankUnit>, Vec<String>)> {
    let select = Select { steps: Numbers::chosen(step), ranks: Numbers::chosen(rank) };
    let located =
        located.map(|word| Located::parse(&word)).transpose().map_err(to_python)?.unwrap_or_default();
    let dispatcher = PythonDispatcher { engine, stop: Stop::default(), is_own: false };
    let found = py.detach(|| units::rank_units(&dispatcher, &path, &select, located));
    let (found, problems) = found.map_err(to_python)?;
    let text =
        |text: serde_json::Result<String>| text.map_err(|error| PyValueError::new_err(error.to_string()));
    let unit = |unit: units::RankUnit| -> PyResult<RankUnit> {
        let place = text(serde_json::to_string(&unit.place))?;
        let inputs = text(serde_json::to_string(&unit.inputs))?;
        let (nodes, why) = match unit.nodes {
            None => (None, None),
            Some(Ok(nodes)) => (Some(nodes), None),
            Some(Err(why)) => (None, Some(why)),
        };
        Ok(RankUnit {
            label: unit.label,
            step: unit.step,
            place,
            inputs,
            bytes: unit.inputs.bytes,
            nodes,
            why,
        })
    };
    let found = found.into_iter().map(unit).collect::<PyResult<_>>()?;
    Ok((found, problems.listed().iter().map(|problem| shown(problem.clone())).collect()))
}

/// An engine in Python.
pub(crate) struct PythonDispatcher {
    engine: Py<PyAny>,
    stop: Stop,
    /// Whether it is closed with this.
    is_own: bool,
}

impl PythonDispatcher {
    /// Connects to Ray, on the calling thread: it installs signal handlers.
    pub(crate) fn new(py: Python<'_>, settings: &EngineSettings, stop: Stop) -> PyResult<PythonDispatcher> {
        let module = py.import("ulpscope._scale.ray_engine")?;
        let arguments = (settings.address.as_deref(), settings.cores, settings.results.as_deref());
        let engine = module.getattr("RayEngine")?.call1(arguments)?;
        Ok(PythonDispatcher { engine: engine.unbind(), stop, is_own: true })
    }

    fn attached<T>(&self, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T, String> {
        let answer =
            Python::try_attach(|py| ask(self.engine.bind(py)).map_err(|error| error.value(py).to_string()));
        // Python is shutting down.
        answer.unwrap_or_else(|| Err("it was interrupted".to_owned()))
    }
}

impl Drop for PythonDispatcher {
    fn drop(&mut self) {
        if !self.is_own {
            return;
        }
        // The cluster sees the end of this process, too.
        let _ = self.attached(|engine| engine.call_method0("close").map(drop));
    }
}

impl Dispatcher for PythonDispatcher {
    fn find(&self, path: &Path, nodes: Option<&[String]>) -> Result<Vec<NodeListing>, String> {
        self.attached(|engine| {
            let found: Vec<(String, Option<String>, Option<String>)> =
                engine.call_method1("find", (path, nodes))?.extract()?;
            let listing = |(node, found, error): (String, Option<String>, Option<String>)| NodeListing {
                node,
                found: error.map_or(Ok(found), Err),
            };
            Ok(found.into_iter().map(listing).collect())
        })
    }

    fn dispatch(&self, queue: &Arc<units::UnitQueue>) -> Result<(), String> {
        self.attached(|engine| {
            let queue = UnitQueue { queue: Arc::clone(queue), stop: Arc::clone(&self.stop) };
            engine.call_method1("dispatch", (queue,))?;
            Ok(())
        })
    }
}
