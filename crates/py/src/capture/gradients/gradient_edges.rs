//! The places of a call's arguments in the autograd graph, looked up before the call.
//!
//! A view whose base was changed after the view was made has no node until its node is read. Reading creates the node
//! and gives it its place in torch's order. If we read it here, it would come before nodes that the call creates first,
//! and gradients would be summed in a different order. Torch counts changes, but does not report at which of them a
//! view's node was created. So the node of a view is read if nothing was changed, if it is known to have been read
//! since, or if the call has no other way to its base: then the time does not matter. The others are read after the
//! call, if they were read within it, or if the graph leads through a view to their base.

use pyo3::intern;
use pyo3::prelude::*;

use crate::capture::calls::call_in_progress::{CallInProgress, Edge};
use crate::capture::describe::items::Met;
use crate::capture::gradients::graph::Graph;
use crate::capture::python_objects::ask;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// The places of a call's tensor arguments.
    pub(in crate::capture) fn places(
        &self,
        py: Python<'_>,
        begun: &CallInProgress,
        met: Vec<Met>,
    ) -> PyResult<Vec<Edge>> {
        let mut stale = Vec::new();
        // Paths to a base through these are older than the call.
        let mut has_node = Vec::new();
        for (argument, met) in met.iter().enumerate().filter(|(_, met)| met.requires_grad) {
            let tensor = met.tensor.bind(py);
            match changes(tensor)? {
                Some(changes) if self.flow.is_up_to_date(&self.tensor(tensor), changes) => {
                    has_node.push(argument);
                }
                Some(changes) => stale.push((argument, changes)),
                None => {}
            }
        }
        let mut left = Vec::new();
        for &(argument, changes) in &stale {
            let tensor = met[argument].tensor.bind(py);
            let others = met.iter().enumerate().filter(|(other, _)| !has_node.contains(other));
            if begun.is_opaque() || has_relative(tensor, others.map(|(_, met)| met.tensor.bind(py)))? {
                left.push((argument, changes));
            } else {
                self.flow.note_up_to_date(&self.tensor(tensor), changes)?;
            }
        }
        let mut edges = Vec::with_capacity(met.len());
        for (argument, met) in met.into_iter().enumerate() {
            edges.push(match left.iter().find(|(left, _)| *left == argument) {
                Some(&(_, changes)) => Edge { unasked: Some(changes), ..Edge::without_place(met) },
                None => Edge::of(py, met)?,
            });
        }
        Ok(edges)
    }

    /// Reads the places that were skipped before the call, if a call within it has read them.
    pub(in crate::capture) fn look_again(&self, py: Python<'_>, begun: &mut CallInProgress) -> PyResult<()> {
        for edge in &mut begun.inputs {
            let Some(before) = edge.unasked else { continue };
            let tensor = edge.tensor.bind(py);
            if changes(tensor)? == Some(before) && self.flow.is_up_to_date(&self.tensor(tensor), before) {
                edge.ask(py)?;
            }
        }
        Ok(())
    }

    /// Reads the places of views that the graph of a call leads to: the call has read them itself. Returns whether
    /// there were any.
    pub(in crate::capture) fn look_where_used(
        &self,
        py: Python<'_>,
        begun: &mut CallInProgress,
        graph: &Graph<'_>,
    ) -> PyResult<bool> {
        let mut used = Vec::new();
        for (argument, edge) in begun.inputs.iter().enumerate() {
            let Some(before) = edge.unasked else { continue };
            let tensor = edge.tensor.bind(py);
            let others = begun.inputs.iter().map(|other| other.tensor.bind(py));
            let base = Edge::of_base(tensor)?;
            if changes(tensor)? == Some(before) && !has_relative(tensor, others)? && graph.leads_to(&base)? {
                used.push(argument);
            }
        }
        for &argument in &used {
            begun.inputs[argument].ask(py)?;
        }
        Ok(!used.is_empty())
    }

    /// Notes that there are views whose place could not be read.
    pub(in crate::capture) fn note_unasked(&self, begun: &CallInProgress) {
        // Without its number, so that there is one note for all calls of the function.
        let note = format!(
            "{} was given a view of a tensor that may have been changed since: to ask for its place in the graph \
             would change the order of sums, so its gradient is not recorded separately",
            begun.base()
        );
        self.locked(|state| state.note(note));
    }

    /// Notes that a view among a call's results has its node: the call created it, or changed it in place as an
    /// argument. If the call only returns it, nothing changes.
    pub(in crate::capture) fn note_view(
        &self,
        begun: &CallInProgress,
        view: &Bound<'_, PyAny>,
        argument: Option<usize>,
    ) -> PyResult<()> {
        if begun.is_opaque() {
            return Ok(());
        }
        let Some(changes) = changes(view)? else { return Ok(()) };
        let unasked = argument.and_then(|argument| begun.inputs[argument].unasked);
        if unasked == Some(changes) {
            return Ok(());
        }
        self.flow.note_up_to_date(&self.tensor(view), changes)
    }
}

/// How often a view and its base were changed; `None` if it is not a view or was not changed.
fn changes(tensor: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = tensor.py();
    let changes: u64 = tensor.getattr(intern!(py, "_version"))?.extract()?;
    if changes == 0 || !ask(tensor, intern!(py, "_is_view"))?.is_truthy()? {
        return Ok(None);
    }
    Ok(Some(changes))
}

/// Whether the base of a view, or another view of it, is among other tensors.
fn has_relative<'a, 'py: 'a>(
    view: &Bound<'py, PyAny>,
    others: impl Iterator<Item = &'a Bound<'py, PyAny>>,
) -> PyResult<bool> {
    let py = view.py();
    let base = view.getattr(intern!(py, "_base"))?;
    for other in others.filter(|other| !other.is(view)) {
        if other.is(&base) || other.getattr(intern!(py, "_base"))?.is(&base) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Edge {
    /// The place of a view's base, which has its node in any case.
    fn of_base(view: &Bound<'_, PyAny>) -> PyResult<Edge> {
        let base = view.getattr(intern!(view.py(), "_base"))?.unbind();
        Edge::of(
            view.py(),
            Met { tensor: base, requires_grad: true, path: String::new(), is_attribute: false },
        )
    }
}

impl Graph<'_> {
    /// Whether a node of the call leads to the place of a base: directly, or through the node of a view.
    fn leads_to(&self, base: &Edge) -> PyResult<bool> {
        let Some(place) = &base.node else { return Ok(false) };
        let next_of = |node: &Bound<'_, PyAny>| -> PyResult<Vec<(Py<PyAny>, usize)>> {
            node.getattr(intern!(node.py(), "next_functions"))?.extract()
        };
        for watched in &self.nodes {
            let py = watched.node.py();
            for (node, number) in next_of(&watched.node)? {
                if node.is(place) && number == base.number {
                    return Ok(true);
                }
                if node.is_none(py) || self.find(node.bind(py)).is_some() {
                    continue;
                }
                let views = next_of(node.bind(py))?;
                if matches!(views.as_slice(), [(node, number)] if node.is(place) && *number == base.number) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
