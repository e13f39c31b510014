//! Module calls: calls that contain other calls.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use ulpscope_capture::modules;
use ulpscope_capture::{CallRecord, IN_REPEATED, Kind, ModuleLevel, OUTSIDE};

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::call_in_progress::CallInProgress;
use crate::capture::lifecycle::failures::Of;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Enters a module; `None` for the model itself, and for a module outside of the model, which is counted.
    pub(in crate::capture) fn begin_module(
        &self,
        module: &Bound<'_, PyAny>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Option<CallInProgress>> {
        if !self.is_on() {
            return Ok(None);
        }
        let py = module.py();
        let Some(name) = self.modules.name(module.as_ptr() as usize) else {
            if self.recording.plan.has_modules() {
                self.recording.leave_out(OUTSIDE);
            }
            return Ok(None);
        };
        let Some(name) = name else { return Ok(None) };
        let around = modules::innermost(self.address());
        let is_muted = name.is_muted || around.as_ref().is_some_and(|level| level.is_muted);
        let is_selected = name.is_selected || around.as_ref().is_some_and(|level| level.is_selected);
        if is_muted || !self.recording.plan.has_modules() {
            if self.recording.plan.has_modules() {
                self.recording.leave_out(IN_REPEATED);
            }
            modules::enter(ModuleLevel {
                recorder: self.address(),
                name: Arc::clone(&name.base),
                is_listed: around.as_ref().is_some_and(|level| level.is_listed),
                is_backward_listed: around.as_ref().is_some_and(|level| level.is_backward_listed),
                is_backward_first: around.is_some_and(|level| level.is_backward_first),
                is_selected,
                is_muted,
            });
            return Ok(Some(CallInProgress::new(CallRecord::new(
                Arc::clone(&name.base),
                Kind::Module,
                self.flow.step(),
            ))));
        }
        let begun = self.torch.with_modes_disabled(py, || {
            let stack = self.stack(py)?;
            self.measured_together(py, || {
                self.begin_call(py, &name.base, Kind::Module, is_selected, stack.as_deref(), arguments)
            })
        });
        let Some(begun) = self.guarded(py, Of::New(&name.base), begun)? else { return Ok(None) };
        let plan = &self.recording.plan;
        modules::enter(ModuleLevel {
            recorder: self.address(),
            name: Arc::clone(&begun.name),
            is_listed: plan.has_listed(&begun.name) || around.as_ref().is_some_and(|level| level.is_listed),
            is_backward_listed: plan.has_listed_backward(&begun.name)
                || around.as_ref().is_some_and(|level| level.is_backward_listed),
            is_backward_first: plan.begins_with_backward_of(&begun.name)
                || around.is_some_and(|level| level.is_backward_first),
            is_selected,
            is_muted: false,
        });
        Ok(Some(begun))
    }

    /// Leaves a module that raised.
    pub(in crate::capture) fn raised_in_module(
        &self,
        begun: &CallInProgress,
        module: &Bound<'_, PyAny>,
        kind: &str,
    ) -> PyResult<()> {
        let py = module.py();
        modules::leave(self.address(), &begun.name);
        if !self.is_collecting() {
            return Ok(());
        }
        let raised = self.torch.with_modes_disabled(py, || {
            let parameters = self.guarded(py, Of::Beside(&begun.name), own_parameters(module))?;
            self.raised_call(py, begun, kind, parameters.as_ref())
        });
        self.guarded(py, begun.of().borrowed(), raised).map(|_| ())
    }
}

/// Leaves a module, whose own parameters are recorded if no others are given.
pub(in crate::capture) fn end_module(
    slf: &Bound<'_, Recorder>,
    mut begun: CallInProgress,
    module: &Bound<'_, PyAny>,
    output: &Bound<'_, PyAny>,
    parameters: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let py = slf.py();
    let recorder = slf.get();
    modules::leave(recorder.address(), &begun.name);
    if !recorder.is_collecting() {
        return Ok(());
    }
    let of = begun.of();
    let unchanged = begun.unchanged();
    let ended = recorder.torch.with_modes_disabled(py, || {
        let own = match parameters {
            Some(_) => None,
            None => recorder.guarded(py, Of::Beside(&begun.name), own_parameters(module))?,
        };
        recorder.end_call(slf, begun, output, parameters.or(own.as_ref()), None, &unchanged)
    });
    recorder.guarded(py, of.borrowed(), ended)?;
    recorder.end_run()
}

/// The parameters of a module, without those of its submodules.
fn own_parameters<'py>(module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = module.py();
    let own = module.getattr(intern!(py, "_parameters"))?;
    let parameters = PyDict::new(py);
    // In a module compiled by TorchScript it is not a dictionary, but behaves like one.
    for pair in own.call_method0(intern!(py, "items"))?.try_iter()? {
        let (name, parameter): (Bound<'py, PyAny>, Bound<'py, PyAny>) = pair?.extract()?;
        if !parameter.is_none() {
            parameters.set_item(name, parameter)?;
        }
    }
    Ok(parameters)
}
