//! Tensors of other devices that get files: copies on their way to the host, until they are measured and written.
//!
//! The bytes of all copies are limited. Where there are too many, the call that adds one waits for the oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use ulpscope_capture::{Recording, StepId};
use ulpscope_dump::journal::encode::{Numbers, Ticket};
use ulpscope_dump::writer::LateNumbers;
use ulpscope_gpu::process;

use crate::capture::describe::tensors::measured;
use crate::capture::device::arrivals::lock;
use crate::capture::device::one_thread::OneThread;
use crate::capture::device::queue::{Remote, gpu_of};
use crate::capture::lifecycle::failures::caught;
use crate::capture::lifecycle::writing::save_tensor;
use crate::capture::recorder::Recorder;
use crate::input::Input;

/// Bytes of all copies that have not been written: once on the device, once on the host. Larger tensors are waited for.
const MOST_BYTES: usize = 256 << 20;

/// A tensor on its way.
struct Copy {
    recording: Arc<Recording>,
    step: StepId,
    numbers: Arc<LateNumbers>,
    ticket: Ticket,
    /// The name of its file without suffix.
    stem: String,
    /// The dtype as torch prints it.
    dtype: String,
    bytes: usize,
    /// The front's object: `has_arrived`, `wait`, `tensor`.
    object: Py<PyAny>,
    /// The NVIDIA GPU that it is copied from.
    gpu: Option<i32>,
}

/// The copies that have not been written, oldest first.
#[derive(Default)]
pub(in crate::capture) struct Copies {
    waiting: Mutex<Waiting>,
    /// The thread that writes: copies are written in their order.
    writer: OneThread,
}

#[derive(Default)]
struct Waiting {
    copies: VecDeque<Copy>,
    bytes: usize,
}

/// Which copies are waited for.
#[derive(Clone, Copy)]
enum Until {
    /// None.
    Arrived,
    /// The oldest, as long as all have more bytes than this.
    AtMost(usize),
}

impl Copies {
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.waiting).copies.is_empty()
    }

    /// Writes the copies that have arrived.
    pub(super) fn write_arrived(&self, py: Python<'_>) -> PyResult<()> {
        self.write(py, Until::Arrived)
    }

    /// Waits for all copies, and writes them.
    pub(in crate::capture) fn write_all(&self, py: Python<'_>) -> PyResult<()> {
        let written = self.write(py, Until::AtMost(0));
        if written.is_err() {
            // Once: a second interruption means it.
            let _ = self.write(py, Until::AtMost(0));
        }
        written
    }

    /// Waits until there is room for so many bytes.
    fn make_room(&self, py: Python<'_>, bytes: usize) -> PyResult<()> {
        let left = MOST_BYTES.saturating_sub(bytes);
        let is_full = lock(&self.waiting).bytes > left;
        if is_full { self.write(py, Until::AtMost(left)) } else { Ok(()) }
    }

    fn add(&self, copy: Copy) {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += copy.bytes;
        waiting.copies.push_back(copy);
    }

    fn write(&self, py: Python<'_>, until: Until) -> PyResult<()> {
        let writing = match until {
            Until::Arrived => self.writer.begin(),
            Until::AtMost(_) => self.writer.wait(py),
        };
        let Some(_writing) = writing else { return Ok(()) };
        loop {
            let Some((copy, bytes)) = self.oldest() else { return Ok(()) };
            let waits = match until {
                Until::Arrived => false,
                Until::AtMost(limit) if bytes > limit => true,
                Until::AtMost(_) => {
                    lock(&self.waiting).copies.push_front(copy);
                    return Ok(());
                }
            };
            match copy.ask(py, waits) {
                Ok(true) => {
                    let written = caught(|| copy.write(py));
                    lock(&self.waiting).bytes -= copy.bytes;
                    if let Err(error) = written {
                        match error.is_instance_of::<PyException>(py) {
                            // Its line says that it has no numbers; the ledger says why.
                            true => copy.lose(&error.value(py).to_string()),
                            false => return Err(error),
                        }
                    }
                }
                Ok(false) => {
                    lock(&self.waiting).copies.push_front(copy);
                    return Ok(());
                }
                // The device has failed. It is counted as a tensor whose numbers did not arrive.
                Err(error) if error.is_instance_of::<PyException>(py) => {
                    lock(&self.waiting).bytes -= copy.bytes;
                }
                Err(error) => {
                    lock(&self.waiting).copies.push_front(copy);
                    return Err(error);
                }
            }
        }
    }

    /// Takes out the oldest; with the bytes of all.
    fn oldest(&self) -> Option<(Copy, usize)> {
        let mut waiting = lock(&self.waiting);
        let copy = waiting.copies.pop_front()?;
        Some((copy, waiting.bytes))
    }
}

impl Copy {
    fn ask(&self, py: Python<'_>, waits: bool) -> PyResult<bool> {
        let object = self.object.bind(py);
        let ask = || match waits {
            true => object.call_method0(intern!(py, "wait")).map(|_| true),
            false => object.call_method0(intern!(py, "has_arrived")).and_then(|answer| answer.is_truthy()),
        };
        match self.gpu {
            Some(number) => process::beside_graphs(number, ask),
            None => ask(),
        }
    }

    /// Measures and writes the elements, as if they had been on the host from the beginning.
    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let host = self.object.bind(py).call_method0(intern!(py, "tensor"))?;
        let input = Input::of(&host)?;
        let plan = &self.recording.plan;
        let (dtype, is_scalar) = input.looked_at(|view| (view.dtype(), view.shape().is_empty()))?;
        let (stats, digest, _) = input.detached(py, |view| measured(plan, view))?;
        let saved = save_tensor(&self.recording, py, self.step, &self.stem, input)?;
        let saved = saved.map(|saved| saved.recorded_as(Some(&self.dtype), dtype));
        let numbers = Numbers { stats, is_scalar, digest, saved };
        // A journal that cannot be written to is reported by its next line.
        let _ = self.numbers.arrive(self.ticket, numbers);
        Ok(())
    }

    fn lose(&self, why: &str) {
        self.recording.locked(|state| state.ledger.unread(why.to_owned()));
    }
}

impl Recorder {
    /// Starts a copy of a tensor that gets a file; `None` if it has to be waited for, or cannot be read at all.
    pub(in crate::capture) fn queue_copy(
        &self,
        tensor: &Bound<'_, PyAny>,
        step: StepId,
        stem: &str,
    ) -> PyResult<Option<Remote>> {
        let plan = &self.recording.plan;
        if !plan.copies_late() {
            return Ok(None);
        }
        let py = tensor.py();
        // Layouts without an answer are not copied this way.
        let bytes = tensor.getattr(intern!(py, "nbytes")).and_then(|bytes| bytes.extract::<usize>());
        let Some(bytes) = bytes.ok().filter(|&bytes| bytes <= MOST_BYTES) else { return Ok(None) };
        self.arrivals.copies.make_room(py, bytes)?;
        let staged = self.torch.front.bind(py).call_method1(intern!(py, "stage"), (tensor,))?;
        let Some((object, dtype, shape)) = staged.extract::<Option<(Py<PyAny>, String, Vec<usize>)>>()?
        else {
            return Ok(None);
        };
        let Some(numbers) = self.in_step(step, |state| Arc::clone(&state.numbers)) else { return Ok(None) };
        let ticket = numbers.ticket();
        let copy = Copy {
            recording: Arc::clone(&self.recording),
            step,
            numbers,
            ticket,
            stem: stem.to_owned(),
            dtype: dtype.clone(),
            bytes,
            object,
            gpu: gpu_of(tensor)?,
        };
        self.arrivals.start_poller(plan);
        self.arrivals.copies.add(copy);
        Ok(Some(Remote { dtype: dtype.into(), shape, ticket, has_digest: plan.digest.is_some() }))
    }
}
