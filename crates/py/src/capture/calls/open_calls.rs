//! Calls that Python has begun, and will end: it holds on to them meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::capture::calls::call_in_progress::CallInProgress;

/// A call that was begun from Python.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct OpenCall {
    begun: Mutex<Option<CallInProgress>>,
}

#[pymethods]
impl OpenCall {
    /// Says which of its results the call has written to, by their places: `0`, `1.0`. The others it has only read.
    fn writes(&self, places: Vec<String>) {
        if let Some(begun) = self.lock().as_mut() {
            begun.written = Some(places);
        }
    }
}

impl OpenCall {
    pub(in crate::capture) fn new(begun: CallInProgress) -> OpenCall {
        OpenCall { begun: Mutex::new(Some(begun)) }
    }

    /// Hands it out; nothing if it has ended.
    pub(in crate::capture) fn take(&self) -> Option<CallInProgress> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<CallInProgress>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
