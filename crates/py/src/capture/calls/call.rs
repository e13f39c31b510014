//! One call, from its arguments to its results.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_capture::modules;
use ulpscope_capture::{
    Buffer, CallStack, Initialised, Kind, ModuleLevel, NOT_SELECTED, State, backward_name,
};
use ulpscope_dump::journal::encode::{ObjectText, Section};

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::call_in_progress::{CallInProgress, Edge, version};
use crate::capture::calls::frames::TOO_MANY;
use crate::capture::describe::items::{Met, OUTPUT, Walk};
use crate::capture::gradients::graph::sequence_of;
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::lifecycle::settings::raised_by_test;
use crate::capture::lifecycle::writing::not_written;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Records the arguments of a call, if it is selected. `is_selected`: it is the call of a selected module itself. Those
    /// that their device measures are queued: until the call changes them, or returns.
    pub(in crate::capture) fn begin_call(
        &self,
        py: Python<'_>,
        base: &Arc<str>,
        kind: Kind,
        is_selected: bool,
        stack: Option<&CallStack>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<CallInProgress> {
        if self.recording.plan.checks_overflow() {
            return self.begin_checked(py, base, kind, arguments);
        }
        let around = modules::innermost(self.address());
        let mut begun = CallInProgress::new(self.recording.meet_call(base, kind));
        let step = begun.step;
        begun.is_recompute = stack.is_some_and(|stack| stack.is_checkpoint) && self.torch.in_backward(py)?;
        begun.parent = self.parent(py, stack, around.as_ref(), begun.is_recompute)?;
        let is_selected = is_selected || around.as_ref().is_some_and(|level| level.is_selected);
        let selection =
            self.recording.select(&begun, is_selected, around.as_ref()).map_err(raised_by_test)?;
        begun.backward_left_out = selection.backward;
        begun.is_backward_first = around.as_ref().is_some_and(|level| level.is_backward_first);
        if kind == Kind::Module && selection.backward.is_none() && self.recording.plan.selects_without_scope()
        {
            self.in_step(step, |state| state.wanted_modules.insert(Arc::clone(base)));
        }
        // The backward call of an unselected call is left out and counted when it runs; for other reasons it is not.
        let is_watched = self.recording.plan.watches_gradients()
            && selection.backward.is_none_or(|why| why == NOT_SELECTED);
        if is_watched && self.torch.grad_enabled(py)? {
            self.threads.meet();
            begun.sequence = Some(self.torch.next_sequence(py)?);
        }
        if let Some(why) = selection.forward {
            self.in_step(step, |state| state.ledger.skip(why));
            if begun.sequence.is_some() {
                begun.inputs = self.given_tensors(py, &begun, arguments)?;
            }
            return Ok(begun);
        }
        let pushed = self
            .late_copy(base, arguments)
            .map(|late_copy| begun.late_copy = late_copy)
            .and_then(|()| self.push_inputs(py, &mut begun, stack, arguments));
        if begun.id.is_none() {
            self.in_step(step, State::give_back_place);
        }
        pushed.map(|()| begun)
    }

    /// The parent of a call: the module it runs in; for a recomputation the backward call.
    fn parent(
        &self,
        py: Python<'_>,
        stack: Option<&CallStack>,
        around: Option<&ModuleLevel>,
        is_recompute: bool,
    ) -> PyResult<Option<Arc<str>>> {
        if !self.recording.plan.has_modules() {
            return Ok(None);
        }
        if let Some(level) = around {
            return Ok(Some(Arc::clone(&level.name)));
        }
        if is_recompute && let Some(node) = self.torch.running_node(py)? {
            let has_threads = self.threads.are_several();
            let module = self.modules.with_node(sequence_of(&node)?, has_threads);
            if module.is_none() && has_threads {
                let note = "calls were repeated for backward calls of several threads: the modules of some cannot be told";
                self.locked(|state| state.ledger.note_once(note));
            }
            return Ok(module.and_then(|name| backward_name(&name)).map(Arc::from));
        }
        Ok(stack.and_then(|stack| stack.parent.as_deref()).map(Arc::from))
    }

    /// The tensor arguments of a call, without describing them.
    fn given_tensors(
        &self,
        py: Python<'_>,
        begun: &CallInProgress,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Vec<Edge>> {
        let mut walk = Walk::new(self, begun.step, &begun.name, "input");
        walk.describes = false;
        let mut nowhere = Buffer::new();
        walk.elements(arguments.args, &mut nowhere)?;
        if let Some(kwargs) = arguments.kwargs {
            walk.values(kwargs, &mut nowhere)?;
        }
        self.edges(py, begun, walk.met)
    }

    /// The tensor arguments of a call, with their places in the autograd graph if its backward call is wanted.
    fn edges(&self, py: Python<'_>, begun: &CallInProgress, met: Vec<Met>) -> PyResult<Vec<Edge>> {
        let met = met.into_iter().filter(|met| !met.is_attribute);
        match begun.backward_left_out {
            Some(_) => Ok(met.map(Edge::without_place).collect()),
            None => self.places(py, begun, met.collect()),
        }
    }

    /// Writes the line that begins a call, with its arguments; those that their device measures are queued.
    pub(in crate::capture) fn push_inputs(
        &self,
        py: Python<'_>,
        begun: &mut CallInProgress,
        stack: Option<&CallStack>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<()> {
        let stack = stack.filter(|_| self.recording.plan.stacks);
        if stack.is_some_and(|stack| !stack.is_kept) {
            self.in_step(begun.step, |state| state.ledger.note_once(TOO_MANY));
        }
        let stack = stack.filter(|stack| stack.is_kept);
        let mut line = Buffer::new();
        let mut walk = Walk::new(self, begun.step, &begun.name, "input");
        walk.is_recompute = begun.is_recompute;
        walk.changed.clone_from(&begun.changed);
        walk.describes = self.recording.plan.wants_inputs();
        let mut sections = ObjectText::open(&mut line);
        sections.section(Section::InputArgs, &mut line);
        walk.elements(arguments.args, &mut line)?;
        sections.section(Section::InputKwargs, &mut line);
        walk.part = "kwargs";
        match arguments.kwargs {
            Some(kwargs) => walk.values(kwargs, &mut line)?,
            None => ObjectText::open(&mut line).close(&mut line),
        }
        sections.close(&mut line);
        let Walk { met, describes, gets_blank, has_other_class, memory, .. } = walk;
        begun.memory = memory;
        begun.gets_blank = gets_blank;
        begun.gets_other_class = has_other_class;
        if begun.kind == Kind::Module && !self.recording.plan.sees_apis() {
            begun.versions = met.iter().filter_map(|met| version(met.tensor.bind(py))).collect();
        }
        if begun.sequence.is_some() {
            begun.inputs = self.edges(py, begun, met)?;
        }
        if !describes {
            line.clear();
            ObjectText::open(&mut line).close(&mut line);
        }
        self.recording.begin(begun, stack, &line).map_err(not_written)
    }

    /// Records the results of a call, and places the hooks for its backward call. For arguments that are returned
    /// unchanged, the producer stays the same.
    pub(in crate::capture) fn end_call(
        &self,
        recorder: &Bound<'_, Recorder>,
        begun: CallInProgress,
        output: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyDict>>,
        changed: Option<&Bound<'_, PyAny>>,
        hands_on: &dyn Fn(&Bound<'_, PyAny>) -> bool,
    ) -> PyResult<()> {
        let py = output.py();
        if self.recording.plan.checks_overflow() {
            return self.end_checked(recorder, begun, output);
        }
        let mut line = Buffer::new();
        let mut outputs = Vec::new();
        let pushed = begun.last_line().encode_with(&mut line, |line| {
            let push = || self.push_outputs(&begun, output, parameters, line);
            outputs = caught(|| self.measured_together(py, push))?;
            Ok(())
        });
        if let Err(error) = pushed {
            self.recording.end_without_results(&begun).map_err(not_written)?;
            return Err(error);
        }
        if begun.is_recorded() && !self.recording.end(&begun, &line).map_err(not_written)? {
            return Ok(());
        }
        self.recording.leave_scope(&begun);
        let name = Arc::clone(&begun.name);
        let followed = caught(|| self.follow(recorder, begun, outputs, changed, hands_on));
        // The call itself is recorded, even if its gradients fail.
        self.guarded(py, Of::Beside(&name), followed).map(|_| ())
    }

    /// Appends the results of a call, and the parameters of a module, to the line that ends it; returns the tensors
    /// among the results. Those that their device measures are queued.
    pub(in crate::capture) fn push_outputs(
        &self,
        begun: &CallInProgress,
        output: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyDict>>,
        line: &mut Vec<u8>,
    ) -> PyResult<Vec<Met>> {
        if let Some(source) = &begun.late_copy {
            self.wait_for(source.bind(output.py()))?;
        }
        let start = line.len();
        let mut sections = ObjectText::open(line);
        let mut walk = Walk::new(self, begun.step, &begun.name, OUTPUT);
        walk.is_recompute = begun.is_recompute;
        walk.describes = begun.id.is_some() && self.recording.plan.wants_outputs();
        walk.gets_blank = begun.gets_blank;
        walk.memory.clone_from(&begun.memory);
        sections.section(Section::Output, line);
        match output.cast::<PyTuple>() {
            Ok(items) => walk.elements(items, line)?,
            Err(_) => walk.elements(&PyTuple::new(output.py(), [output])?, line)?,
        }
        let outputs = std::mem::take(&mut walk.met);
        if !walk.describes {
            line.truncate(start);
            sections = ObjectText::open(line);
        }
        if let Some(parameters) =
            parameters.filter(|_| begun.id.is_some() && self.recording.plan.wants_inputs())
        {
            sections.section(Section::Parameters, line);
            walk.part = "parameters";
            walk.has_sources = true;
            walk.describes = true;
            walk.values(parameters, line)?;
        }
        sections.close(line);
        Ok(outputs)
    }

    /// Notes the tensors that a call produced, and places the hooks for its backward call.
    fn follow(
        &self,
        recorder: &Bound<'_, Recorder>,
        begun: CallInProgress,
        mut outputs: Vec<Met>,
        changed: Option<&Bound<'_, PyAny>>,
        hands_on: &dyn Fn(&Bound<'_, PyAny>) -> bool,
    ) -> PyResult<()> {
        let py = recorder.py();
        if begun.kind == Kind::Module
            && let Some(first) = begun.sequence
        {
            self.modules.add_span(first..self.torch.next_sequence(py)?, &begun.name);
        }
        // A call inside the module produced its results, or their producer is unknown at this level.
        if begun.kind != Kind::Module || !self.recording.plan.sees_apis() {
            // What a call in place has written to is noted with its effects.
            let memory = begun.memory();
            let keeps_memory = memory.rearranges || memory.is_in_place;
            let is_made = |met: &&Met| begun.made(&met.path) && !hands_on(met.tensor.bind(py));
            for met in outputs.iter().filter(is_made) {
                let source: Arc<str> = [&begun.name, ".output.", &met.path].concat().into();
                let tensor = self.tensor(met.tensor.bind(py));
                match keeps_memory {
                    true => self.flow.note_view(begun.step, &tensor, Arc::clone(&source))?,
                    false => self.flow.note(begun.step, &tensor, Arc::clone(&source))?,
                }
                self.passes.note(|| version(met.tensor.bind(py)), &source);
                // A copy of uninitialised memory is no better.
                let is_copy = begun.gets_blank && self.flow.initialised(&tensor) == Initialised::Fully;
                if memory.is_blank || is_copy {
                    self.flow.note_blank(&tensor, source);
                }
            }
        }
        // A tensor that was changed and not returned has a gradient, too.
        if let Some(tensor) = changed.filter(|_| outputs.is_empty())
            && self.torch.is_plain_tensor(tensor)
        {
            let requires_grad = tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
            let path = "0".to_owned();
            outputs.push(Met { tensor: tensor.clone().unbind(), requires_grad, path, is_attribute: false });
        }
        outputs.retain(|met| !met.is_attribute);
        if begun.sequence.is_some() && outputs.iter().any(|met| met.requires_grad) {
            self.watch_gradients(recorder, begun, outputs)?;
        }
        Ok(())
    }
}
