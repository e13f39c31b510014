//! The backward call of a call: the gradients of its results, and its contributions to those of its arguments.
//!
//! A hook on each graph node that belongs to a result, or leads to an argument, reads the inputs and outputs of the
//! node. No node is added or changed, so the order in which gradients are summed stays the same, and an argument's
//! gradient is this call's contribution alone. If the call itself uses one of its results, both gradients arrive as one
//! sum: the call's own part is known, and subtracted. The call is written when all of its nodes have run, or when the
//! pass is over: the node of an unused result never runs.
//!
//! A graph may outlive its step. The gradients of its backward pass belong to the step in which the pass runs. A
//! different call may have the same name there, so the name says how many steps ago the call was made.

use std::sync::{Arc, Mutex};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use ulpscope_capture::{FinishedBackward, PendingBackward, State, StepId, lock_call};

use crate::capture::describe::items::is_left_out;
use crate::capture::describe::tensors::Describe;
use crate::capture::gradients::graph::{Share, Watched};
use crate::capture::lifecycle::failures::Of;
use crate::capture::lifecycle::writing::not_written;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Places hooks on the nodes that get the gradients of a call.
    pub(in crate::capture) fn expect_gradients(
        &self,
        recorder: &Bound<'_, Recorder>,
        pending: PendingBackward<Py<PyAny>>,
        nodes: Vec<Watched<'_>>,
    ) -> PyResult<()> {
        let pending = Arc::new(Mutex::new(pending));
        for (index, Watched { node, taken, given, within, is_whole }) in nodes.into_iter().enumerate() {
            let call = Arc::clone(&pending);
            let recorder = recorder.clone().unbind();
            let hook = GradientHook { recorder, call, index, taken, given, within, is_whole };
            self.hooks.place(&node, hook)?;
        }
        Ok(())
    }

    /// Writes all backward calls in progress: none of them will be completed any more.
    pub(in crate::capture) fn flush_gradients(&self, py: Python<'_>) -> PyResult<()> {
        self.write_started(py, self.started.take_all())
    }

    fn write_started(
        &self,
        py: Python<'_>,
        calls: Vec<Arc<Mutex<PendingBackward<Py<PyAny>>>>>,
    ) -> PyResult<()> {
        let mut result = Ok(());
        for call in calls {
            if !lock_call(&call).is_met() {
                continue;
            }
            let name = lock_call(&call).name();
            let flushed = self.torch.with_modes_disabled(py, || {
                let completed = complete(self, py, &call);
                let finished = lock_call(&call).take();
                completed?;
                self.write_backward(finished)
            });
            if flushed.is_err() {
                self.locked(State::give_back_place);
            }
            result = result.and(self.guarded(py, Of::New(&name), flushed).map(|_| ()));
        }
        result
    }

    fn write_backward(&self, finished: FinishedBackward<Py<PyAny>>) -> PyResult<()> {
        self.recording.write_backward(finished).map_err(not_written)
    }
}

/// Sums gradients whose missing parts will not arrive any more.
fn complete(recorder: &Recorder, py: Python<'_>, call: &Mutex<PendingBackward<Py<PyAny>>>) -> PyResult<()> {
    let count = lock_call(call).arguments.len();
    recorder.measured_together(py, || {
        for argument in 0..count {
            let parts = std::mem::take(&mut lock_call(call).arguments[argument].parts);
            if parts.is_empty() {
                continue;
            }
            let sum = add(recorder, py, &parts)?;
            let at = lock_call(call).at();
            let text = describe(recorder, sum, &at, "output", argument)?;
            lock_call(call).arguments[argument].set(text);
        }
        Ok(())
    })
}

/// The sum of the parts of a gradient.
fn add<'py>(recorder: &Recorder, py: Python<'py>, parts: &[Py<PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    let parts = PyList::new(py, parts.iter().filter(|part| !part.is_none(py)))?;
    recorder.torch.front.bind(py).call_method1(intern!(py, "add"), (parts,))
}

/// Called by torch when a pass over a graph is over.
#[pyclass(frozen, module = "ulpscope._core")]
pub(in crate::capture) struct PassOver {
    recorder: Py<Recorder>,
    task: i64,
}

#[pymethods]
impl PassOver {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let recorder = self.recorder.bind(py).get();
        if !recorder.is_collecting() {
            return Ok(());
        }
        recorder.write_started(py, recorder.started.take(self.task))
    }
}

/// A hook on one node.
#[pyclass(frozen, module = "ulpscope._core")]
pub(in crate::capture) struct GradientHook {
    recorder: Py<Recorder>,
    call: Arc<Mutex<PendingBackward<Py<PyAny>>>>,
    index: usize,
    taken: Vec<Share>,
    given: Vec<Share>,
    within: Vec<Share>,
    /// Whether all inputs and outputs of the node are recorded, in their order.
    is_whole: bool,
}

#[pymethods]
impl GradientHook {
    fn __call__(&self, given: &Bound<'_, PyAny>, taken: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = given.py();
        let recorder = self.recorder.bind(py).get();
        if !recorder.is_collecting() {
            return Ok(());
        }
        let (Ok(given), Ok(taken)) = (given.cast::<PyTuple>(), taken.cast::<PyTuple>()) else {
            // Compiled autograd traces the backward pass: there are no gradients yet.
            let note = "a backward pass was compiled: its gradients are not seen";
            recorder.locked(|state| state.note(note.to_owned()));
            return Ok(());
        };
        if let Some(why) = self.why_left_out(recorder) {
            self.pass_by(recorder, why);
            return Ok(());
        }
        let seen = recorder.torch.with_modes_disabled(py, || self.see(recorder, given, taken));
        if seen.is_ok() {
            return Ok(());
        }
        let (name, is_nothing) = {
            let mut pending = lock_call(&self.call);
            (pending.name(), pending.failed())
        };
        if is_nothing {
            recorder.locked(State::give_back_place);
        }
        // The gradients that have arrived are still recorded.
        let of = if is_nothing { Of::New(&name) } else { Of::Beside(&name) };
        recorder.guarded(py, of, seen).map(|_| ())
    }
}

impl GradientHook {
    /// The identity of its call, if no backward pass has run there and one would be recorded.
    pub(in crate::capture) fn untouched_call(&self) -> Option<usize> {
        let call = lock_call(&self.call);
        (call.is_untouched() && call.left_out.is_none()).then_some(Arc::as_ptr(&self.call) as usize)
    }

    /// Why the call is only counted, if it is. A call that is partly recorded is recorded further.
    fn why_left_out(&self, recorder: &Recorder) -> Option<&'static str> {
        let (why, is_met) = {
            let call = lock_call(&self.call);
            (call.left_out, call.is_met())
        };
        why.or_else(|| if is_met { None } else { recorder.recording.over_limit() })
    }

    /// A node runs without being recorded. It is counted once per pass over the call, however many hooks it has.
    fn pass_by(&self, recorder: &Recorder, why: &'static str) {
        if lock_call(&self.call).pass_by(self.index) {
            recorder.recording.leave_out(why);
        }
    }

    fn see(
        &self,
        recorder: &Recorder,
        given: &Bound<'_, PyTuple>,
        taken: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        // The node has already run in this pass, so this is another pass over the graph.
        let is_again = {
            let call = lock_call(&self.call);
            call.is_met() && call.fired[self.index]
        };
        if is_again {
            complete(recorder, given.py(), &self.call)?;
            let finished = lock_call(&self.call).take();
            recorder.write_backward(finished)?;
        }
        let (_outdated, why_not, at) = {
            let mut pending = lock_call(&self.call);
            let outdated = pending.take_outdated(&recorder.recording);
            (outdated, pending.meet(&recorder.recording, self.index), pending.at())
        };
        if let Some(why) = why_not {
            self.pass_by(recorder, why);
            return Ok(());
        }
        let is_structure = recorder.recording.plan.is_structure();
        if recorder.recording.plan.backward_stacks {
            let stack = recorder.stack(given.py())?.filter(|stack| stack.is_kept);
            lock_call(&self.call).stack = stack;
        }
        if !is_structure {
            recorder.measured_together(given.py(), || self.describe_all(recorder, (given, taken), &at))?;
        }
        let (is_first, finished) = lock_call(&self.call).served(self.index);
        if let Some(finished) = finished {
            return recorder.write_backward(finished);
        }
        if is_first {
            self.wait_for_the_end(recorder, given.py())?;
        }
        Ok(())
    }

    /// Describes the gradients that the node got and gave.
    fn describe_all(
        &self,
        recorder: &Recorder,
        (given, taken): (&Bound<'_, PyTuple>, &Bound<'_, PyTuple>),
        at: &(StepId, Arc<str>),
    ) -> PyResult<()> {
        if self.is_whole {
            let all = |gradients: &Bound<'_, PyTuple>, part| {
                let texts = gradients.iter().enumerate();
                texts.map(|(position, gradient)| describe(recorder, gradient, at, part, position)).collect()
            };
            let (results, arguments): (PyResult<Vec<_>>, PyResult<Vec<_>>) =
                (all(taken, "input"), all(given, "output"));
            lock_call(&self.call).set_all(results?, arguments?);
        }
        for share in &self.taken {
            let gradient = self.outside_part(recorder, share.owner, share.of(recorder, taken)?)?;
            let text = describe(recorder, gradient, at, "input", share.owner)?;
            lock_call(&self.call).results[share.owner].text = text;
        }
        for share in &self.within {
            let gradient = share.of(recorder, given)?;
            if !gradient.is_none() {
                lock_call(&self.call).results[share.owner].within.push(gradient.unbind());
            }
        }
        for share in &self.given {
            let gradient = share.of(recorder, given)?;
            let argument = share.owner;
            let expected = lock_call(&self.call).arguments[argument].expected;
            let whole = if expected > 1 { self.sum(recorder, argument, gradient)? } else { Some(gradient) };
            if let Some(whole) = whole {
                let text = describe(recorder, whole, at, "output", argument)?;
                lock_call(&self.call).arguments[argument].set(text);
            }
        }
        Ok(())
    }

    /// Writes the call at the end of the pass at the latest.
    fn wait_for_the_end(&self, recorder: &Recorder, py: Python<'_>) -> PyResult<()> {
        let task = recorder.torch.graph_task(py)?;
        if recorder.started.keep(task, Arc::clone(&self.call)) && task >= 0 {
            let recorder = self.recorder.clone_ref(py);
            self.recorder.get().torch.when_pass_ends(py, PassOver { recorder, task })?;
        }
        Ok(())
    }

    /// The part of a result's gradient from outside the call: without the call's own part.
    fn outside_part<'py>(
        &self,
        recorder: &Recorder,
        result: usize,
        gradient: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let within = std::mem::take(&mut lock_call(&self.call).results[result].within);
        if within.is_empty() || gradient.is_none() {
            return Ok(gradient);
        }
        let py = gradient.py();
        let within = PyList::new(py, within)?;
        recorder.torch.front.bind(py).call_method1(intern!(py, "subtract"), (gradient, within))
    }

    /// Adds a part of a gradient; returns the sum once all parts are there.
    fn sum<'py>(
        &self,
        recorder: &Recorder,
        argument: usize,
        part: Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = part.py();
        let parts = {
            let mut pending = lock_call(&self.call);
            let own = &mut pending.arguments[argument];
            own.parts.push(part.unbind());
            if own.parts.len() < own.expected {
                return Ok(None);
            }
            std::mem::take(&mut own.parts)
        };
        add(recorder, py, &parts).map(Some)
    }
}

/// A gradient as JSON, whose numbers may be queued; `None` if there is none.
pub(in crate::capture) fn describe(
    recorder: &Recorder,
    gradient: Bound<'_, PyAny>,
    (step, call): &(StepId, Arc<str>),
    part: &str,
    position: usize,
) -> PyResult<Option<Vec<u8>>> {
    if gradient.is_none() || is_left_out(&recorder.recording.plan, &gradient)? {
        return Ok(None);
    }
    let py = gradient.py();
    let stem = recorder.recording.plan.saves(call).then(|| format!("{call}.{part}.{position}"));
    let requires_grad = gradient.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
    let mut text = Vec::with_capacity(256);
    let file = stem.as_deref();
    let describe =
        Describe { recorder, step: *step, file, source: None, is_recompute: false, is_changed: false };
    describe.push(&gradient, requires_grad, &mut text)?;
    Ok(Some(text))
}
