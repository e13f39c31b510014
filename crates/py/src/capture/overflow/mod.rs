//! Task `overflow_check`: every call is checked, and only what overflowed is written.
//!
//! ```text
//! a call ──► results in range? ──► yes: counted, hooks on its nodes ──► gradients in range? ── …
//!                              └─► no: inputs in range? ──► born, inherited, saturated ──► written in full
//! ```
//! Values on other devices are judged when their numbers have arrived (`devices.rs`).
//!
//! A call in range costs one pass over its results. Its name is made, and its stack read, only if it is written.

mod backward;
mod calls;
mod devices;
mod reaches;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;
use ulpscope_capture::{CallStack, DeviceStatistics, Overflow, Plan};

pub(in crate::capture) use backward::OverflowHook;
pub(in crate::capture) use calls::check_call;

use crate::capture::lifecycle::failures::Of;
use crate::capture::recorder::Recorder;

/// Large tensors known to be in range that are remembered before freed ones are removed.
const SWEEP: usize = 1 << 14;

/// Stacks by the code object and the instruction of their innermost frame. The object is kept: so its address stays.
type Callers = HashMap<(usize, u32), (Py<PyAny>, Arc<CallStack>)>;

/// What a check remembers from call to call.
pub(in crate::capture) struct OverflowMemory {
    /// Whether nothing but the range of values is asked for, of all calls.
    is_quick: bool,
    /// Whether the device has a flag that its overflows set: on chips that saturate, results do not show them.
    has_flag: bool,
    /// Types of graph nodes that have been met, by address: whether they only rearrange elements.
    node_types: Mutex<HashMap<usize, (Py<PyType>, bool)>>,
    /// Large tensors that were changed in place and found in range, by address: weak references and change counts.
    in_range: Mutex<HashMap<usize, (Py<PyAny>, u64)>>,
    /// The stack of a call at an instruction.
    callers: Mutex<Callers>,
    /// Values on other devices.
    pub(in crate::capture) devices: devices::DeviceChecks,
    /// Whether the wanted number of overflows was found, and nothing more is checked.
    is_done: AtomicBool,
    /// The error that ends the run, until it can be raised.
    ending: Mutex<Option<PyErr>>,
}

impl OverflowMemory {
    pub(in crate::capture) fn new(plan: &Plan, has_flag: bool) -> OverflowMemory {
        let by_torch = plan.device_statistics == DeviceStatistics::Torch;
        let is_plain = !by_torch && !has_flag && plan.would_overflow.is_none();
        OverflowMemory {
            is_quick: is_plain && !plan.selects() && !plan.has_modules(),
            has_flag,
            node_types: Mutex::default(),
            in_range: Mutex::default(),
            callers: Mutex::default(),
            devices: devices::DeviceChecks::default(),
            is_done: AtomicBool::new(false),
            ending: Mutex::default(),
        }
    }

    /// Keeps the error that ends the run.
    fn keep_ending(&self, error: Option<PyErr>) {
        if error.is_some() {
            *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = error;
        }
    }

    /// Takes the error that ends the run.
    fn take_ending(&self) -> Option<PyErr> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the wanted number of overflows was found.
    fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed)
    }

    fn node_types(&self) -> MutexGuard<'_, HashMap<usize, (Py<PyType>, bool)>> {
        self.node_types.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_range(&self) -> MutexGuard<'_, HashMap<usize, (Py<PyAny>, u64)>> {
        self.in_range.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// Raises the error that ends the run, if the check has found enough.
    pub(in crate::capture) fn end_run(&self) -> PyResult<()> {
        if self.overflow.is_done() { self.overflow.take_ending().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// Whether a calculation has set the flag of the device since the last time, which waits for the device.
    fn take_flag(&self, py: Python<'_>) -> PyResult<bool> {
        if !self.overflow.has_flag {
            return Ok(false);
        }
        self.torch.front.bind(py).call_method0(intern!(py, "take_overflow_flag"))?.is_truthy()
    }

    /// Whether calls are checked: not after the wanted number of overflows.
    fn is_checking(&self) -> bool {
        self.is_collecting() && !self.overflow.is_done()
    }

    /// Reports an overflow to the front, which may end the check. Returns the error that ends the run, if it does.
    /// `frames` is the stack of a call that could not be written.
    fn tell_overflow(
        &self,
        py: Python<'_>,
        overflow: Overflow,
        call: &str,
        is_scaling: bool,
        frames: Option<&str>,
    ) -> PyResult<Option<PyErr>> {
        let front = self.torch.front.bind(py);
        let told = front.call_method1(intern!(py, "overflowed"), (call, overflow.name(), is_scaling, frames));
        match told.and_then(|is_done| is_done.is_truthy()) {
            Ok(is_done) => {
                self.overflow.is_done.store(is_done, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) if error.is_instance(py, &front.getattr(intern!(py, "overflow_limit_error"))?) => {
                self.overflow.is_done.store(true, Ordering::Relaxed);
                Ok(Some(error))
            }
            // A mistake of ours, or a full disk, is no reason to end the program.
            Err(error) => self.guarded(py, Of::Beside(call), Err(error)).map(|_: Option<()>| None),
        }
    }
}
