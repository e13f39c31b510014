//! Forward calls: checked when they return.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_capture::modules;
use ulpscope_capture::{
    Buffer, CallRecord, CallStack, Kind, NOT_SELECTED, ORIGIN_UNKNOWN, Overflow, PASSED_INFINITY, PASSED_NAN,
    SATURATED, State, StepId,
};
use ulpscope_dump::operators::is_blank;
use ulpscope_kernels::Reach;

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::call_in_progress::CallInProgress;
use crate::capture::calls::dispatch::take_hint;
use crate::capture::calls::functions::{Changed, Function};
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::lifecycle::settings::raised_by_test;
use crate::capture::lifecycle::writing::not_written;
use crate::capture::overflow::backward::Forward;
use crate::capture::overflow::devices::Extent;
use crate::capture::overflow::reaches::Found;
use crate::capture::recorder::Recorder;

/// The ledger's note for a call that changed its argument.
const CHANGED: &str =
    "overflow: an argument that a call changes in place is recorded as it is after the call";

/// The ledger's note where values on a device were not compared with the dtype of `would_overflow`.
const NOT_LISTED: &str = "would_overflow: values on a device are not compared with its dtype, and are missing in \
                          would_overflow.csv; set device_statistics to \"host\" to have them";

/// The file of torch whose functions ask for modes.
const OVERRIDES: &str = "overrides.py";

/// Callers that are remembered before all are forgotten.
const MAX_CALLERS: usize = 1 << 14;

/// What is known of a function's call before it runs.
struct Before {
    hint: Option<&'static str>,
    /// The number that its first graph node would have.
    sequence: Option<u64>,
    /// How far the arguments go that it will change.
    changed: Extent,
}

/// A call that has returned.
struct Returned<'a, 'py> {
    arguments: Arguments<'a, 'py>,
    output: &'a Bound<'py, PyAny>,
    changed: &'a [Changed<'py>],
    /// How far the changed arguments went before it.
    before: &'a Extent,
}

/// Runs a call of a function, and checks its results. `unheard` runs our own code without the modes of the program.
pub(in crate::capture) fn check_call<'py>(
    slf: &Bound<'py, Recorder>,
    function: &Function,
    func: &Bound<'py, PyAny>,
    arguments: Arguments<'_, 'py>,
    is_overheard: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let recorder = slf.get();
    let unheard = |body: &mut dyn FnMut() -> PyResult<()>| match is_overheard {
        true => recorder.torch.with_modes_disabled(py, body),
        false => caught(body),
    };
    // What a device has shown meanwhile may end the run.
    recorder.end_run()?;
    let mut before = None;
    if recorder.is_checking() {
        let looked = unheard(&mut || {
            before = Some(recorder.look_before_call(py, function, arguments)?);
            Ok(())
        });
        recorder.guarded(py, Of::Unmet(&function.base), looked)?;
    }
    let result = func.call(arguments.args, arguments.kwargs);
    let Some(before) = before.filter(|_| recorder.is_checking()) else { return result };
    let mut ends_run = None;
    let checked = unheard(&mut || {
        ends_run = recorder.look_after_call(slf, function, arguments, &before, result.as_ref().ok())?;
        Ok(())
    });
    recorder.guarded(py, Of::New(&function.base), checked)?;
    ends_run.map_or(result, Err)
}

impl Recorder {
    fn look_before_call(
        &self,
        py: Python<'_>,
        function: &Function,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Before> {
        let hint = take_hint();
        let sequence =
            self.recording.plan.watches_gradients().then(|| self.torch.next_sequence(py)).transpose()?;
        let changed = match function.may_change() {
            true => self.extent_before(py, &function.changed_by(arguments, arguments)?)?,
            false => Extent::default(),
        };
        Ok(Before { hint, sequence, changed })
    }

    fn look_after_call<'py>(
        &self,
        slf: &Bound<'py, Recorder>,
        function: &Function,
        arguments: Arguments<'_, 'py>,
        before: &Before,
        output: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<PyErr>> {
        let py = slf.py();
        let caller = if function.has_operators() { Some(self.caller(py)?) } else { None };
        let base = function.name_for(before.hint, caller.as_deref());
        let mut met = Vec::new();
        if let Some(output) = output.filter(|_| self.overflow.is_quick && !function.may_change())
            && self.quick_reach(output, &mut met)? == Some(Reach::InRange)
        {
            let (number, step) = self.recording.meet_checked(base, true);
            if let Some(first) = before.sequence {
                let watched =
                    self.watch_nodes(slf, first, &met, false, || Forward::quick(base, number, step));
                self.guarded(py, Of::Beside(base), watched)?;
            }
            return Ok(None);
        }
        let mut call = self.checked_call(base, Kind::Api)?;
        let Some(output) = output else {
            // What overflowed in it is not for the next call.
            self.take_flag(py)?;
            self.skip(&call, RAISED);
            return Ok(None);
        };
        let changed = match function.may_change() {
            true => function.changed_by(arguments, arguments)?,
            false => Vec::new(),
        };
        call.sequence = before.sequence;
        let returned = Returned { arguments, output, changed: &changed, before: &before.changed };
        self.check_results(slf, call, &returned, Some(function))
    }

    /// Counts and names a call that is to be checked.
    fn checked_call(&self, base: &Arc<str>, kind: Kind) -> PyResult<CallInProgress> {
        let mut call = CallInProgress::new(self.recording.meet_call(base, kind));
        if !self.recording.plan.selects() && !self.recording.plan.has_modules() {
            return Ok(call);
        }
        let around = modules::innermost(self.address());
        call.parent = around.as_ref().map(|level| Arc::clone(&level.name));
        let is_inside = around.as_ref().is_some_and(|level| level.is_selected);
        let selection = self.recording.select(&call, is_inside, around.as_ref()).map_err(raised_by_test)?;
        call.forward_left_out = selection.forward;
        call.backward_left_out = selection.backward;
        Ok(call)
    }

    /// Begins a call that torch does not show to modes, or that of a module.
    pub(in crate::capture) fn begin_checked(
        &self,
        py: Python<'_>,
        base: &Arc<str>,
        kind: Kind,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<CallInProgress> {
        let mut call = self.checked_call(base, kind)?;
        if self.recording.plan.watches_gradients() {
            call.sequence = Some(self.torch.next_sequence(py)?);
        }
        call.began_at = self.overflow.devices.next_place();
        let kwargs = arguments.kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
        call.passed = Some((arguments.args.clone().unbind(), kwargs.unbind()));
        Ok(call)
    }

    /// Ends such a call. An error that ends the run is kept for [`Recorder::end_run`].
    pub(in crate::capture) fn end_checked(
        &self,
        slf: &Bound<'_, Recorder>,
        mut call: CallInProgress,
        output: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        if !self.is_checking() {
            self.skip(&call, NOT_SELECTED);
            return Ok(());
        }
        let (args, kwargs) = match call.passed.take() {
            Some((args, kwargs)) => (args.into_bound(py), kwargs.into_bound(py)),
            None => (PyTuple::empty(py), PyDict::new(py)),
        };
        let arguments = Arguments { args: &args, kwargs: Some(&kwargs) };
        let returned = Returned { arguments, output, changed: &[], before: &Extent::default() };
        let ends_run = self.check_results(slf, call, &returned, None)?;
        self.overflow.keep_ending(ends_run);
        Ok(())
    }

    fn check_results<'py>(
        &self,
        slf: &Bound<'py, Recorder>,
        call: CallInProgress,
        returned: &Returned<'_, 'py>,
        function: Option<&Function>,
    ) -> PyResult<Option<PyErr>> {
        let py = slf.py();
        if let Some(why) = call.forward_left_out {
            self.skip(&call, why);
        }
        let mut found = Found::default();
        self.look_at(returned.output, &mut found, 0)?;
        for changed in returned.changed.iter().filter(|changed| !changed.argument.is(returned.output)) {
            self.look_at(&changed.argument, &mut found, 0)?;
        }
        // Uninitialised memory says nothing.
        let is_blank = is_blank(&call.name);
        let results = match is_blank {
            true => Extent::default(),
            false => self.extent_of(py, &found)?,
        };
        // Also of calls that are left out: the flag would stay for the next one. Those inside a module have been asked.
        let is_flagged = function.is_some() && self.take_flag(py)?;
        let mut told = None;
        if call.forward_left_out.is_none() {
            if !is_blank {
                self.add_survival(py, &call, &found, &results)?;
            }
            let is_judged_later = !results.there.is_empty() && !is_flagged;
            if is_flagged || results.here > Reach::InRange || is_judged_later {
                let Returned { arguments, changed, before, .. } = returned;
                let inputs = self.extent_of_inputs(py, &call.name, *arguments, changed, before)?;
                if is_judged_later {
                    let mut later = self.for_later(py, &call, inputs, results.clone())?;
                    later.began_at = function.is_none().then_some(call.began_at);
                    told = self.expect_call(slf, later)?;
                } else {
                    let overflow = self.overflow_of(py, &inputs, &results, is_flagged)?;
                    told = self.judge_at_once(py, &call, overflow, returned, function)?;
                }
            } else {
                if !returned.changed.is_empty() && found.remote.is_empty() {
                    self.note_in_range(returned.changed)?;
                }
                self.skip_in_range(call.step);
            }
        }
        let is_selected = call.backward_left_out.is_none();
        // Nodes that are not selected are watched for the flag alone.
        if let Some(first) = call.sequence.filter(|_| is_selected || self.overflow.has_flag) {
            let is_changing = !returned.changed.is_empty();
            let forward = || Forward::named(&call.name, call.step, results, is_selected);
            let watched = self.watch_nodes(slf, first, &found.tensors, is_changing, forward);
            self.guarded(py, Of::Beside(&call.name), watched)?;
        }
        Ok(told)
    }

    /// Counts a call, and writes it if it is to be written.
    fn judge_at_once(
        &self,
        py: Python<'_>,
        call: &CallInProgress,
        overflow: Option<Overflow>,
        returned: &Returned<'_, '_>,
        function: Option<&Function>,
    ) -> PyResult<Option<PyErr>> {
        let Some(overflow) = overflow else {
            self.skip_in_range(call.step);
            return Ok(None);
        };
        // The calls inside it have been checked: one of them is the origin.
        let is_from_inside = function.is_none() && self.overflow.devices.has_origin_since(call.began_at);
        let overflow = if is_from_inside { Overflow::InheritedInfinity } else { overflow };
        let why_not = self.take_place_of(call, overflow);
        if let Some(why) = why_not {
            self.skip(call, why);
        } else {
            self.write_call(py, call, returned, function)?;
        }
        if overflow == Overflow::Born { self.tell_origin(py, &call.name) } else { Ok(None) }
    }

    /// Reports a call that is written, or was left out for a limit, as an origin.
    pub(super) fn tell_origin(&self, py: Python<'_>, call: &str) -> PyResult<Option<PyErr>> {
        let devices = &self.overflow.devices;
        devices.note_origin();
        self.tell_overflow(py, Overflow::Born, call, devices.is_scaling(), None)
    }

    /// Counts an overflow; returns why its call is not written, if it is not.
    pub(super) fn take_place_of(&self, call: &CallRecord, overflow: Overflow) -> Option<&'static str> {
        self.locked(|state| match state.overflows.add(overflow, &call.name) {
            true => state.take_place(),
            false => Some(why_left_out(overflow)),
        })
    }

    /// Adds what the results of a call would lose in the dtype of `would_overflow`.
    pub(super) fn add_survival(
        &self,
        py: Python<'_>,
        call: &CallRecord,
        found: &Found<'_>,
        results: &Extent,
    ) -> PyResult<()> {
        if self.recording.plan.would_overflow.is_none() {
            return Ok(());
        }
        self.in_step(call.step, |state| state.overflows.add_survival(&call.name, found.lost));
        if results.there.is_empty() {
            return Ok(());
        }
        self.in_step(call.step, |state| state.note_once(NOT_LISTED));
        self.warn_once(py, NOT_LISTED.to_owned())
    }

    /// Writes a call in full, after it has returned.
    fn write_call(
        &self,
        py: Python<'_>,
        call: &CallInProgress,
        returned: &Returned<'_, '_>,
        function: Option<&Function>,
    ) -> PyResult<()> {
        let stack = self.stacks.current(py, &self.torch)?;
        let mut written = CallInProgress::new(CallRecord::new(Arc::clone(&call.name), call.kind, call.step));
        written.parent = call.parent.clone();
        let passed = match (function, &stack) {
            (Some(function), Some(stack)) => function.as_passed(stack, returned.arguments)?,
            _ => None,
        };
        let arguments = match &passed {
            Some((args, kwargs)) => Arguments { args, kwargs: Some(kwargs) },
            None => returned.arguments,
        };
        if !returned.changed.is_empty() {
            self.locked(|state| state.note_once(CHANGED));
            written.changed = returned.changed.iter().map(|one| one.argument.as_ptr() as usize).collect();
        }
        self.measured_together(py, || self.push_inputs(py, &mut written, stack.as_deref(), arguments))?;
        if written.id.is_none() {
            self.locked(State::give_back_place);
            return Ok(());
        }
        // What was changed in place and not returned is a result, too.
        let output = match returned.changed.first() {
            Some(first) if returned.output.is_none() => &first.argument,
            _ => returned.output,
        };
        let mut line = Buffer::new();
        let pushed = written.last_line().encode_with(&mut line, |line| {
            let push = || self.push_outputs(&written, output, None, line);
            self.measured_together(py, push).map(|_| ())
        });
        if let Err(error) = pushed {
            self.recording.end_without_results(&written).map_err(not_written)?;
            return Err(error);
        }
        self.recording.end(&written, &line).map(|_| ()).map_err(not_written)
    }

    /// Counts a call as in range.
    pub(super) fn skip_in_range(&self, step: StepId) {
        self.in_step(step, |state| state.ledger.in_range += 1);
    }

    /// Counts a call as left out.
    pub(super) fn skip(&self, call: &CallRecord, why: &'static str) {
        self.in_step(call.step, |state| state.ledger.skip(why));
    }

    /// The stack of the caller: of it only what the innermost frame shows is right.
    fn caller(&self, py: Python<'_>) -> PyResult<Arc<CallStack>> {
        let frame = self.torch.frame(py)?;
        let code = frame.getattr(intern!(py, "f_code"))?;
        let instruction: i64 = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
        let key = (code.as_ptr() as usize, instruction as u32);
        if let Some((_, stack)) = self.overflow.callers().get(&key) {
            return Ok(Arc::clone(stack));
        }
        let stack = self.stacks.current(py, &self.torch)?.unwrap_or_default();
        // Torch's own function that asks for modes calls for all others.
        if code.getattr(intern!(py, "co_filename"))?.to_string().ends_with(OVERRIDES) {
            return Ok(stack);
        }
        let _forgotten = {
            let mut callers = self.overflow.callers();
            let forgotten =
                if callers.len() >= MAX_CALLERS { std::mem::take(&mut *callers) } else { Default::default() };
            callers.insert(key, (code.unbind(), Arc::clone(&stack)));
            forgotten
        };
        Ok(stack)
    }
}

/// Why a call that overflowed is not written.
pub(super) fn why_left_out(overflow: Overflow) -> &'static str {
    match overflow {
        Overflow::InheritedInfinity => PASSED_INFINITY,
        Overflow::Saturated => SATURATED,
        Overflow::Uncertain => ORIGIN_UNKNOWN,
        Overflow::Born | Overflow::InheritedNan => PASSED_NAN,
    }
}

/// Why a call was left out: it has no results.
const RAISED: &str = "raised";
