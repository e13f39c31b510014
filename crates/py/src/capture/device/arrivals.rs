//! Batches of tensors that a device measures, until their numbers are written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use ulpscope_capture::Plan;
use ulpscope_dump::journal::encode::{Numbers, Ticket};
use ulpscope_dump::writer::LateNumbers;
use ulpscope_gpu::process;
use ulpscope_kernels::Stats;
use ulpscope_tensor::{DType, NumberKind, Scalar};

use crate::capture::device::copies::Copies;
use crate::capture::device::gpu_arrivals::{GpuArrivals, GpuBatch};
use crate::capture::device::one_thread::OneThread;
use crate::capture::device::poller::Poller;
use crate::capture::recorder::Recorder;

/// Batches that wait before a call looks whether some have arrived.
const MANY: usize = 64;

/// A tensor that is measured elsewhere.
#[derive(Clone, Copy)]
pub(in crate::capture) struct Expected {
    pub(in crate::capture) ticket: Ticket,
    pub(in crate::capture) dtype: DType,
    pub(in crate::capture) count: u64,
    pub(in crate::capture) is_scalar: bool,
    /// Whether its digest arrives, too.
    pub(in crate::capture) has_digest: bool,
}

/// Tensors of one step that are measured together.
pub(in crate::capture) struct Batch {
    pub(in crate::capture) step: Arc<LateNumbers>,
    pub(in crate::capture) tensors: Vec<Expected>,
    /// The front's object: `has_arrived`, `wait`, `numbers`.
    pub(in crate::capture) object: Py<PyAny>,
    /// The NVIDIA GPU that measures them.
    pub(in crate::capture) gpu: Option<i32>,
}

/// The batches whose numbers have not arrived, oldest first.
#[derive(Default)]
pub(in crate::capture) struct Arrivals {
    waiting: Mutex<VecDeque<Batch>>,
    /// Whether there has been one.
    is_used: AtomicBool,
    /// The thread that looks at them.
    look: OneThread,
    /// Those that our own kernel measures.
    pub(super) gpu: GpuArrivals,
    /// Those that get files.
    pub(in crate::capture) copies: Copies,
    poller: Mutex<Option<Poller>>,
    /// Whose calls are judged by numbers that have arrived (task `overflow_check`), while some are not.
    judge: Mutex<Option<Py<Recorder>>>,
}

impl Arrivals {
    /// Adds a batch, and looks at the older ones if there are many.
    pub(in crate::capture) fn add(
        self: &Arc<Self>,
        py: Python<'_>,
        batch: Batch,
        plan: &Plan,
    ) -> PyResult<()> {
        self.is_used.store(true, Ordering::Relaxed);
        let count = {
            let mut waiting = lock(&self.waiting);
            waiting.push_back(batch);
            waiting.len()
        };
        self.start_poller(plan);
        if count >= MANY { self.look(py) } else { Ok(()) }
    }

    /// Adds a batch of our own kernel. The thread writes its numbers.
    pub(super) fn add_of_gpu(self: &Arc<Self>, batch: GpuBatch, plan: &Plan) {
        self.gpu.add(batch);
        self.start_poller(plan);
    }

    pub(super) fn start_poller(self: &Arc<Self>, plan: &Plan) {
        lock(&self.poller).get_or_insert_with(|| Poller::start(self, plan.flush_interval));
    }

    /// Writes the numbers that have arrived, without waiting. What interrupts the program (Ctrl-C) is returned.
    pub(super) fn look(&self, py: Python<'_>) -> PyResult<()> {
        self.copies.write_arrived(py)?;
        match self.look.begin() {
            Some(_looking) => self.take_arrived(py, None),
            None => Ok(()),
        }
    }

    /// Waits for all numbers of a step. What interrupts the program is returned when they are there.
    pub(in crate::capture) fn wait_for(&self, py: Python<'_>, step: &Arc<LateNumbers>) -> PyResult<()> {
        let of_gpu = self.gpu.wait_for(py, step);
        let Some(_looking) = self.look.wait(py) else { return of_gpu };
        let waited = self.take_arrived(py, Some(step));
        if waited.is_err() {
            // Once: a second interruption means it.
            let _ = self.take_arrived(py, Some(step));
        }
        of_gpu.and(waited)
    }

    /// Whether all tensors that are measured elsewhere have been measured by our own kernel so far.
    pub(in crate::capture) fn only_gpus_measure(&self) -> bool {
        self.gpu.is_used() && !self.is_used.load(Ordering::Relaxed) && self.copies.is_empty()
    }

    /// Waits for the numbers of a step that our own kernel computes. The GIL must not be held.
    pub(in crate::capture) fn wait_quietly_for(&self, step: &Arc<LateNumbers>) {
        self.gpu.wait_quietly_for(step);
    }

    /// Whether this very thread is looking, or waiting, and Python runs something else meanwhile.
    pub(in crate::capture) fn are_awaited_here(&self) -> bool {
        self.look.is_here()
    }

    /// Ends the thread.
    pub(in crate::capture) fn rest(&self, py: Python<'_>) {
        let poller = lock(&self.poller).take();
        // It may need the GIL for its last look.
        py.detach(|| poller.map(Poller::stop));
    }

    /// Whether a batch or a copy is waiting, or a call for its numbers.
    pub(super) fn is_waiting(&self) -> bool {
        !lock(&self.waiting).is_empty() || !self.copies.is_empty() || lock(&self.judge).is_some()
    }

    /// Sets who judges calls when numbers have arrived; `None` when all are judged.
    pub(in crate::capture) fn set_judge(&self, judge: Option<Py<Recorder>>) {
        let _former = std::mem::replace(&mut *lock(&self.judge), judge);
    }

    /// Lets calls be judged whose numbers have arrived.
    pub(super) fn judge(&self, py: Python<'_>) -> PyResult<()> {
        let judge = lock(&self.judge).as_ref().map(|judge| judge.clone_ref(py));
        judge.map_or(Ok(()), |judge| judge.get().judge_arrived(py))
    }

    fn take_arrived(&self, py: Python<'_>, awaited: Option<&Arc<LateNumbers>>) -> PyResult<()> {
        let mut result = Ok(());
        let mut left = VecDeque::new();
        // Unlocked before Python is asked.
        let batches = std::mem::take(&mut *lock(&self.waiting));
        for batch in batches {
            let is_awaited = awaited.is_some_and(|step| Arc::ptr_eq(step, &batch.step));
            let is_done = result.is_ok()
                && batch.write_arrived(py, is_awaited).unwrap_or_else(|error| {
                    result = Err(error);
                    false
                });
            if !is_done {
                left.push_back(batch);
            }
        }
        let mut waiting = lock(&self.waiting);
        left.append(&mut waiting);
        *waiting = left;
        result
    }
}

pub(in crate::capture) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Batch {
    /// Writes the numbers if they have arrived, or after waiting; returns whether nothing more is to be expected. What
    /// cannot be read or written stays without numbers, and is counted at the end of the step.
    fn write_arrived(&self, py: Python<'_>, waits: bool) -> PyResult<bool> {
        let object = self.object.bind(py);
        let ask = || match waits {
            true => object.call_method0(intern!(py, "wait")).map(|_| true),
            false => object.call_method0(intern!(py, "has_arrived")).and_then(|answer| answer.is_truthy()),
        };
        // Another thread of the program may be capturing a graph.
        let asked = match self.gpu {
            Some(number) => process::beside_graphs(number, ask),
            None => ask(),
        };
        if let Ok(false) = asked {
            return Ok(false);
        }
        let numbers = asked.and_then(|_| object.call_method0(intern!(py, "numbers")));
        let numbers = match numbers {
            Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
            numbers => numbers,
        };
        if let Ok(numbers) = numbers.and_then(|numbers| Ok(numbers.cast_into::<PyList>()?)) {
            for (expected, found) in self.tensors.iter().zip(numbers.iter()) {
                if let Ok(stats) = expected.stats(&found) {
                    let numbers = Numbers { stats, is_scalar: expected.is_scalar, digest: None, saved: None };
                    // A journal that cannot be written to has been reported by its next line.
                    let _ = self.step.arrive(expected.ticket, numbers);
                }
            }
        }
        Ok(true)
    }
}

/// The front's numbers of a tensor of floats: the sum, the norm, the largest and the smallest finite element, and how
/// many are NaN, positive and negative infinity.
type OfFloats = (f64, f64, f64, f64, u64, u64, u64);

/// Those of a tensor of integers: the sum, the norm, the largest and the smallest element.
type OfIntegers = (f64, f64, i128, i128);

impl Expected {
    /// The statistics from the front's numbers. Zeros and subnormals, which are not recorded, are not counted there.
    fn stats(&self, found: &Bound<'_, PyAny>) -> PyResult<Stats> {
        let count = self.count;
        let known = |sum: f64, norm: f64| Stats {
            count,
            max: None,
            min: None,
            mean: (count > 0).then(|| canonical(sum / count as f64)),
            norm: canonical(norm),
            nan: 0,
            pos_inf: 0,
            neg_inf: 0,
            zeros: 0,
            subnormals: 0,
            finite_max: None,
            finite_min: None,
        };
        let kind = self.dtype.encoding().kind();
        if let NumberKind::Bool | NumberKind::Signed | NumberKind::Unsigned = kind {
            let (sum, norm, max, min): OfIntegers = found.extract()?;
            let scalar = |value: i128| match kind {
                NumberKind::Bool => Scalar::Bool(value != 0),
                _ => Scalar::Int(value),
            };
            let (max, min) = (Some(scalar(max)), Some(scalar(min)));
            return Ok(Stats { max, min, finite_max: max, finite_min: min, ..known(sum, norm) });
        }
        let (sum, norm, largest, smallest, nan, pos_inf, neg_inf): OfFloats = found.extract()?;
        let has_finite = nan + pos_inf + neg_inf < count;
        // Adding zero turns -0.0 into zero, as on the host.
        let finite = |value: f64| has_finite.then_some(Scalar::Float(value + 0.0));
        let extreme = |finite: Option<Scalar>, this: (u64, f64), other: f64| match () {
            () if nan > 0 => Some(Scalar::Float(f64::NAN)),
            () if this.0 > 0 => Some(Scalar::Float(this.1)),
            () => finite.or(Some(Scalar::Float(other))),
        };
        Ok(Stats {
            max: extreme(finite(largest), (pos_inf, f64::INFINITY), f64::NEG_INFINITY),
            min: extreme(finite(smallest), (neg_inf, f64::NEG_INFINITY), f64::INFINITY),
            nan,
            pos_inf,
            neg_inf,
            finite_max: finite(largest),
            finite_min: finite(smallest),
            ..known(sum, norm)
        })
    }
}

/// The only NaN in results.
fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}
