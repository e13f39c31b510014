//! Calls that Python has begun and will end.

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
    /// Sets which of its results the call writes to, by their places: `0`, `1.0`. It only reads the others.
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

    /// Takes the call; `None` if it has ended.
    pub(in crate::capture) fn take(&self) -> Option<CallInProgress> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<CallInProgress>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
