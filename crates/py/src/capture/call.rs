//! One call, from its arguments to its results.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::arguments::Arguments;
use super::backward_names::backward_name;
use super::begun::{Begun, Edge, Kind, version};
use super::blanks::is_blank;
use super::buffers::Buffer;
use super::failures::{Of, caught};
use super::frames::{Stack, TOO_MANY};
use super::graph::sequence_of;
use super::items::{Met, Walk};
use super::ledger::{IN_REPEATED, NOT_SELECTED, OVER_BYTES, RESULTS_OVER_BYTES};
use super::modules;
use super::recorder::Recorder;
use super::state::{State, StepId, Written};

impl Recorder {
    /// Records the arguments of a call, if it is wanted. `is_selected`: whether it is a selected module's own.
    pub(super) fn begin_call(
        &self,
        py: Python<'_>,
        base: &Arc<str>,
        kind: Kind,
        is_selected: bool,
        stack: Option<&Stack>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Begun> {
        let around = modules::innermost(self.address());
        let (number, step) = self.locked(|state| {
            state.ledger.meet();
            (state.number(base), state.id)
        });
        let mut digits = itoa::Buffer::new();
        let number = digits.format(number);
        let name: Arc<str> = match kind {
            Kind::Api | Kind::Program => [base, ".", number, ".forward"].concat().into(),
            Kind::Module => [base, ".forward.", number].concat().into(),
        };
        let mut begun = Begun::new(name, kind, step);
        begun.is_recompute = stack.is_some_and(|stack| stack.is_checkpoint) && self.torch.in_backward(py)?;
        begun.parent = self.parent(py, stack, around.as_ref(), begun.is_recompute)?;
        let is_selected = is_selected || around.as_ref().is_some_and(|level| level.is_selected);
        let why_not = self.why_not(&begun, is_selected, around.as_ref());
        if kind == Kind::Module && why_not.is_none() && self.plan.selects() {
            self.in_step(step, |state| state.wanted_modules.insert(Arc::clone(base)));
        }
        // With what is not selected goes its backward call, which is counted as it comes. With the others it is not.
        let is_watched = self.plan.watches_gradients() && why_not.is_none_or(|why| why == NOT_SELECTED);
        if is_watched && self.torch.grad_enabled(py)? {
            self.threads.meet();
            begun.sequence = Some(self.torch.next_sequence(py)?);
        }
        if let Some(why) = why_not {
            self.in_step(step, |state| state.ledger.skip(why));
            begun.left_out = Some(why);
            if begun.sequence.is_some() {
                begun.inputs = self.given_tensors(&begun, arguments)?;
            }
            return Ok(begun);
        }
        let pushed = self
            .late_copy(base, arguments)
            .map(|late_copy| begun.late_copy = late_copy)
            .and_then(|()| self.push_inputs(py, &mut begun, stack, arguments));
        if begun.id.is_none() && self.records_forward() {
            self.in_step(step, State::give_back_place);
        }
        pushed.map(|()| begun)
    }

    /// What a call is part of: the module it runs in. What is computed again for a backward call is part of that.
    fn parent(
        &self,
        py: Python<'_>,
        stack: Option<&Stack>,
        around: Option<&modules::Level>,
        is_recompute: bool,
    ) -> PyResult<Option<Arc<str>>> {
        if !self.plan.has_modules() {
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

    /// Why a call is not recorded.
    fn why_not(
        &self,
        begun: &Begun,
        is_selected: bool,
        around: Option<&modules::Level>,
    ) -> Option<&'static str> {
        let name = &begun.name;
        let in_scope = !self.plan.has_scope()
            || self.in_step(begun.step, |state| self.plan.in_scope(name, &mut state.scope)) == Some(true);
        if self.plan.has_list() {
            self.in_step(begun.step, |state| self.plan.match_list(name, &mut state.listed));
        }
        if around.is_some_and(|level| level.is_muted) {
            return Some(IN_REPEATED);
        }
        let is_listed = self.plan.is_listed(name) || around.is_some_and(|level| level.is_listed);
        let in_scope = in_scope || self.plan.scopes_backward();
        if !is_listed || !in_scope || !self.plan.is_selected(name, is_selected) {
            return Some(NOT_SELECTED);
        }
        match self.records_forward() && !self.plan.limits.is_none() {
            true => self.in_step(begun.step, State::take_place).flatten(),
            false => self.over_limit(),
        }
    }

    /// Whether forward calls are recorded, and not only watched for the sake of their backward calls.
    fn records_forward(&self) -> bool {
        self.plan.wants_forward() && !self.plan.scopes_backward()
    }

    /// Which limit has been reached, if any.
    pub(super) fn over_limit(&self) -> Option<&'static str> {
        if self.plan.limits.is_none() { None } else { self.locked(State::over_limit) }
    }

    /// The tensors that a call is given, of which no more is asked.
    fn given_tensors(&self, begun: &Begun, arguments: Arguments<'_, '_>) -> PyResult<Vec<Edge>> {
        let mut walk = Walk::new(self, begun.step, &begun.name, "input");
        walk.describes = false;
        let mut nowhere = Buffer::new();
        walk.elements(arguments.args, &mut nowhere)?;
        if let Some(kwargs) = arguments.kwargs {
            walk.values(kwargs, &mut nowhere)?;
        }
        Ok(walk.met.into_iter().filter(|met| !met.is_attribute).map(Edge::without_place).collect())
    }

    fn push_inputs(
        &self,
        py: Python<'_>,
        begun: &mut Begun,
        stack: Option<&Stack>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<()> {
        let stack = stack.filter(|_| self.plan.stacks);
        if stack.is_some_and(|stack| !stack.is_kept) {
            self.in_step(begun.step, |state| state.ledger.note_once(TOO_MANY));
        }
        let stack = stack.filter(|stack| stack.is_kept);
        let mut line = Buffer::new();
        let is_recorded = self.records_forward();
        let mut walk = Walk::new(self, begun.step, &begun.name, "input");
        walk.is_recompute = begun.is_recompute;
        walk.describes = is_recorded && self.plan.wants_inputs();
        line.extend_from_slice(b"\"input_args\":");
        walk.elements(arguments.args, &mut line)?;
        line.extend_from_slice(b",\"input_kwargs\":");
        walk.part = "kwargs";
        match arguments.kwargs {
            Some(kwargs) => walk.values(kwargs, &mut line)?,
            None => line.extend_from_slice(b"{}"),
        }
        let (met, describes) = (walk.met, walk.describes);
        if begun.kind == Kind::Module && !self.sees_apis() {
            begun.versions = met.iter().filter_map(|met| version(met.tensor.bind(py))).collect();
        }
        if begun.sequence.is_some() {
            let met = met.into_iter().filter(|met| !met.is_attribute).collect();
            begun.inputs = self.places(py, begun, met)?;
        }
        if !is_recorded {
            self.in_step(begun.step, |state| state.ledger.skip(NOT_SELECTED));
            return Ok(());
        }
        if !describes {
            line.clear();
        }
        // Ids are in the order of lines, whichever thread was first to begin.
        let written = self.append(begun.step, |state| {
            let id = state.next_id();
            let mut head = Buffer::new();
            begun.push_head(id, stack, &mut head);
            if let Some(stack) = stack {
                state.define(stack)?;
            }
            state.append(&[&head, &line, b"}}\n"])?;
            state.ledger.recorded += 1;
            Ok(id)
        })?;
        match written {
            Written::Done(id) => begun.id = Some(id),
            Written::NoRoom => self.in_step(begun.step, |state| state.ledger.skip(OVER_BYTES)).unwrap_or(()),
            Written::StepOver => {}
        }
        Ok(())
    }

    /// Records the results of a call, and places the hooks for its backward call. What the call hands on as it was
    /// given stays the result of whoever made it.
    pub(super) fn end_call(
        &self,
        recorder: &Bound<'_, Recorder>,
        begun: Begun,
        output: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyDict>>,
        changed: Option<&Bound<'_, PyAny>>,
        hands_on: &dyn Fn(&Bound<'_, PyAny>) -> bool,
    ) -> PyResult<()> {
        let py = output.py();
        let mut line = Buffer::new();
        begun.push_end(&mut line);
        line.extend_from_slice(b",\"data\":{");
        let pushed = caught(|| self.push_outputs(&begun, output, parameters, &mut line));
        let outputs = match pushed {
            Ok(outputs) => outputs,
            Err(error) => {
                self.end_without_results(&begun)?;
                return Err(error);
            }
        };
        if begun.id.is_some() {
            line.extend_from_slice(b"}}\n");
            match self.append(begun.step, |state| state.append(&[&line]))? {
                Written::Done(()) => {}
                Written::NoRoom => self.take_back(&begun),
                Written::StepOver => {
                    self.note_overtaken(&begun);
                    return Ok(());
                }
            }
        }
        self.leave_scope(&begun);
        let name = Arc::clone(&begun.name);
        let followed = caught(|| self.follow(recorder, begun, outputs, changed, hands_on));
        // The call itself is recorded, whatever becomes of its gradients.
        self.guarded(py, Of::Beside(&name), followed).map(|_| ())
    }

    /// Appends the results of a call to the line that ends it, and the parameters of a module; tells the tensors among the
    /// results.
    fn push_outputs(
        &self,
        begun: &Begun,
        output: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyDict>>,
        line: &mut Vec<u8>,
    ) -> PyResult<Vec<Met>> {
        if let Some(source) = &begun.late_copy {
            self.wait_for(source.bind(output.py()))?;
        }
        let sections = line.len();
        let mut walk = Walk::new(self, begun.step, &begun.name, "output");
        walk.is_recompute = begun.is_recompute;
        walk.describes = begun.id.is_some() && self.plan.wants_outputs();
        line.extend_from_slice(b"\"output\":");
        match output.cast::<PyTuple>() {
            Ok(items) => walk.elements(items, line)?,
            Err(_) => walk.elements(&PyTuple::new(output.py(), [output])?, line)?,
        }
        let outputs = std::mem::take(&mut walk.met);
        if !walk.describes {
            line.truncate(sections);
        }
        if let Some(parameters) = parameters.filter(|_| begun.id.is_some() && self.plan.wants_inputs()) {
            if line.len() > sections {
                line.push(b',');
            }
            line.extend_from_slice(b"\"parameters\":");
            walk.part = "parameters";
            walk.has_sources = true;
            walk.describes = true;
            walk.values(parameters, line)?;
        }
        Ok(outputs)
    }

    /// Writes that a call has returned whose results could not be recorded: it is not running any more.
    fn end_without_results(&self, begun: &Begun) -> PyResult<()> {
        self.leave_scope(begun);
        if begun.id.is_none() {
            return Ok(());
        }
        let mut line = Buffer::new();
        begun.push_end(&mut line);
        line.extend_from_slice(b"}\n");
        self.append(begun.step, |state| state.append(&[&line])).map(|_| ())
    }

    /// Notes what a call has made, and places the hooks for its backward call.
    fn follow(
        &self,
        recorder: &Bound<'_, Recorder>,
        begun: Begun,
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
        // What a module returns was made by a call within it, or is nobody's at this level.
        if begun.kind != Kind::Module || !self.sees_apis() {
            let is_blank = is_blank(&begun.name);
            let is_made = |met: &&Met| begun.made(&met.path) && !hands_on(met.tensor.bind(py));
            for met in outputs.iter().filter(is_made) {
                let source: Arc<str> = [&begun.name, ".output.", &met.path].concat().into();
                self.flow.note(&self.torch, begun.step, met.tensor.bind(py), Arc::clone(&source))?;
                self.passes.note(met.tensor.bind(py), &source);
                if is_blank {
                    self.flow.note_blank(met.tensor.bind(py), source);
                }
            }
        }
        // What a call changed and did not return has its gradient, too.
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

    /// Counts a call that was recorded, and whose results find no room, as one that was not.
    fn take_back(&self, begun: &Begun) {
        self.in_step(begun.step, |state| {
            state.ledger.recorded = state.ledger.recorded.saturating_sub(1);
            state.ledger.skip(RESULTS_OVER_BYTES);
        });
    }

    pub(super) fn leave_scope(&self, begun: &Begun) {
        if self.plan.has_scope() {
            self.in_step(begun.step, |state| self.plan.leave_scope(&begun.name, &mut state.scope));
        }
    }

    /// Runs `with` on the state, if that is the state of a step.
    pub(super) fn in_step<T>(&self, step: StepId, with: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.locked(|state| (state.id == step).then(|| with(state)))
    }

    /// Notes that a call of an earlier step has ended.
    pub(super) fn note_overtaken(&self, begun: &Begun) {
        let note = "a call that began in an earlier step ended in this one: neither its output nor its \
                    gradients are recorded";
        self.locked(|state| {
            if state.id != begun.step {
                state.note(note.to_owned());
            }
        });
    }
}
