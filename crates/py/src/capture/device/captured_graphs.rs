//! Captured graphs of NVIDIA GPUs (CUDA graphs), whose calls are written whenever the graph is replayed.
//!
//! ```text
//! capture: calls ──► the graph's own state (ulpscope_capture); their tensors ──► launches of our kernel, which become nodes
//! replay:  the program's graph runs, with these nodes ──► a launch that takes their results ──► arrivals
//!          lines of the calls, with names and sources of this moment ──► journal
//! ```
//! The front wraps `capture_begin`, `capture_end` and `replay` of torch's class of graphs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use ulpscope_capture::{AtReplay, FlowNote, GraphCalls, is_in_graph, modules};
use ulpscope_dump::journal::encode::Ticket;
use ulpscope_dump::writer::LateNumbers;
use ulpscope_gpu::{Error, Gpu, GpuTensor, GraphMeasurement, Measurement, Stream};

use crate::capture::device::arrivals::{Expected, lock};
use crate::capture::device::gpu_arrivals::{GpuBatch, Taken};
use crate::capture::lifecycle::writing::not_written;
use crate::capture::recorder::Recorder;
use crate::capture::torch_api::Torch;
use crate::input::{current_stream, stream_asker};

/// What a tensor comes from that nobody is known to have made.
const OUTSIDE: &str = "outside";

/// The graphs of a recording.
#[derive(Default)]
pub(in crate::capture) struct DeviceGraphs {
    current: Mutex<Option<Arc<GraphInCapture>>>,
    is_used: AtomicBool,
}

/// A graph that is being captured.
pub(super) struct GraphInCapture {
    gpu: Arc<Gpu>,
    device: i32,
    /// The driver's number of the capture.
    id: u64,
    /// Where its tickets are from.
    numbers: Arc<LateNumbers>,
    measured: Mutex<(GraphMeasurement, Vec<Expected>)>,
    /// The tensors that it gets from outside.
    arguments: Mutex<Vec<Argument>>,
}

/// A tensor that a graph gets from outside.
struct Argument {
    /// The address of its object.
    address: usize,
    reference: Py<PyAny>,
    /// What it is in its model, if anything: `parameter:…`, `gradient:…`.
    role: Option<Arc<str>>,
}

impl GraphInCapture {
    /// Whether tickets are its own.
    pub(super) fn has(&self, numbers: &Arc<LateNumbers>) -> bool {
        Arc::ptr_eq(&self.numbers, numbers)
    }

    /// Measures tensors whenever the graph is replayed. What cannot be measured has no numbers.
    pub(super) fn measure(
        &self,
        stream: Stream,
        tensors: &[GpuTensor],
        expected: Vec<Expected>,
        has_digest: bool,
    ) -> Option<Error> {
        let mut measured = lock(&self.measured);
        let (added, error) = measured.0.add(stream, tensors, has_digest);
        measured.1.extend(expected.into_iter().take(added));
        error
    }
}

/// A graph that was captured while it was recorded.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct CapturedGraph {
    calls: GraphCalls,
    device: i32,
    measurement: GraphMeasurement,
    expected: Vec<Expected>,
    arguments: Vec<Argument>,
    notes: Vec<FlowNote<Py<PyAny>>>,
    /// The stream of the last replay, and whether its numbers have been taken.
    last: Mutex<Option<(Stream, Arc<Taken>)>>,
}

impl DeviceGraphs {
    /// Whether one has been captured.
    pub(in crate::capture) fn are_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// The one that is being captured on a stream.
    pub(super) fn on(&self, gpu: &Arc<Gpu>, stream: Stream) -> Option<Arc<GraphInCapture>> {
        let graph = lock(&self.current).clone()?;
        (Arc::ptr_eq(&graph.gpu, gpu) && gpu.capture_id(stream) == Some(graph.id)).then_some(graph)
    }

    /// The one whose tickets these are.
    pub(super) fn with(&self, numbers: &Arc<LateNumbers>) -> Option<Arc<GraphInCapture>> {
        if !self.are_used() {
            return None;
        }
        lock(&self.current).clone().filter(|graph| graph.has(numbers))
    }
}

impl Recorder {
    /// Prepares a GPU for the capture of a graph: that may take seconds, and is not possible during the capture. Returns
    /// whether graphs are recorded there.
    pub(in crate::capture) fn prepare_for_graphs(&self, py: Python<'_>, device: i32) -> PyResult<bool> {
        if !self.is_on() || !self.recording.plan.records_graphs() {
            return Ok(false);
        }
        let Some(stream) = self.stream_of(py, device)? else { return Ok(false) };
        Ok(self.ready_gpu(py, device, stream)?.is_some())
    }

    /// Records the graph that the current stream is capturing; returns whether it is recorded.
    pub(in crate::capture) fn begin_captured(&self, py: Python<'_>, device: i32) -> PyResult<bool> {
        self.abandon_graph();
        let Some(stream) = self.stream_of(py, device)? else { return Ok(false) };
        let Some(gpu) = self.ready_gpu(py, device, stream)? else { return Ok(false) };
        let ask = stream_asker(self.torch.tensor.bind(py))?;
        let (Some(ask), Some(id)) = (ask, gpu.capture_id(stream)) else { return Ok(false) };
        let asked = Arc::clone(&gpu);
        let step = self.recording.begin_graph(Box::new(move || {
            ask(device).is_some_and(|stream| asked.capture_id(stream) == Some(id))
        }));
        let Some(numbers) = self.in_step(step, |state| Arc::clone(&state.numbers)) else { return Ok(false) };
        let measured = Mutex::new((GraphMeasurement::new(&gpu), Vec::new()));
        let graph = GraphInCapture { gpu, device, id, numbers, measured, arguments: Mutex::default() };
        *lock(&self.graphs.current) = Some(Arc::new(graph));
        self.graphs.is_used.store(true, Ordering::Relaxed);
        Ok(true)
    }

    /// Ends the recording of a graph; `None` if its calls will not be recorded.
    pub(in crate::capture) fn end_captured(&self) -> Option<CapturedGraph> {
        let graph = lock(&self.graphs.current).take()?;
        let calls = self.recording.end_graph()?;
        let notes = self.flow.take_graph_notes();
        let new = GraphMeasurement::new(&graph.gpu);
        let (measurement, expected) = std::mem::replace(&mut *lock(&graph.measured), (new, Vec::new()));
        let arguments = std::mem::take(&mut *lock(&graph.arguments));
        self.locked(|state| {
            state.note(format!(
                "a captured graph of {} calls is recorded whenever it is replayed",
                calls.len()
            ));
        });
        Some(CapturedGraph {
            calls,
            device: graph.device,
            measurement,
            expected,
            arguments,
            notes,
            last: Mutex::default(),
        })
    }

    /// Ends the recording of a graph that is being captured. Its calls are lost, and counted.
    pub(in crate::capture) fn abandon_graph(&self) {
        self.recording.abandon_graph();
        let _graph = lock(&self.graphs.current).take();
        let _notes = self.flow.take_graph_notes();
    }

    /// The source of a tensor that a graph gets from outside: it is known when the graph is replayed. `found` is what it
    /// is now.
    pub(in crate::capture) fn graph_argument(&self, tensor: &Bound<'_, PyAny>, found: &Arc<str>) -> Arc<str> {
        let graph = lock(&self.graphs.current).clone();
        let (Some(graph), Ok(reference)) = (graph, self.torch.weak_reference(tensor)) else {
            return OUTSIDE.into();
        };
        let address = tensor.as_ptr() as usize;
        let mut arguments = lock(&graph.arguments);
        let is_same =
            |known: &Argument| known.address == address && Torch::refers_to(&known.reference, tensor);
        let number = arguments.iter().rposition(is_same).unwrap_or_else(|| {
            let role = found.contains(':').then(|| Arc::clone(found));
            arguments.push(Argument { address, reference, role });
            arguments.len() - 1
        });
        GraphCalls::argument(number)
    }

    /// Called before a graph is replayed. Its results of the last replay are lost if it runs on a different stream before
    /// they were taken.
    pub(in crate::capture) fn before_replay(&self, py: Python<'_>, graph: &CapturedGraph) -> PyResult<()> {
        let Some((stream, taken)) = lock(&graph.last).clone() else { return Ok(()) };
        if self.stream_of(py, graph.device)? != Some(stream) {
            py.detach(|| self.arrivals.gpu.write_arrived());
            taken.lose();
        }
        Ok(())
    }

    /// Records the calls of a graph that was just replayed; returns whether they are, or are counted.
    pub(in crate::capture) fn record_replay(&self, py: Python<'_>, graph: &CapturedGraph) -> PyResult<bool> {
        let Some(stream) = self.stream_of(py, graph.device)? else { return Ok(false) };
        let gpu = graph.measurement.gpu();
        if !self.is_on() || gpu.is_capturing(stream) {
            return Ok(false);
        }
        // First of all: the next replay has to come after it.
        let measurement = self.take_results(py, graph, stream)?;
        let around = modules::innermost(self.address()).map(|level| level.name);
        let source = |argument: &Argument| -> PyResult<Arc<str>> {
            let tensor = argument.reference.bind(py).call0()?;
            let source = if tensor.is_none() { None } else { self.flow.source(&self.tensor(&tensor))? };
            let source = source.filter(|source| !is_in_graph(source));
            Ok(source.or_else(|| argument.role.clone()).unwrap_or_else(|| OUTSIDE.into()))
        };
        let arguments = graph.arguments.iter().map(source).collect::<PyResult<_>>()?;
        let replayed = self.recording.replay(&graph.calls, &AtReplay { around, arguments });
        let replayed = replayed.map_err(not_written)?;
        let Some(replayed) = replayed else { return Ok(true) };
        let first = replayed.first_ticket.0;
        let ours = |expected: &Expected| Expected { ticket: Ticket(expected.ticket.0 + first), ..*expected };
        let tensors: Vec<Expected> = graph.expected.iter().take(measurement.len()).map(ours).collect();
        let taken = Arc::new(Taken::default());
        *lock(&graph.last) = Some((stream, Arc::clone(&taken)));
        let step = Arc::clone(&replayed.late);
        let batch = GpuBatch { step, tensors, measurement, taken: Some(taken) };
        self.arrivals.add_of_gpu(batch, &self.recording.plan);
        let any = self.tensor(py.None().bind(py));
        self.flow.note_replay(replayed.step, (&any, &graph.notes), |name| replayed.name(name))?;
        Ok(true)
    }

    fn take_results(&self, py: Python<'_>, graph: &CapturedGraph, stream: Stream) -> PyResult<Measurement> {
        let take = || py.detach(|| graph.measurement.take(stream));
        let mut found = take();
        if let (_, Some(Error::Full(_))) = found {
            drop(found);
            self.arrivals.gpu.wait_for_all(py)?;
            found = take();
        }
        let (measurement, error) = found;
        if let Some(error) = error {
            let missing = graph.measurement.len() - measurement.len();
            self.locked(|state| state.note(format!("{missing} tensors of a replayed graph: {error}")));
        }
        Ok(measurement)
    }

    fn stream_of(&self, py: Python<'_>, device: i32) -> PyResult<Option<Stream>> {
        current_stream(self.torch.tensor.bind(py), device)
    }
}
