//! Batches that our own kernel measures, until their numbers are written. Nothing here needs the GIL.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use ulpscope_dump::journal::encode::Numbers;
use ulpscope_dump::writer::LateNumbers;
use ulpscope_gpu::Measurement;

use crate::capture::device::arrivals::{Expected, lock};

/// How long the end of a step sleeps between two looks.
const BRIEFLY: Duration = Duration::from_micros(50);

/// How often it asks whether the GPU has failed, and whether the user pressed Ctrl-C.
const SOMETIMES: Duration = Duration::from_millis(20);

/// Tensors of one step in one launch, or a few.
pub(super) struct GpuBatch {
    pub(super) step: Arc<LateNumbers>,
    pub(super) tensors: Vec<Expected>,
    pub(super) measurement: Measurement,
    /// Of a replayed graph: whether its results could be taken.
    pub(super) taken: Option<Arc<Taken>>,
}

/// Whether the results of a replay were taken before the graph runs again on a different stream.
#[derive(Default)]
pub(super) struct Taken {
    is_lost: AtomicBool,
    is_done: AtomicBool,
}

impl Taken {
    /// The graph is about to run again: results that are not there may be those of the next replay.
    pub(super) fn lose(&self) {
        self.is_lost.store(!self.is_done.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Results are there; returns whether they are those of the replay.
    fn arrive(&self) -> bool {
        let is_lost = self.is_lost.load(Ordering::SeqCst);
        self.is_done.store(!is_lost, Ordering::SeqCst);
        !is_lost
    }
}

/// The batches whose numbers have not arrived, oldest first.
#[derive(Default)]
pub(super) struct GpuArrivals {
    waiting: Mutex<VecDeque<GpuBatch>>,
    /// Held while batches are out of the list: who holds it knows that none is missing there.
    writing: Mutex<()>,
    is_used: AtomicBool,
}

impl GpuArrivals {
    pub(super) fn add(&self, batch: GpuBatch) {
        self.is_used.store(true, Ordering::Relaxed);
        lock(&self.waiting).push_back(batch);
    }

    /// Whether there has been a batch.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Writes the numbers that have arrived.
    pub(super) fn write_arrived(&self) {
        self.write(|_| false);
    }

    /// Waits for everything that is being measured.
    pub(super) fn wait_for_all(&self, py: Python<'_>) -> PyResult<()> {
        self.wait_while(py, |_| true)
    }

    /// Waits for all numbers of a step. What interrupts the program is returned when they are there, or at once if it
    /// comes a second time.
    pub(super) fn wait_for(&self, py: Python<'_>, step: &Arc<LateNumbers>) -> PyResult<()> {
        if !self.is_used() {
            return Ok(());
        }
        let waited = self.wait_while(py, |batch| Arc::ptr_eq(&batch.step, step));
        if waited.is_err() {
            let _ = self.wait_while(py, |batch| Arc::ptr_eq(&batch.step, step));
        }
        waited
    }

    /// The same where there is no Python: the thread that ends a step.
    pub(in crate::capture) fn wait_quietly_for(&self, step: &Arc<LateNumbers>) {
        while self.is_used() && self.wait_briefly(&|batch: &GpuBatch| Arc::ptr_eq(&batch.step, step)) {}
    }

    fn wait_while(&self, py: Python<'_>, is_awaited: impl Fn(&GpuBatch) -> bool + Sync) -> PyResult<()> {
        while py.detach(|| self.wait_briefly(&is_awaited)) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Waits for a moment; returns whether a batch is still awaited.
    fn wait_briefly(&self, is_awaited: &(impl Fn(&GpuBatch) -> bool + Sync)) -> bool {
        let begun = Instant::now();
        while self.write(is_awaited) {
            if begun.elapsed() > SOMETIMES {
                self.give_up_failed();
                return true;
            }
            std::thread::sleep(BRIEFLY);
        }
        false
    }

    /// Writes the numbers that have arrived; returns whether an awaited batch is left.
    fn write(&self, is_awaited: impl Fn(&GpuBatch) -> bool) -> bool {
        let _writing = lock(&self.writing);
        let batches = std::mem::take(&mut *lock(&self.waiting));
        let (mut arrived, mut left) = (Vec::new(), VecDeque::new());
        for batch in batches {
            match batch.measurement.has_arrived() {
                true if batch.taken.as_ref().is_none_or(|taken| taken.arrive()) => arrived.push(batch),
                // Its tensors stay without numbers, and are counted.
                true => {}
                false => left.push_back(batch),
            }
        }
        for of_step in arrived.chunk_by(|one, next| Arc::ptr_eq(&one.step, &next.step)) {
            write_numbers(of_step);
        }
        let is_left = left.iter().any(is_awaited);
        let mut waiting = lock(&self.waiting);
        left.append(&mut waiting);
        *waiting = left;
        is_left
    }

    /// Gives up batches of a GPU that has failed. Their tensors stay without numbers, and are counted.
    fn give_up_failed(&self) {
        let _writing = lock(&self.writing);
        let batches = std::mem::take(&mut *lock(&self.waiting));
        let is_alive =
            |batch: &GpuBatch| batch.measurement.has_arrived() || batch.measurement.check().is_ok();
        let mut left: VecDeque<GpuBatch> = batches.into_iter().filter(is_alive).collect();
        let mut waiting = lock(&self.waiting);
        left.append(&mut waiting);
        *waiting = left;
    }
}

/// Writes the numbers of batches of one step, together.
fn write_numbers(batches: &[GpuBatch]) {
    let numbers_of = |batch: &GpuBatch| {
        let found = batch.tensors.iter().zip(batch.measurement.numbers());
        let numbers = found.filter_map(|(expected, found)| {
            let (stats, digest) = found?;
            Some((expected.ticket, Numbers { stats, is_scalar: expected.is_scalar, digest, saved: None }))
        });
        numbers.collect::<Vec<_>>()
    };
    if let Some(first) = batches.first() {
        // A journal that cannot be written to is reported by its next line.
        let _ = first.step.arrive_together(batches.iter().flat_map(numbers_of));
    }
}
