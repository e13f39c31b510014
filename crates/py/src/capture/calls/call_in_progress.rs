//! A call that has begun: what is known of it until it ends, and longer if its backward call is to be seen.

use std::ops::{Deref, DerefMut};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_capture::CallRecord;

use crate::capture::describe::items::Met;

/// A call that has begun: what is recorded of it, and the objects that are needed until it ends.
pub(in crate::capture) struct CallInProgress {
    record: CallRecord,
    /// Its tensors, with the place of each in the autograd graph before the call.
    pub(in crate::capture) inputs: Vec<Edge>,
    /// The arguments as the caller passed them, where torch shows them otherwise, and the call may change some.
    pub(in crate::capture) passed: Option<(Py<PyTuple>, Py<PyDict>)>,
    /// The tensor of another device that it copies without waiting for it, if it does.
    pub(in crate::capture) late_copy: Option<Py<PyAny>>,
    /// Its tensors by their addresses, and how often each had been changed; where no more than that can tell whether the
    /// call has changed them.
    pub(in crate::capture) versions: Vec<(usize, u64)>,
}

impl Deref for CallInProgress {
    type Target = CallRecord;

    fn deref(&self) -> &CallRecord {
        &self.record
    }
}

impl DerefMut for CallInProgress {
    fn deref_mut(&mut self) -> &mut CallRecord {
        &mut self.record
    }
}

impl CallInProgress {
    /// A call of which nothing but its record is known.
    pub(in crate::capture) fn new(record: CallRecord) -> CallInProgress {
        CallInProgress { record, inputs: Vec::new(), passed: None, late_copy: None, versions: Vec::new() }
    }

    /// Tells which tensors it was given, and has not changed.
    pub(in crate::capture) fn unchanged(&mut self) -> impl Fn(&Bound<'_, PyAny>) -> bool + use<> {
        let versions = std::mem::take(&mut self.versions);
        move |tensor| {
            let is_given = versions.iter().any(|(address, _)| *address == tensor.as_ptr() as usize);
            is_given && version(tensor).is_some_and(|version| versions.contains(&version))
        }
    }
}

/// A tensor argument, and the node that its gradient goes to.
pub(in crate::capture) struct Edge {
    pub(in crate::capture) tensor: Py<PyAny>,
    /// Nothing for a leaf, and for a tensor without gradient.
    pub(in crate::capture) node: Option<Py<PyAny>>,
    /// Its position among what the node made.
    pub(in crate::capture) number: usize,
    pub(in crate::capture) requires_grad: bool,
    /// For a view that must not be asked for its node: how often it was changed before the call.
    pub(in crate::capture) unasked: Option<u64>,
}

/// The address of a tensor, and how often it has been changed; nothing where torch does not count that.
pub(in crate::capture) fn version(tensor: &Bound<'_, PyAny>) -> Option<(usize, u64)> {
    let version = tensor.getattr(intern!(tensor.py(), "_version")).ok()?;
    Some((tensor.as_ptr() as usize, version.extract().ok()?))
}

impl Edge {
    /// The place of a tensor in the autograd graph.
    pub(in crate::capture) fn of(py: Python<'_>, met: Met) -> PyResult<Edge> {
        let mut edge = Edge::without_place(met);
        if edge.requires_grad {
            edge.ask(py)?;
        }
        Ok(edge)
    }

    /// Looks up the place.
    pub(in crate::capture) fn ask(&mut self, py: Python<'_>) -> PyResult<()> {
        let node = self.tensor.getattr(py, intern!(py, "grad_fn"))?;
        if !node.is_none(py) {
            self.node = Some(node);
            self.number = self.tensor.getattr(py, intern!(py, "output_nr"))?.extract(py)?;
        }
        self.unasked = None;
        Ok(())
    }

    /// A tensor whose place is not asked for.
    pub(in crate::capture) fn without_place(met: Met) -> Edge {
        Edge { tensor: met.tensor, node: None, number: 0, requires_grad: met.requires_grad, unasked: None }
    }
}
