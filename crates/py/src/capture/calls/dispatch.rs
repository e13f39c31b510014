//! Calls that torch shows to modes: of its functions, and of its operators.

use std::cell::{Cell, LazyCell};

use pyo3::intern;
use pyo3::prelude::*;
use ulpscope_capture::{Kind, METADATA};

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::call_in_progress::CallInProgress;
use crate::capture::calls::functions::{Function, Treatment};
use crate::capture::device::queue::{forget_queued, has_queued};
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::overflow::check_call;
use crate::capture::provenance::properties::is_assignment;
use crate::capture::recorder::{Recorder, kind_of};

thread_local! {
    /// The next call's name, for operators whose name torch does not report.
    static HINT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Sets the name of the next torch call on this thread, if torch reports a different one; any unknown name clears it.
pub(in crate::capture) fn give_hint(name: &str) {
    HINT.set(match name {
        "__radd__" => Some("r+"),
        "__rmul__" => Some("r*"),
        _ => None,
    });
}

/// Takes the name of the call that begins on this thread.
pub(in crate::capture) fn take_hint() -> Option<&'static str> {
    HINT.take()
}

/// Runs a call, and records it if relevant.
pub(in crate::capture) fn see_call<'py>(
    slf: &Bound<'py, Recorder>,
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    arguments: Arguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let recorder = slf.get();
    let Arguments { args, kwargs } = arguments;
    if !recorder.is_on() {
        return func.call(args, kwargs);
    }
    let mut own = func.clone();
    if func.get_type().is(&recorder.torch.property_access) {
        if is_assignment(func, args) {
            return recorder.assign_property(func, args, kwargs);
        }
        match func.getattr(intern!(py, "__self__")) {
            Ok(property) if recorder.torch.is_computing(&property) => own = property,
            _ => {
                let is_overheard = || Ok(!recorder.torch.are_plain(types)? || recorder.torch.has_modes(py)?);
                return recorder.read_property(func, args, kwargs, is_overheard);
            }
        }
    }
    let described = caught(|| recorder.functions.describe(&recorder.torch, &own));
    let Some(function) = recorder.guarded(py, Of::Unmet("a function"), described)? else {
        return func.call(args, kwargs);
    };
    if function.is_of_program {
        let original =
            caught(|| recorder.torch.front.bind(py).call_method1(intern!(py, "original"), (&own,)));
        let original = recorder.guarded(py, Of::Unmet("a function"), original)?;
        if let Some(original) = original.filter(|original| !original.is(&own)) {
            return see_call(slf, &original, types, arguments);
        }
    }
    // A class of tensors would not be asked about a call that is opened.
    let is_open = recorder.recording.plan.inner_calls && recorder.torch.are_plain(types)?;
    // Other modes and tensor classes must not see our queries of the tensors. Torch's functions in Python name its own
    // class.
    treat(slf, &function, func, arguments, is_open, || {
        Ok(!recorder.torch.are_plain(types)? || recorder.torch.has_modes(py)?)
    })
}

/// Runs an operator that torch shows to a dispatch mode, and records it if relevant.
pub(in crate::capture) fn see_operator<'py>(
    slf: &Bound<'py, Recorder>,
    operator: &Bound<'py, PyAny>,
    arguments: Arguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let recorder = slf.get();
    let Arguments { args, kwargs } = arguments;
    if !recorder.is_on() {
        return operator.call(args, kwargs);
    }
    let described = caught(|| recorder.functions.describe(&recorder.torch, operator));
    match recorder.guarded(slf.py(), Of::Unmet("an operator"), described)? {
        Some(function) => treat(slf, &function, operator, arguments, false, || Ok(true)),
        None => operator.call(args, kwargs),
    }
}

/// Runs a call of a function that is known. If it is open, the calls inside it are seen, too.
fn treat<'py>(
    slf: &Bound<'py, Recorder>,
    function: &Function,
    func: &Bound<'py, PyAny>,
    arguments: Arguments<'_, 'py>,
    is_open: bool,
    is_overheard: impl FnOnce() -> PyResult<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let recorder = slf.get();
    let Arguments { args, kwargs } = arguments;
    match function.treatment {
        Treatment::Pass => {
            recorder.recording.leave_out(METADATA);
            return func.call(args, kwargs);
        }
        Treatment::Through => return func.call(args, kwargs),
        Treatment::Record => {}
    }
    let is_overheard = is_overheard()?;
    if recorder.recording.plan.checks_overflow() {
        return check_call(slf, function, func, arguments, is_overheard);
    }
    let unheard = |body: &mut dyn FnMut() -> PyResult<()>| match is_overheard {
        true => recorder.torch.with_modes_disabled(py, body),
        false => caught(body),
    };
    let mut begun = None;
    let mut is_deferred = false;
    let began = unheard(&mut || {
        let found = recorder.begin_function(py, function, arguments);
        let may_wait = match &found {
            Ok(begun) if has_queued() && !(is_overheard || is_open || begun.gets_other_class) => {
                recorder.keeps_arguments(py, function, arguments)
            }
            _ => Ok(false),
        };
        is_deferred = matches!(may_wait, Ok(true));
        let measured = if is_deferred { Ok(()) } else { recorder.measure_queued(py) };
        begun = Some(found?);
        measured.and(may_wait.map(|_| ()))
    });
    if began.is_err() {
        // After a panic something may be left.
        forget_queued();
    }
    recorder.guarded(py, Of::New(&function.base), began)?;
    let result = match is_open && function.is_in_python() {
        true => {
            let front = recorder.torch.front.bind(py);
            front.call_method1(intern!(py, "call_open"), (slf, func, args, kwargs))
        }
        false => func.call(args, kwargs),
    };
    // The call itself may have ended the recording, or returned in a forked process.
    if !recorder.is_collecting() {
        forget_queued();
        return result;
    }
    let Some(begun) = begun else { return result };
    if is_deferred && result.is_err() {
        let measured = caught(|| recorder.measure_queued(py));
        recorder.guarded(py, begun.of().borrowed(), measured)?;
    }
    let of = begun.of();
    match &result {
        Ok(output) => {
            let mut begun = Some(begun);
            let ended = unheard(&mut || {
                let Some(begun) = begun.take() else { return Ok(()) };
                let passed = begun.passed.as_ref().map(|(args, kwargs)| (args.bind(py), kwargs.bind(py)));
                let recorded = passed.map(|(args, kwargs)| Arguments { args, kwargs: Some(kwargs) });
                let changed =
                    function.changed_by(arguments, recorded.unwrap_or(arguments)).and_then(|changed| {
                        recorder.note_effects(function, &changed, arguments, output, &begun)?;
                        Ok(changed)
                    });
                // The call has ended, even if its changes cannot be determined.
                let changed = recorder.guarded(py, Of::Beside(&begun.name), changed)?.unwrap_or_default();
                let first = changed.first().filter(|changed| changed.position == 0);
                let first = first.map(|changed| &changed.argument);
                let unchanged = LazyCell::new(|| arguments.unchanged(&changed));
                let hands_on = |tensor: &Bound<'_, PyAny>| unchanged.has(tensor);
                let result = function.result(output, &changed)?;
                recorder.end_call(slf, begun, result.as_ref().unwrap_or(output), None, first, &hands_on)
            });
            // Even if the call could not be ended.
            let ended = if is_deferred { recorder.measured_together(py, || ended) } else { ended };
            recorder.guarded(py, of.borrowed(), ended)?;
        }
        Err(error) => {
            let raised = caught(|| recorder.raised_call(py, &begun, &kind_of(error.value(py)), None));
            recorder.guarded(py, of.borrowed(), raised)?;
        }
    }
    result
}

impl Recorder {
    /// Whether the elements of arguments are the same after a call: they are then measured with its results, in one
    /// launch.
    fn keeps_arguments(
        &self,
        py: Python<'_>,
        function: &Function,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<bool> {
        Ok(function.only_reads(arguments)? && self.torch.runs_own_kernels(py)?)
    }

    fn begin_function(
        &self,
        py: Python<'_>,
        function: &Function,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<CallInProgress> {
        let hint = take_hint();
        let stack = self.stack(py)?;
        let base = function.name_for(hint, stack.as_deref());
        let passed = stack.as_ref().map(|stack| function.as_passed(stack, arguments)).transpose();
        let passed = passed.inspect_err(|_| self.locked(|state| state.ledger.meet()))?;
        let arguments = match passed.as_ref().and_then(Option::as_ref) {
            Some((args, kwargs)) => Arguments { args, kwargs: Some(kwargs) },
            None => arguments,
        };
        let mut begun = self.begin_call(py, base, Kind::Api, false, stack.as_deref(), arguments)?;
        if function.may_change() {
            begun.passed = passed.flatten().map(|(args, kwargs)| (args.unbind(), kwargs.unbind()));
        }
        Ok(begun)
    }
}
