//! A call in progress: its state until it ends, or longer if its backward call is to be recorded.

use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_capture::CallRecord;

use crate::capture::describe::items::Met;
use crate::capture::provenance::call_memory::CallMemory;

/// A call in progress: its record, and the objects that are needed until it ends.
pub(in crate::capture) struct CallInProgress {
    record: CallRecord,
    /// Its tensor arguments, with the place of each in the autograd graph before the call.
    pub(in crate::capture) inputs: Vec<Edge>,
    /// The arguments as the caller passed them, if torch shows them differently and the call may change some.
    pub(in crate::capture) passed: Option<(Py<PyTuple>, Py<PyDict>)>,
    /// The tensor of another device that it copies without waiting, if any.
    pub(in crate::capture) late_copy: Option<Py<PyAny>>,
    /// Its tensors by address, with their change counts, if only these can show whether the call changed them.
    pub(in crate::capture) versions: Vec<(usize, u64)>,
    /// The addresses of the arguments that it has changed, if it is recorded after it has run.
    pub(in crate::capture) changed: Vec<usize>,
    /// Whether it only rearranges elements, and those that it gets are uninitialised.
    pub(in crate::capture) gets_blank: bool,
    /// Whether a tensor of a class of the program is among its arguments: that class may do anything with the others.
    pub(in crate::capture) gets_other_class: bool,
    /// What it does with memory, once that was needed.
    pub(in crate::capture) memory: OnceCell<CallMemory>,
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
    /// A call of which only the record is known.
    pub(in crate::capture) fn new(record: CallRecord) -> CallInProgress {
        CallInProgress {
            record,
            inputs: Vec::new(),
            passed: None,
            late_copy: None,
            versions: Vec::new(),
            changed: Vec::new(),
            gets_blank: false,
            gets_other_class: false,
            memory: OnceCell::new(),
        }
    }

    /// What it does with memory.
    pub(in crate::capture) fn memory(&self) -> CallMemory {
        *self.memory.get_or_init(|| CallMemory::of(&self.name))
    }

    /// A predicate: the tensor is an argument that the call has not changed.
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
    /// `None` for a leaf, and for a tensor without gradient.
    pub(in crate::capture) node: Option<Py<PyAny>>,
    /// Its position among the node's outputs.
    pub(in crate::capture) number: usize,
    pub(in crate::capture) requires_grad: bool,
    /// For a view whose node must not be read: its change count before the call.
    pub(in crate::capture) unasked: Option<u64>,
}

/// The address and change count of a tensor; `None` if torch does not count changes.
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

    /// Reads the place from torch.
    pub(in crate::capture) fn ask(&mut self, py: Python<'_>) -> PyResult<()> {
        let node = self.tensor.getattr(py, intern!(py, "grad_fn"))?;
        if !node.is_none(py) {
            self.node = Some(node);
            self.number = self.tensor.getattr(py, intern!(py, "output_nr"))?.extract(py)?;
        }
        self.unasked = None;
        Ok(())
    }

    /// A tensor without reading its place.
    pub(in crate::capture) fn without_place(met: Met) -> Edge {
        Edge { tensor: met.tensor, node: None, number: 0, requires_grad: met.requires_grad, unasked: None }
    }
}
