//! One call, from its arguments to its results.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use ulpscope_formats::json::push_text;

use super::backward_names::backward_name;
use super::buffers::Buffer;
use super::frames::Stack;
use super::graph::sequence_of;
use super::items::{Met, Walk};
use super::ledger::{IN_REPEATED, NOT_SELECTED, OVER_BYTES, OVER_CALLS};
use super::modules;
use super::numbers::push_int;
use super::recorder::Recorder;
use super::state::{State, StepId};

/// What kind of call it is, as far as names and order go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `{base}.{n}.forward`, in the order of their beginnings.
    Api,
    /// `{base}.forward.{n}`, in the order of their ends: a module follows what runs within it.
    Module,
}

/// A call that has begun.
pub(super) struct Begun {
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    /// The step it began in. What happens to it when that is over is not recorded.
    pub(super) step: StepId,
    /// Its number in the journal, if it is recorded.
    id: Option<u64>,
    /// Whether it is among what is wanted at all, so that its backward call is, too.
    is_wanted: bool,
    pub(super) parent: Option<Arc<str>>,
    is_recompute: bool,
    /// Its tensors, with the place of each in the autograd graph before the call.
    pub(super) inputs: Vec<Edge>,
    /// The number the first node of the graph made by the call would have; nothing when gradients are off.
    pub(super) sequence: Option<u64>,
    /// Its tensors by their addresses, and how often each had been changed; where no more than that can tell whether the
    /// call has changed them.
    versions: Vec<(usize, u64)>,
}

impl Begun {
    /// The beginning of the line that tells of the call, up to its sections.
    fn push_head(&self, id: u64, stack: Option<&Stack>, line: &mut Vec<u8>) {
        line.extend_from_slice(b"{\"call\":");
        push_text(&self.name, line);
        line.extend_from_slice(b",\"id\":");
        push_int(id.into(), line);
        if let Some(stack) = stack {
            line.extend_from_slice(b",\"stack\":");
            push_int(stack.id.into(), line);
        }
        if let Some(parent) = &self.parent {
            line.extend_from_slice(b",\"parent\":");
            push_text(parent, line);
        }
        line.extend_from_slice(b",\"data\":{");
    }

    /// Tells which tensors it was given, and has not changed.
    pub(super) fn unchanged(&mut self) -> impl Fn(&Bound<'_, PyAny>) -> bool + use<> {
        let versions = std::mem::take(&mut self.versions);
        move |tensor| {
            let is_given = versions.iter().any(|(address, _)| *address == tensor.as_ptr() as usize);
            is_given && version(tensor).is_some_and(|version| versions.contains(&version))
        }
    }

    /// Whether it counts as recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.id.is_some()
    }

    /// A call that is only gone into and left.
    pub(super) fn unrecorded(name: Arc<str>, kind: Kind, step: StepId) -> Begun {
        Begun {
            name,
            kind,
            step,
            id: None,
            is_wanted: false,
            parent: None,
            is_recompute: false,
            inputs: Vec::new(),
            sequence: None,
            versions: Vec::new(),
        }
    }
}

/// A tensor argument, and the node that its gradient goes to.
pub(super) struct Edge {
    pub(super) tensor: Py<PyAny>,
    /// Nothing for a leaf, and for a tensor without gradient.
    pub(super) node: Option<Py<PyAny>>,
    /// Its position among what the node made.
    pub(super) number: usize,
    pub(super) requires_grad: bool,
}

/// The positional and the named arguments.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a, 'py> {
    pub(super) args: &'a Bound<'py, PyTuple>,
    pub(super) kwargs: Option<&'a Bound<'py, PyDict>>,
}

impl Arguments<'_, '_> {
    /// Whether a tensor is among them, or in a list among them, and not in one of the positions that were changed, nor
    /// where results are put.
    pub(super) fn has_unchanged(&self, tensor: &Bound<'_, PyAny>, changed: &[usize]) -> bool {
        let py = tensor.py();
        let is_in = |argument: &Bound<'_, PyAny>| {
            argument.is(tensor)
                || argument.cast_exact::<PyList>().is_ok_and(|items| items.iter().any(|item| item.is(tensor)))
                || argument
                    .cast_exact::<PyTuple>()
                    .is_ok_and(|items| items.iter().any(|item| item.is(tensor)))
        };
        if changed.iter().any(|&position| self.args.get_item(position).is_ok_and(|argument| is_in(&argument)))
            || self.kwargs.is_some_and(|kwargs| kwargs.contains(intern!(py, "out")).unwrap_or(true))
        {
            return false;
        }
        self.args.iter().any(|argument| is_in(&argument))
            || self.kwargs.is_some_and(|kwargs| kwargs.values().iter().any(|argument| is_in(&argument)))
    }
}

impl Recorder {
    /// Records the arguments of a call, if it is wanted.
    pub(super) fn begin_call(
        &self,
        py: Python<'_>,
        base: &Arc<str>,
        kind: Kind,
        stack: Option<&Stack>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Begun> {
        let around = modules::innermost(self.address());
        let (number, step) = self.locked(|state| {
            state.ledger.meet();
            (state.number(base), state.id)
        });
        let name: Arc<str> = match kind {
            Kind::Api => format!("{base}.{number}.forward").into(),
            Kind::Module => format!("{base}.forward.{number}").into(),
        };
        let mut begun = Begun {
            kind,
            step,
            id: None,
            is_wanted: true,
            parent: None,
            is_recompute: stack.is_some_and(|stack| stack.is_checkpoint) && self.torch.in_backward(py)?,
            inputs: Vec::new(),
            sequence: None,
            versions: Vec::new(),
            name,
        };
        begun.parent = self.parent(py, stack, around.as_ref(), begun.is_recompute)?;
        let why_not = self.why_not(&begun, around.as_ref());
        if kind == Kind::Module && why_not.is_none() && self.plan.selects() {
            self.in_step(step, |state| state.wanted_modules.insert(Arc::clone(base)));
        }
        if let Some(why) = why_not {
            self.in_step(step, |state| state.ledger.skip(why));
            begun.is_wanted = false;
            return Ok(begun);
        }
        if self.plan.watches_gradients() && self.torch.grad_enabled(py)? {
            begun.sequence = Some(self.torch.next_sequence(py)?);
        }
        self.push_inputs(py, &mut begun, stack, arguments)?;
        Ok(begun)
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
            let module = self.modules.with_node(sequence_of(&node)?);
            return Ok(module.and_then(|name| backward_name(&name)).map(Arc::from));
        }
        Ok(stack.and_then(|stack| stack.parent.as_deref()).map(Arc::from))
    }

    /// Why a call is not recorded.
    fn why_not(&self, begun: &Begun, around: Option<&modules::Level>) -> Option<&'static str> {
        let name = &begun.name;
        let in_scope = !self.plan.has_scope()
            || self.in_step(begun.step, |state| self.plan.in_scope(name, &mut state.scope)) == Some(true);
        if around.is_some_and(|level| level.is_muted) {
            return Some(IN_REPEATED);
        }
        let is_listed = self.plan.is_listed(name) || around.is_some_and(|level| level.is_listed);
        if !is_listed || !(in_scope || self.plan.scopes_backward()) {
            return Some(NOT_SELECTED);
        }
        self.over_limit()
    }

    /// Which limit has been reached, if any.
    pub(super) fn over_limit(&self) -> Option<&'static str> {
        if self.plan.max_calls.is_none() && self.plan.max_bytes.is_none() {
            return None;
        }
        let (recorded, written) = self.locked(|state| state.so_far());
        if self.plan.max_calls.is_some_and(|limit| recorded >= limit) {
            return Some(OVER_CALLS);
        }
        self.plan.max_bytes.is_some_and(|limit| written >= limit).then_some(OVER_BYTES)
    }

    fn push_inputs(
        &self,
        py: Python<'_>,
        begun: &mut Begun,
        stack: Option<&Stack>,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<()> {
        let stack = stack.filter(|_| self.plan.stacks);
        let mut line = Buffer::new();
        let is_recorded = self.plan.wants_forward() && !self.plan.scopes_backward();
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
            begun.inputs = met.into_iter().map(|met| edge(py, met)).collect::<PyResult<_>>()?;
        }
        if !is_recorded {
            self.in_step(begun.step, |state| state.ledger.skip(NOT_SELECTED));
            return Ok(());
        }
        if !describes {
            line.clear();
        }
        // Ids are in the order of lines, whichever thread was first to begin.
        begun.id = self.append(begun.step, |state| {
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
        line.extend_from_slice(b"{\"end\":");
        push_int(begun.id.unwrap_or_default().into(), &mut line);
        if begun.kind == Kind::Module {
            line.extend_from_slice(b",\"last\":true");
        }
        line.extend_from_slice(b",\"data\":{");
        let sections = line.len();
        let mut walk = Walk::new(self, begun.step, &begun.name, "output");
        walk.is_recompute = begun.is_recompute;
        walk.describes = begun.id.is_some() && self.plan.wants_outputs();
        line.extend_from_slice(b"\"output\":");
        match output.cast::<PyTuple>() {
            Ok(items) => walk.elements(items, &mut line)?,
            Err(_) => walk.elements(&PyTuple::new(py, [output])?, &mut line)?,
        }
        let mut outputs = std::mem::take(&mut walk.met);
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
            walk.values(parameters, &mut line)?;
        }
        drop(walk);
        if begun.id.is_some() {
            line.extend_from_slice(b"}}\n");
            if self.append(begun.step, |state| state.append(&[&line]))?.is_none() {
                self.note_overtaken(&begun);
                return Ok(());
            }
        }
        self.leave_scope(&begun);
        if begun.kind == Kind::Module
            && let Some(first) = begun.sequence
        {
            self.modules.add_span(first..self.torch.next_sequence(py)?, &begun.name);
        }
        // What a module returns was made by a call within it, or is nobody's at this level.
        if begun.kind == Kind::Api || !self.sees_apis() {
            for met in outputs.iter().filter(|met| !hands_on(met.tensor.bind(py))) {
                let source = format!("{}.output.{}", begun.name, met.path).into();
                self.flow.note(&self.torch, begun.step, met.tensor.bind(py), source)?;
            }
        }
        // What a call changed and did not return has its gradient, too.
        if let Some(tensor) = changed.filter(|_| outputs.is_empty())
            && self.torch.is_plain_tensor(tensor)
        {
            let requires_grad = tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
            outputs.push(Met { tensor: tensor.clone().unbind(), requires_grad, path: "0".to_owned() });
        }
        if begun.is_wanted && begun.sequence.is_some() && outputs.iter().any(|met| met.requires_grad) {
            self.watch_gradients(recorder, begun, outputs)?;
        }
        Ok(())
    }

    /// Notes that a call raised, with the parameters of a module.
    pub(super) fn raised_call(&self, begun: &Begun, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        self.leave_scope(begun);
        let Some(id) = begun.id else { return Ok(()) };
        let mut line = Buffer::new();
        if let Some(parameters) = parameters.filter(|_| self.plan.wants_inputs()) {
            line.extend_from_slice(b"{\"more\":");
            push_int(id.into(), &mut line);
            line.extend_from_slice(b",\"data\":{\"parameters\":");
            let mut walk = Walk::new(self, begun.step, &begun.name, "parameters");
            walk.is_recompute = begun.is_recompute;
            walk.values(parameters, &mut line)?;
            line.extend_from_slice(b"}}\n");
        }
        line.extend_from_slice(b"{\"raised\":");
        push_int(id.into(), &mut line);
        if begun.kind == Kind::Module {
            line.extend_from_slice(b",\"last\":true");
        }
        line.extend_from_slice(b"}\n");
        if self.append(begun.step, |state| state.append(&[&line]))?.is_none() {
            self.note_overtaken(begun);
        }
        Ok(())
    }

    fn leave_scope(&self, begun: &Begun) {
        if self.plan.has_scope() {
            self.in_step(begun.step, |state| self.plan.leave_scope(&begun.name, &mut state.scope));
        }
    }

    /// Runs `with` on the state, if that is the state of a step.
    fn in_step<T>(&self, step: StepId, with: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.locked(|state| (state.id == step).then(|| with(state)))
    }

    /// Notes that a call of an earlier step has ended.
    fn note_overtaken(&self, begun: &Begun) {
        let note = "a call that began in an earlier step ended in this one: neither its output nor its \
                    gradients are recorded";
        self.locked(|state| {
            if state.id != begun.step {
                state.note(note.to_owned());
            }
        });
    }
}

/// The address of a tensor, and how often it has been changed; nothing where torch does not count that.
fn version(tensor: &Bound<'_, PyAny>) -> Option<(usize, u64)> {
    let version = tensor.getattr(intern!(tensor.py(), "_version")).ok()?;
    Some((tensor.as_ptr() as usize, version.extract().ok()?))
}

/// The place of a tensor in the autograd graph.
fn edge(py: Python<'_>, met: Met) -> PyResult<Edge> {
    let Met { tensor, requires_grad, .. } = met;
    let node = match requires_grad {
        true => Some(tensor.getattr(py, intern!(py, "grad_fn"))?).filter(|node| !node.is_none(py)),
        false => None,
    };
    let number = match &node {
        Some(_) => tensor.getattr(py, intern!(py, "output_nr"))?.extract(py)?,
        None => 0,
    };
    Ok(Edge { tensor, node, number, requires_grad })
}
