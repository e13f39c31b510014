//! Tensors of one call that are about to be measured on their device, all at once.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use ulpscope_capture::{DeviceStatistics, StepId};
use ulpscope_dump::journal::encode::{Numbers, Ticket};
use ulpscope_dump::writer::LateNumbers;
use ulpscope_kernels::{Threads, stats};
use ulpscope_tensor::DType;

use crate::capture::device::arrivals::{Batch, Expected};
use crate::capture::recorder::Recorder;
use crate::input::Input;

/// The ledger's note where a device could not measure its tensors.
const ON_HOST: &str = "tensors were copied to be measured: their device lacks an operation for it";

/// A tensor that waits for the others of its call.
struct Queued {
    tensor: Py<PyAny>,
    step: Arc<LateNumbers>,
    expected: Expected,
}

thread_local! {
    /// Tensors between their description and `measure_queued`. A walk that failed may leave some, whose line is never
    /// written.
    static QUEUE: RefCell<Vec<Queued>> = const { RefCell::new(Vec::new()) };
}

/// A tensor that its device measures.
pub(in crate::capture) struct Remote {
    pub(in crate::capture) dtype: String,
    pub(in crate::capture) shape: Vec<usize>,
    pub(in crate::capture) ticket: Ticket,
}

impl Recorder {
    /// Whether a tensor of torch's own class is measured by torch even in ordinary memory.
    pub(in crate::capture) fn measures_all_by_torch(&self) -> bool {
        let plan = &self.recording.plan;
        plan.device_statistics == DeviceStatistics::Torch && plan.measures_on_devices()
    }

    /// Lets a tensor be measured where it is, with the others of its call; `None` if it has to be copied, or cannot be
    /// read at all.
    pub(in crate::capture) fn queue(
        &self,
        tensor: &Bound<'_, PyAny>,
        step: StepId,
    ) -> PyResult<Option<Remote>> {
        if !self.recording.plan.measures_on_devices() {
            return Ok(None);
        }
        let py = tensor.py();
        let front = self.torch.front.bind(py);
        let found = front.call_method1(intern!(py, "measurable"), (tensor,))?;
        let Some((dtype, shape)) = found.extract::<Option<(String, Vec<usize>)>>()? else { return Ok(None) };
        let Ok(parsed) = dtype.parse::<DType>() else { return Ok(None) };
        let Some(numbers) = self.in_step(step, |state| Arc::clone(&state.numbers)) else { return Ok(None) };
        let ticket = numbers.ticket();
        let count = shape.iter().map(|&dim| dim as u64).product();
        let expected = Expected { ticket, dtype: parsed, count, is_scalar: shape.is_empty() };
        let queued = Queued { tensor: tensor.clone().unbind(), step: numbers, expected };
        QUEUE.with_borrow_mut(|queue| queue.push(queued));
        Ok(Some(Remote { dtype, shape, ticket }))
    }

    /// Starts measuring the tensors of a call, before anything else can change them.
    pub(in crate::capture) fn measure_queued(&self, py: Python<'_>) -> PyResult<()> {
        // Taken out first: Python code may come back here.
        let mut queue = QUEUE.with_borrow_mut(std::mem::take);
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
        let tensors = PyList::new(py, batch.iter().map(|queued| &queued.tensor))?;
        match self.torch.front.bind(py).call_method1(intern!(py, "measure"), (tensors,)) {
            Ok(object) => {
                let tensors = batch.into_iter().map(|queued| queued.expected).collect();
                let batch = Batch { step, tensors, object: object.unbind() };
                self.arrivals.add(py, batch, &self.recording.plan)?;
            }
            Err(error) if error.is_instance_of::<PyException>(py) => {
                self.locked(|state| state.note_once(ON_HOST));
                for queued in batch {
                    let input = Input::of(queued.tensor.bind(py))?;
                    let stats = input.detached(py, |view| stats(view, Threads::One))?;
                    let numbers = Numbers { stats, is_scalar: queued.expected.is_scalar };
                    // A journal that cannot be written to is reported by its next line.
                    let _ = step.arrive(queued.expected.ticket, numbers);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn device_of<'py>(queued: &Queued, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    queued.tensor.bind(py).getattr(intern!(py, "device"))
}
