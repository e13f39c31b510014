//! Results on other devices: checked there, without waiting. The device keeps the number of the first bad call, which
//! is read when the step ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::capture::recorder::Recorder;

/// The calls of a step whose results are on other devices, in order: a device counts them from zero.
#[derive(Default)]
pub(in crate::capture) struct DeviceChecks {
    calls: Mutex<Vec<Arc<str>>>,
}

impl DeviceChecks {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<str>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// Lets a device check the results of a call.
    pub(super) fn check_on_device(
        &self,
        py: Python<'_>,
        call: &Arc<str>,
        tensors: &[Bound<'_, PyAny>],
    ) -> PyResult<()> {
        let number = {
            let mut calls = self.overflow.devices.lock();
            calls.push(Arc::clone(call));
            calls.len() - 1
        };
        let tensors = PyList::new(py, tensors)?;
        let front = self.torch.front.bind(py);
        front.call_method1(intern!(py, "check_on_device"), (tensors, number)).map(|_| ())
    }

    /// Reads which call of the step was the first with a bad result on a device; waits for the device.
    pub(in crate::capture) fn read_devices(&self, py: Python<'_>) -> PyResult<Option<Arc<str>>> {
        let calls = std::mem::take(&mut *self.overflow.devices.lock());
        if calls.is_empty() {
            return Ok(None);
        }
        let front = self.torch.front.bind(py);
        let first: Option<usize> = front.call_method0(intern!(py, "first_on_device"))?.extract()?;
        Ok(first.and_then(|first| calls.get(first).cloned()))
    }
}
