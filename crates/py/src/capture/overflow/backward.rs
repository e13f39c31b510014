//! Backward calls: a hook on each node that a call has added to the graph checks the gradients that leave it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ulpscope_capture::{CallRecord, FinishedBackward, Kind, Overflow, StepId, aged_backward_name};
use ulpscope_kernels::Reach;

use crate::capture::gradients::backward_calls::describe;
use crate::capture::gradients::graph::sequence_of;
use crate::capture::lifecycle::failures::Of;
use crate::capture::lifecycle::writing::not_written;
use crate::capture::overflow::devices::Extent;
use crate::capture::overflow::reaches::Found;
use crate::capture::recorder::Recorder;

/// The ledger's note for calls whose backward call has no hook.
const VIEWS: &str = "overflow: the backward calls of calls that change a view in place are not checked";

/// Nodes of one call that are watched.
const MAX_NODES: usize = 1 << 10;

/// The call that a node belongs to.
pub(super) struct Forward {
    name: ForwardName,
    step: StepId,
    /// How far its results went: gradients are computed from them.
    results: Extent,
    /// Whether its backward call is to be checked; otherwise only the flag of the device is cleared after it.
    is_selected: bool,
    /// The step, counted from one, in which its backward call was written last.
    written_in: AtomicU64,
}

/// The name of a forward call, which most calls never need.
enum ForwardName {
    Made(Arc<str>),
    Parts(Arc<str>, u64),
}

impl Forward {
    /// A call of a function whose results are in range.
    pub(super) fn quick(base: &Arc<str>, number: u64, step: StepId) -> Forward {
        let name = ForwardName::Parts(Arc::clone(base), number);
        Forward { name, step, results: Extent::default(), is_selected: true, written_in: AtomicU64::new(0) }
    }

    /// A call with a name.
    pub(super) fn named(name: &Arc<str>, step: StepId, results: Extent, is_selected: bool) -> Forward {
        let name = ForwardName::Made(Arc::clone(name));
        Forward { name, step, results, is_selected, written_in: AtomicU64::new(0) }
    }

    fn name(&self) -> Arc<str> {
        match &self.name {
            ForwardName::Made(name) => Arc::clone(name),
            ForwardName::Parts(base, number) => CallRecord::name_of(base, Kind::Api, *number),
        }
    }
}

/// A hook on one node.
#[pyclass(frozen, module = "ulpscope._core")]
pub(in crate::capture) struct OverflowHook {
    recorder: Py<Recorder>,
    forward: Arc<Forward>,
}

#[pymethods]
impl OverflowHook {
    fn __call__(&self, given: &Bound<'_, PyAny>, taken: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = given.py();
        let recorder = self.recorder.bind(py).get();
        recorder.end_run()?;
        if !recorder.is_checking() {
            return Ok(());
        }
        let (Ok(given), Ok(taken)) = (given.cast::<PyTuple>(), taken.cast::<PyTuple>()) else {
            // Compiled autograd traces the backward pass: there are no gradients yet.
            let note = "a backward pass was compiled: its gradients are not seen";
            recorder.locked(|state| state.note(note.to_owned()));
            return Ok(());
        };
        if !self.forward.is_selected {
            let taken = recorder.take_flag(py);
            return recorder.guarded(py, Of::Beside("the overflow flag"), taken).map(|_| ());
        }
        let mut met = Vec::new();
        let quick = recorder.quick_reach(given.as_any(), &mut met);
        if let Some(Some(Reach::InRange)) = recorder.guarded(py, Of::Unmet("a gradient"), quick)? {
            recorder.locked(|state| {
                state.ledger.meet();
                state.ledger.in_range += 1;
            });
            return Ok(());
        }
        let checked = recorder.torch.with_modes_disabled(py, || self.check(recorder, given, taken));
        let ends_run = recorder.guarded(py, Of::New(&self.forward.name()), checked)?;
        ends_run.flatten().map_or(Ok(()), Err)
    }
}

impl OverflowHook {
    fn check(
        &self,
        recorder: &Recorder,
        given: &Bound<'_, PyTuple>,
        taken: &Bound<'_, PyTuple>,
    ) -> PyResult<Option<PyErr>> {
        let py = given.py();
        let step = recorder.locked(|state| {
            state.ledger.meet();
            state.id
        });
        let mut found = Found::default();
        recorder.look_at(given, &mut found, 0)?;
        let is_flagged = recorder.take_flag(py)?;
        let is_plain =
            !is_flagged && found.remote.is_empty() && recorder.recording.plan.would_overflow.is_none();
        if found.reach == Reach::InRange && is_plain {
            recorder.skip_in_range(step);
            return Ok(None);
        }
        let name = self.name(step);
        let results = recorder.extent_of(py, &found)?;
        let call = CallRecord::new(name, Kind::Api, step);
        recorder.add_survival(py, &call, &found, &results)?;
        let is_judged_later = !results.there.is_empty() && !is_flagged;
        if results.here == Reach::InRange && !is_judged_later && !is_flagged {
            recorder.skip_in_range(step);
            return Ok(None);
        }
        let mut inputs = Found::default();
        recorder.look_at_input(taken, &mut inputs)?;
        let mut inputs = recorder.extent_of(py, &inputs)?;
        inputs.add(&self.forward.results);
        if is_judged_later {
            let later = recorder.for_later(py, &call, inputs, results)?;
            return recorder.expect_call(self.recorder.bind(py), later);
        }
        let Some(overflow) = recorder.overflow_of(py, &inputs, &results, is_flagged)? else {
            recorder.skip_in_range(step);
            return Ok(None);
        };
        match recorder.take_place_of(&call, overflow) {
            Some(why) => recorder.skip(&call, why),
            None => self.write(recorder, &call, given, taken)?,
        }
        match overflow {
            Overflow::Born => recorder.tell_origin(py, &call.name),
            _ => Ok(None),
        }
    }

    /// The name of the backward call in a step.
    fn name(&self, step: StepId) -> Arc<str> {
        let forward = self.forward.name();
        aged_backward_name(&forward, step.since(self.forward.step)).map_or(forward, Arc::from)
    }

    /// Writes the backward call; the second of several nodes of a call is only counted.
    fn write(
        &self,
        recorder: &Recorder,
        call: &CallRecord,
        given: &Bound<'_, PyTuple>,
        taken: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let number = call.step.since(StepId::default()) + 1;
        if self.forward.written_in.swap(number, Ordering::Relaxed) == number {
            recorder.skip(call, "a further node of a call that is written");
            return Ok(());
        }
        let at = (call.step, Arc::clone(&call.name));
        let all = |gradients: &Bound<'_, PyTuple>, part| {
            let texts = gradients.iter().enumerate();
            let texts = texts.map(|(position, gradient)| describe(recorder, gradient, &at, part, position));
            texts.collect::<PyResult<Vec<_>>>()
        };
        let describe = || Ok((all(taken, "input")?, all(given, "output")?));
        let (results, arguments) = recorder.measured_together(given.py(), describe)?;
        let stack =
            recorder.recording.plan.stacks.then(|| recorder.stacks.current(given.py(), &recorder.torch));
        let stack = stack.transpose()?.flatten().filter(|stack| stack.is_kept);
        let finished = FinishedBackward::<Py<PyAny>>::whole(
            call.step,
            Arc::clone(&call.name),
            stack,
            results,
            arguments,
        );
        recorder.recording.write_backward(finished).map_err(not_written)
    }
}

impl Recorder {
    /// Puts a hook on each node that a call has added to the graph, from a number on, to compute these results.
    pub(super) fn watch_nodes(
        &self,
        slf: &Bound<'_, Recorder>,
        first: u64,
        results: &[Bound<'_, PyAny>],
        is_changing: bool,
        forward: impl FnOnce() -> Forward,
    ) -> PyResult<()> {
        let py = slf.py();
        let mut nodes: Vec<Bound<'_, PyAny>> = Vec::new();
        for tensor in results {
            if !tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
                continue;
            }
            // Reading the node of a view that was changed in place would make torch add another one.
            if is_changing && tensor.call_method0(intern!(py, "_is_view"))?.is_truthy()? {
                self.locked(|state| state.note_once(VIEWS));
                continue;
            }
            let node = tensor.getattr(intern!(py, "grad_fn"))?;
            if !node.is_none() && !nodes.iter().any(|known| known.is(&node)) {
                nodes.push(node);
            }
        }
        if nodes.is_empty() {
            return Ok(());
        }
        let last = self.torch.next_sequence(py)?;
        let is_own =
            |node: &Bound<'_, PyAny>| sequence_of(node).map(|number| (first..last).contains(&number));
        let mut own = Vec::with_capacity(nodes.len());
        for node in nodes {
            if is_own(&node)? {
                own.push(node);
            }
        }
        if last - first > own.len() as u64 {
            add_inner_nodes(&mut own, is_own)?;
        }
        let mut watched = Vec::with_capacity(own.len());
        for node in own {
            if !self.only_rearranges(&node)? {
                watched.push(node);
            }
        }
        if watched.is_empty() {
            return Ok(());
        }
        let forward = Arc::new(forward());
        for node in watched {
            let hook = OverflowHook { recorder: slf.clone().unbind(), forward: Arc::clone(&forward) };
            self.hooks.place(&node, hook)?;
        }
        Ok(())
    }

    /// Whether a node returns the elements of its gradients in a different arrangement: nothing can begin there.
    fn only_rearranges(&self, node: &Bound<'_, PyAny>) -> PyResult<bool> {
        let kind = node.get_type();
        let address = kind.as_ptr() as usize;
        if let Some((_, known)) = self.overflow.node_types().get(&address) {
            return Ok(*known);
        }
        let name = kind.name()?.to_string();
        // Torch's own nodes have a number. That of a program's `class View(Function)` has none.
        let kind_of_node = name.trim_end_matches(|end: char| end.is_ascii_digit());
        let rearranges = kind_of_node != name && REARRANGING.contains(&kind_of_node);
        let _known = {
            let mut types = self.overflow.node_types();
            // A program may define functions without end: those are forgotten, and asked again.
            let all = if types.len() >= MAX_TYPES { std::mem::take(&mut *types) } else { HashMap::new() };
            (all, types.insert(address, (kind.unbind(), rearranges)))
        };
        Ok(rearranges)
    }
}

/// Nodes of views: their gradients have the elements that they are given.
const REARRANGING: [&str; 11] = [
    "AliasBackward",
    "PermuteBackward",
    "ReshapeAliasBackward",
    "SqueezeBackward",
    "TBackward",
    "TransposeBackward",
    "UnsafeViewBackward",
    "UnsqueezeBackward",
    "ViewBackward",
    "SplitBackward",
    "UnbindBackward",
];

/// Types of nodes that are remembered.
const MAX_TYPES: usize = 1 << 10;

/// Adds the nodes of a call that only its other nodes lead to.
fn add_inner_nodes(
    own: &mut Vec<Bound<'_, PyAny>>,
    is_own: impl Fn(&Bound<'_, PyAny>) -> PyResult<bool>,
) -> PyResult<()> {
    let mut known: HashSet<usize> = own.iter().map(|node| node.as_ptr() as usize).collect();
    let mut at = 0;
    while at < own.len() && own.len() < MAX_NODES {
        let node = own[at].clone();
        for edge in node.getattr(intern!(node.py(), "next_functions"))?.try_iter()? {
            let next = edge?.get_item(0)?;
            if !next.is_none() && is_own(&next)? && known.insert(next.as_ptr() as usize) {
                own.push(next);
            }
        }
        at += 1;
    }
    Ok(())
}
