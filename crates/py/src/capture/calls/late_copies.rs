//! Copies from another device that torch does not wait for (`non_blocking`): their elements arrive after the call.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyTuple};
use ulpscope_dump::operators::ApiName;

use crate::capture::calls::arguments::Arguments;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// The tensor of another device that a call may copy without waiting.
    pub(in crate::capture) fn late_copy(
        &self,
        base: &str,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Option<Py<PyAny>>> {
        if !ApiName::of(base).may_copy_late() {
            return Ok(None);
        }
        let is_true =
            |argument: &Bound<'_, PyAny>| argument.cast::<PyBool>().is_ok_and(|flag| flag.is_true());
        let named = arguments.kwargs.map(|kwargs| kwargs.values());
        if !arguments.args.iter().chain(named.iter().flatten()).any(|argument| is_true(&argument)) {
            return Ok(None);
        }
        for argument in arguments.args.iter() {
            let items = match argument.cast::<PyList>() {
                Ok(items) => items.to_tuple(),
                Err(_) => PyTuple::new(argument.py(), [argument])?,
            };
            for item in items.iter() {
                if self.torch.is_tensor(&item)? && self.is_elsewhere(&item)? {
                    return Ok(Some(item.unbind()));
                }
            }
        }
        Ok(None)
    }

    fn is_elsewhere(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = tensor.py();
        let is = |name| tensor.getattr(name).and_then(|answer: Bound<'_, PyAny>| answer.is_truthy());
        Ok(!is(intern!(py, "is_cpu"))? && !is(intern!(py, "is_meta"))?)
    }

    /// Waits until a tensor's device has finished its work. Not while a graph is captured there: nothing runs then, and
    /// waiting would end the capture.
    pub(in crate::capture) fn wait_for(&self, tensor: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = tensor.py();
        let device = tensor.getattr(intern!(py, "device"))?;
        let kind: String = device.getattr(intern!(py, "type"))?.extract()?;
        let Some(space) = py.import("torch")?.getattr_opt(kind.as_str())? else { return Ok(()) };
        if let Some(is_capturing) = space.getattr_opt(intern!(py, "is_current_stream_capturing"))?
            && is_capturing.call0()?.is_truthy()?
        {
            let note = "a copy inside a captured graph was read before it was made";
            self.locked(|state| state.note(note.to_owned()));
            return Ok(());
        }
        match space.getattr_opt(intern!(py, "current_stream"))? {
            Some(stream) => stream.call1((device,))?.call_method0(intern!(py, "synchronize")).map(|_| ()),
            None => space.call_method0(intern!(py, "synchronize")).map(|_| ()),
        }
    }
}
