//! NVIDIA GPUs: whether our own kernel can be used on each, and its launches.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use ulpscope_capture::StepId;
use ulpscope_gpu::{Cache, Error, Gpu, GpuTensor, Stream, process};

use crate::capture::device::arrivals::{Expected, lock};
use crate::capture::device::captured_graphs::GraphInCapture;
use crate::capture::device::gpu_arrivals::GpuBatch;
use crate::capture::device::queue::{Queued, gpu_of_neighbour};
use crate::capture::recorder::Recorder;
use crate::input::{OnGpu, on_gpu};

/// Launches in a row that may fail before a GPU is given up: each attempt takes time.
const MAX_FAILURES: u32 = 16;

/// The GPUs that a recording has met, by torch's numbers.
#[derive(Default)]
pub(in crate::capture) struct Gpus {
    known: Mutex<HashMap<i32, State>>,
}

#[derive(Clone)]
enum State {
    Ready(Arc<Gpu>, Arc<AtomicU32>),
    /// Torch's operations are used instead.
    Refused(Arc<Refusal>),
}

/// Why a GPU is not used, and the last step whose ledger says so.
struct Refusal {
    why: String,
    noted: Mutex<Option<StepId>>,
}

impl State {
    fn refused(error: &Error) -> State {
        State::Refused(Arc::new(Refusal { why: error.to_string(), noted: Mutex::new(None) }))
    }
}

/// A tensor that our own kernel measures.
pub(super) struct Place {
    found: OnGpu,
    gpu: Arc<Gpu>,
    /// The graph that the measurement becomes a part of.
    graph: Option<Arc<GraphInCapture>>,
}

impl Place {
    pub(super) fn tensor(&self) -> &GpuTensor {
        &self.found.tensor
    }

    /// The GPU and the graph, if a tensor found there at the same time would be measured in the same order.
    pub(super) fn gpu_for(&self, other: &OnGpu) -> Option<(Arc<Gpu>, Option<Arc<GraphInCapture>>)> {
        let is_same = self.found.device == other.device && self.found.stream == other.stream;
        is_same.then(|| (Arc::clone(&self.gpu), self.graph.clone()))
    }

    /// Whether it is measured as part of this graph; of none, if there is none.
    pub(super) fn is_of(&self, graph: Option<&Arc<GraphInCapture>>) -> bool {
        self.graph.as_ref().map(Arc::as_ptr) == graph.map(Arc::as_ptr)
    }
}

impl Recorder {
    /// Where a tensor on a GPU is, if it is on one.
    pub(in crate::capture) fn find_on_gpu(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Option<OnGpu>> {
        match self.recording.plan.measures_by_kernel() && self.torch.is_on_gpu(tensor)? {
            true => on_gpu(tensor),
            false => Ok(None),
        }
    }

    /// The tensor, if our own kernel can measure it there.
    pub(super) fn place_on_gpu(&self, py: Python<'_>, found: OnGpu) -> PyResult<Option<Place>> {
        if !self.recording.plan.measures_by_kernel() || !found.tensor.is_measurable() {
            return Ok(None);
        }
        if let Some((gpu, graph)) = gpu_of_neighbour(&found) {
            return Ok(Some(Place { found, gpu, graph }));
        }
        let Some(gpu) = self.ready_gpu(py, found.device, found.stream)? else { return Ok(None) };
        if !gpu.is_capturing(found.stream) {
            return Ok(Some(Place { found, gpu, graph: None }));
        }
        // Without a graph that is recorded, the front counts tensors inside one that is being captured.
        let graph = self.graphs.on(&gpu, found.stream);
        Ok(graph.map(|graph| Place { found, gpu, graph: Some(graph) }))
    }

    /// A GPU, if our own kernel can be used there.
    pub(super) fn ready_gpu(
        &self,
        py: Python<'_>,
        device: i32,
        stream: Stream,
    ) -> PyResult<Option<Arc<Gpu>>> {
        match self.gpu(py, device, stream)? {
            None => Ok(None),
            Some(State::Ready(gpu, _)) => Ok(Some(gpu)),
            Some(State::Refused(refusal)) => {
                // Once a step, and not for every tensor.
                let step = self.locked(|state| state.id);
                if lock(&refusal.noted).replace(step) != Some(step) {
                    self.note_refusal(device, &refusal.why);
                }
                Ok(None)
            }
        }
    }

    /// What is known of a GPU. The first time in a process, it is prepared, which may take seconds; but not while a graph
    /// is captured.
    fn gpu(&self, py: Python<'_>, number: i32, stream: Stream) -> PyResult<Option<State>> {
        if let Some(state) = lock(&self.gpus.known).get(&number) {
            return Ok(Some(state.clone()));
        }
        if py.detach(|| process::is_capturing(number, stream)) {
            return Ok(None);
        }
        let torch: PathBuf = py.import("torch")?.getattr("__file__")?.extract()?;
        let torch = torch.parent().map(PathBuf::from).unwrap_or_default();
        let state = match py.detach(|| process::prepared(number, &torch, &Cache::of_user())) {
            Ok(gpu) => State::Ready(gpu, Arc::default()),
            Err(error) => State::refused(&error),
        };
        // Another thread may have been faster.
        Ok(Some(lock(&self.gpus.known).entry(number).or_insert(state).clone()))
    }

    /// Launches the kernel for tensors of one call; returns those that it could not be launched for.
    pub(super) fn launch(&self, py: Python<'_>, mut queue: Vec<(Queued, Place)>) -> PyResult<Vec<Queued>> {
        let mut refused = Vec::new();
        while let Some((first, place)) = queue.first() {
            let (step, gpu) = (Arc::clone(&first.step), Arc::clone(&place.gpu));
            let graph = place.graph.clone();
            let (stream, dtype, has_digest) =
                (place.found.stream, place.found.tensor.dtype, first.expected.has_digest);
            let is_same = |(queued, place): &(Queued, Place)| {
                Arc::ptr_eq(&queued.step, &step)
                    && Arc::ptr_eq(&place.gpu, &gpu)
                    && place.found.stream == stream
                    && place.is_of(graph.as_ref())
                    && place.found.tensor.dtype == dtype
                    && queued.expected.has_digest == has_digest
            };
            let number = place.found.device;
            // Nearly always they are all of one kind.
            let together = match queue.iter().all(is_same) {
                true => std::mem::take(&mut queue),
                false => queue.extract_if(.., |one| is_same(one)).collect(),
            };
            let mut queued = VecDeque::with_capacity(together.len());
            let mut tensors = Vec::with_capacity(together.len());
            for (one, place) in together {
                queued.push_back(one);
                tensors.push(place.found.tensor);
            }
            if let Some(graph) = graph {
                let expected = queued.into_iter().map(|queued| queued.expected).collect();
                let error = py.detach(|| graph.measure(stream, &tensors, expected, has_digest));
                if let Some(error) = error {
                    let note = format!("tensors in a captured graph have no numbers: {error}");
                    self.locked(|state| state.note_once(&note));
                }
                continue;
            }
            let mut has_waited = false;
            while !queued.is_empty() {
                let left = &tensors[tensors.len() - queued.len()..];
                // A launch waits while the queue of the device is full. What the device does before may need the GIL.
                let (measurement, error) = py.detach(|| gpu.measure(stream, left, has_digest));
                if !measurement.is_empty() {
                    // Its tensors may be freed: memory is used again in the order of the stream.
                    let launched = queued.drain(..measurement.len());
                    let tensors: Vec<Expected> = launched.map(|queued| queued.expected).collect();
                    let batch = GpuBatch { step: Arc::clone(&step), tensors, measurement, taken: None };
                    self.arrivals.add_of_gpu(batch, &self.recording.plan);
                }
                match error {
                    None => self.forgive(number),
                    Some(Error::Full(_)) if !has_waited => {
                        has_waited = true;
                        self.arrivals.gpu.wait_for_all(py)?;
                    }
                    Some(error) => {
                        self.note_refusal(number, &error.to_string());
                        self.give_up(number, &gpu, &error);
                        refused.extend(queued.drain(..));
                    }
                }
            }
        }
        Ok(refused)
    }

    fn forgive(&self, number: i32) {
        if let Some(State::Ready(_, failures)) = lock(&self.gpus.known).get(&number) {
            failures.store(0, Ordering::Relaxed);
        }
    }

    /// After an error, uses a GPU no more if it has failed, or if launches fail again and again.
    fn give_up(&self, number: i32, gpu: &Gpu, error: &Error) {
        let has_failed = gpu.check().is_err();
        let mut known = lock(&self.gpus.known);
        let Some(State::Ready(_, failures)) = known.get(&number) else { return };
        if has_failed || failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES {
            known.insert(number, State::refused(error));
        }
    }

    /// The ledger's note where our own kernel cannot be used.
    fn note_refusal(&self, number: i32, why: &str) {
        let note = format!(
            "tensors on cuda:{number} were measured by operations of torch, which takes longer: {why}"
        );
        self.locked(|state| state.note_once(&note));
    }
}
