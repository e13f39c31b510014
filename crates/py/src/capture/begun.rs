//! A call that has begun: what is known of it until it ends, and longer if its backward call is to be seen.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_dump::journal::encode::CallLine;

use super::frames::Stack;
use super::items::Met;
use super::state::StepId;

/// What kind of call it is, as far as names and order go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `{base}.{n}.forward`, in the order of their beginnings.
    Api,
    /// The same, of a function of the program's own.
    Program,
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
    pub(super) id: Option<u64>,
    /// Why it is left out, and its backward call with it; nothing if they are wanted.
    pub(super) left_out: Option<&'static str>,
    pub(super) parent: Option<Arc<str>>,
    pub(super) is_recompute: bool,
    /// Its tensors, with the place of each in the autograd graph before the call.
    pub(super) inputs: Vec<Edge>,
    /// The arguments as the caller passed them, where torch shows them otherwise, and the call may change some.
    pub(super) passed: Option<(Py<PyTuple>, Py<PyDict>)>,
    /// The number the first node of the graph made by the call would have; nothing when gradients are off.
    pub(super) sequence: Option<u64>,
    /// The tensor of another device that it copies without waiting for it, if it does.
    pub(super) late_copy: Option<Py<PyAny>>,
    /// The places of the results that it has written to; nothing where it has made all of them.
    pub(super) written: Option<Vec<String>>,
    /// Its tensors by their addresses, and how often each had been changed; where no more than that can tell whether the
    /// call has changed them.
    pub(super) versions: Vec<(usize, u64)>,
}

impl Begun {
    /// The line that tells that the call has begun.
    pub(super) fn first_line(&self, id: u64, stack: Option<&Stack>) -> CallLine<'_> {
        CallLine::Begin {
            name: &self.name,
            id: Some(id),
            stack: stack.map(|stack| stack.id),
            parent: self.parent.as_deref(),
        }
    }

    /// The line that tells that the call has returned.
    pub(super) fn last_line(&self) -> CallLine<'static> {
        CallLine::End { id: self.id.unwrap_or_default(), last: self.ends_last() }
    }

    /// Whether it takes its place in the order of calls when it ends.
    pub(super) fn ends_last(&self) -> bool {
        self.kind == Kind::Module
    }

    /// Tells which tensors it was given, and has not changed.
    pub(super) fn unchanged(&mut self) -> impl Fn(&Bound<'_, PyAny>) -> bool + use<> {
        let versions = std::mem::take(&mut self.versions);
        move |tensor| {
            let is_given = versions.iter().any(|(address, _)| *address == tensor.as_ptr() as usize);
            is_given && version(tensor).is_some_and(|version| versions.contains(&version))
        }
    }

    /// Whether it has made the result at a place, or written to it: `1.0` lies within `1`.
    pub(super) fn made(&self, place: &str) -> bool {
        let is_within = |written: &String| {
            place.strip_prefix(written.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.written.as_ref().is_none_or(|written| written.iter().any(is_within))
    }

    /// Whether code of the program runs in it, which may come to any tensor.
    pub(super) fn is_opaque(&self) -> bool {
        self.kind != Kind::Api
    }

    /// Whether it counts as recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.id.is_some()
    }

    /// Its name without direction and number.
    pub(super) fn base(&self) -> &str {
        self.name.rsplitn(3, '.').nth(2).unwrap_or(&self.name)
    }

    /// A call of which nothing is known but its name.
    pub(super) fn new(name: Arc<str>, kind: Kind, step: StepId) -> Begun {
        Begun {
            name,
            kind,
            step,
            id: None,
            left_out: None,
            parent: None,
            is_recompute: false,
            inputs: Vec::new(),
            passed: None,
            sequence: None,
            late_copy: None,
            written: None,
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
    /// For a view that must not be asked for its node: how often it was changed before the call.
    pub(super) unasked: Option<u64>,
}

/// The address of a tensor, and how often it has been changed; nothing where torch does not count that.
pub(super) fn version(tensor: &Bound<'_, PyAny>) -> Option<(usize, u64)> {
    let version = tensor.getattr(intern!(tensor.py(), "_version")).ok()?;
    Some((tensor.as_ptr() as usize, version.extract().ok()?))
}

impl Edge {
    /// The place of a tensor in the autograd graph.
    pub(super) fn of(py: Python<'_>, met: Met) -> PyResult<Edge> {
        let mut edge = Edge::without_place(met);
        if edge.requires_grad {
            edge.ask(py)?;
        }
        Ok(edge)
    }

    /// Looks up the place.
    pub(super) fn ask(&mut self, py: Python<'_>) -> PyResult<()> {
        let node = self.tensor.getattr(py, intern!(py, "grad_fn"))?;
        if !node.is_none(py) {
            self.node = Some(node);
            self.number = self.tensor.getattr(py, intern!(py, "output_nr"))?.extract(py)?;
        }
        self.unasked = None;
        Ok(())
    }

    /// A tensor whose place is not asked for.
    pub(super) fn without_place(met: Met) -> Edge {
        Edge { tensor: met.tensor, node: None, number: 0, requires_grad: met.requires_grad, unasked: None }
    }
}
