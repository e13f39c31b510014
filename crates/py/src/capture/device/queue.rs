//! Tensors of one call that are about to be measured on their device, all at once.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use ulpscope_capture::{DeviceStatistics, StepId};
use ulpscope_dump::journal::encode::{Numbers, Ticket};
use ulpscope_dump::writer::LateNumbers;
use ulpscope_gpu::{Gpu, GpuTensor};
use ulpscope_kernels::{DigestKind, Threads, digest, stats};
use ulpscope_tensor::DType;

use crate::capture::device::arrivals::{Batch, Expected};
use crate::capture::device::captured_graphs::GraphInCapture;
use crate::capture::device::gpus::Place;
use crate::capture::recorder::Recorder;
use crate::input::{Input, OnGpu};

/// The ledger's notes where a device could not measure its tensors.
const LACKING: &str = "tensors were copied to be measured: their device lacks an operation for it";
const NO_MEMORY: &str = "tensors were copied to be measured: their device had no memory left for it";

/// Torch's error for the second. Not every release has the class in the same place.
const OUT_OF_MEMORY: &str = "OutOfMemoryError";

/// Tensors of a call that there is memory for at all times.
const MANY: usize = 64;

/// A tensor that waits for the others of its call.
pub(super) struct Queued {
    tensor: Py<PyAny>,
    pub(super) step: Arc<LateNumbers>,
    /// Whether only the range of its values is asked for.
    is_range: bool,
    pub(super) expected: Expected,
}

thread_local! {
    /// Tensors between their description and `measure_queued`: those of one call, or of calls one within the other.
    static QUEUE: RefCell<Vec<(Queued, Option<Place>)>> = const { RefCell::new(Vec::new()) };
}

/// A tensor that its device measures.
pub(in crate::capture) struct Remote {
    /// The dtype as torch prints it.
    pub(in crate::capture) dtype: Cow<'static, str>,
    pub(in crate::capture) shape: Vec<usize>,
    pub(in crate::capture) ticket: Ticket,
    /// Whether its digest arrives with its statistics.
    pub(in crate::capture) has_digest: bool,
}

impl Recorder {
    /// Whether a tensor of torch's own class is measured by torch even in ordinary memory.
    pub(in crate::capture) fn measures_all_by_torch(&self) -> bool {
        let plan = &self.recording.plan;
        plan.device_statistics == DeviceStatistics::Torch && plan.measures_by_torch()
    }

    /// Lets a tensor be measured where it is, with the others of its call: on the GPU where it was found, or by torch.
    /// `None` if it has to be copied, or cannot be read at all.
    pub(in crate::capture) fn queue(
        &self,
        tensor: &Bound<'_, PyAny>,
        found: Option<OnGpu>,
        step: StepId,
    ) -> PyResult<Option<Remote>> {
        match self.in_step(step, |state| Arc::clone(&state.numbers)) {
            Some(numbers) => self.queue_for(tensor, found, numbers, false),
            None => Ok(None),
        }
    }

    /// The same for numbers that go elsewhere. For a range, no more is measured than its extent shows.
    pub(in crate::capture) fn queue_for(
        &self,
        tensor: &Bound<'_, PyAny>,
        found: Option<OnGpu>,
        numbers: Arc<LateNumbers>,
        is_range: bool,
    ) -> PyResult<Option<Remote>> {
        let py = tensor.py();
        let place = found.map_or(Ok(None), |found| self.place_on_gpu(py, found))?;
        let graph = self.graphs.with(&numbers);
        let is_in_place = place.as_ref().is_none_or(|place| place.is_of(graph.as_ref()));
        if !is_in_place || place.is_none() && graph.is_some() {
            // What is not on the stream of the graph runs once, and not in its replays.
            return Ok(None);
        }
        let (dtype, printed, shape, has_digest) = match &place {
            Some(place) => {
                let GpuTensor { dtype, shape, .. } = place.tensor();
                let has_digest =
                    self.recording.plan.digest.is_some() && !is_range && !place.tensor().is_endless();
                (*dtype, Cow::Borrowed(dtype.printed_name()), shape.clone(), has_digest)
            }
            None if !self.recording.plan.measures_by_torch() => return Ok(None),
            None => {
                let found = self.torch.front.bind(py).call_method1(intern!(py, "measurable"), (tensor,))?;
                let Some((printed, shape)) = found.extract::<Option<(String, Vec<usize>)>>()? else {
                    return Ok(None);
                };
                let Ok(dtype) = printed.parse::<DType>() else { return Ok(None) };
                (dtype, Cow::Owned(printed), shape, false)
            }
        };
        let ticket = numbers.ticket();
        let count = shape.iter().map(|&dim| dim as u64).product();
        let expected = Expected { ticket, dtype, count, is_scalar: shape.is_empty(), has_digest };
        let queued = Queued { tensor: tensor.clone().unbind(), step: numbers, is_range, expected };
        QUEUE.with_borrow_mut(|queue| queue.push((queued, place)));
        Ok(Some(Remote { dtype: printed, shape, ticket, has_digest }))
    }

    /// Describes several tensors with `describe`, and starts measuring them, even if some could not be described.
    pub(in crate::capture) fn measured_together<T>(
        &self,
        py: Python<'_>,
        describe: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let described = describe();
        self.measure_queued(py).and(described)
    }

    /// Starts measuring the tensors of a call, before anything else can change them.
    pub(in crate::capture) fn measure_queued(&self, py: Python<'_>) -> PyResult<()> {
        // Taken out first: Python code may come back here.
        let (mut on_gpus, mut queue) = (Vec::new(), Vec::new());
        QUEUE.with_borrow_mut(|all| {
            on_gpus.reserve(all.len());
            for (queued, place) in all.drain(..) {
                match place {
                    Some(place) => on_gpus.push((queued, place)),
                    None => queue.push(queued),
                }
            }
            // Memory for the next call, but not for what an optimizer gets.
            all.shrink_to(MANY);
        });
        if on_gpus.is_empty() && queue.is_empty() {
            return Ok(());
        }
        queue.extend(self.launch(py, on_gpus)?);
        while let Some(first) = queue.first() {
            let (device, step) = (device_of(first, py)?, Arc::clone(&first.step));
            let mut batch = Vec::with_capacity(queue.len());
            let mut others = Vec::new();
            for queued in queue {
                let is_same = Arc::ptr_eq(&queued.step, &step) && device_of(&queued, py)?.eq(&device)?;
                if is_same { batch.push(queued) } else { others.push(queued) }
            }
            self.measure(py, step, batch)?;
            queue = others;
        }
        Ok(())
    }

    /// Starts measuring tensors of one device and step.
    fn measure(&self, py: Python<'_>, step: Arc<LateNumbers>, batch: Vec<Queued>) -> PyResult<()> {
        if batch.iter().any(|queued| queued.expected.has_digest) {
            // Only our own kernel has the digest, and it could not be launched.
            return measure_on_host(py, &step, batch);
        }
        let tensors = PyList::new(py, batch.iter().map(|queued| &queued.tensor))?;
        let measure = match batch.iter().all(|queued| queued.is_range) {
            true => intern!(py, "measure_range"),
            false => intern!(py, "measure"),
        };
        match self.torch.front.bind(py).call_method1(measure, (tensors,)) {
            Ok(object) => {
                let gpu = batch.first().map_or(Ok(None), |first| gpu_of(first.tensor.bind(py)))?;
                let tensors = batch.into_iter().map(|queued| queued.expected).collect();
                let batch = Batch { step, tensors, object: object.unbind(), gpu };
                self.arrivals.add(py, batch, &self.recording.plan)?;
            }
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let is_memory = error.get_type(py).name()? == OUT_OF_MEMORY;
                self.locked(|state| state.note_once(if is_memory { NO_MEMORY } else { LACKING }));
                measure_on_host(py, &step, batch)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The GPU of the tensor that was queued last, if this one is on the same stream: both are of one call, and nothing that
/// was found out for that one has changed.
pub(super) fn gpu_of_neighbour(found: &OnGpu) -> Option<(Arc<Gpu>, Option<Arc<GraphInCapture>>)> {
    QUEUE.with_borrow(|queue| queue.last()?.1.as_ref()?.gpu_for(found))
}

/// Whether tensors wait to be measured on this thread.
pub(in crate::capture) fn has_queued() -> bool {
    QUEUE.with_borrow(|queue| !queue.is_empty())
}

/// Forgets the tensors of a call whose recording has ended: they stay without numbers.
pub(in crate::capture) fn forget_queued() {
    // Dropped outside of the borrow: that may run Python code.
    drop(QUEUE.take());
}

/// Measures copies of tensors.
fn measure_on_host(py: Python<'_>, step: &LateNumbers, batch: Vec<Queued>) -> PyResult<()> {
    for Queued { tensor, expected, .. } in batch {
        let (stats, digest) = Input::of(tensor.bind(py))?.detached(py, |view| {
            let digest = expected.has_digest.then(|| digest(view, DigestKind::Mix64));
            (stats(view, Threads::One), digest)
        })?;
        let numbers = Numbers { stats, is_scalar: expected.is_scalar, digest, saved: None };
        // A journal that cannot be written to is reported by its next line.
        let _ = step.arrive(expected.ticket, numbers);
    }
    Ok(())
}

/// The number of the NVIDIA GPU that a tensor is on.
pub(super) fn gpu_of(tensor: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    let py = tensor.py();
    if !tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
        return Ok(None);
    }
    let device = tensor.getattr(intern!(py, "device"))?;
    let index: Option<i32> = device.getattr(intern!(py, "index"))?.extract()?;
    Ok(Some(index.unwrap_or(0)))
}

fn device_of<'py>(queued: &Queued, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    queued.tensor.bind(py).getattr(intern!(py, "device"))
}
