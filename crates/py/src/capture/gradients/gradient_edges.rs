//! The places of a call's arguments in the autograd graph, looked up before the call.
//!
//! A view whose base was changed since it was made has no node of its own until somebody asks for it, and the node
//! then takes its place in torch's order: asked here, it would come before nodes that the call makes first, and
//! gradients would be summed in another order. Torch counts changes, and does not tell at which of them a view's
//! node was made. So a view is asked if nothing was changed at all, if it is known to have been asked since, or if the
//! call can come to its base by no other way: then it makes no difference when its node is made. The others are asked
//! after the call, if they were asked within it, or if the graph leads through a view to their base.

use pyo3::intern;
use pyo3::prelude::*;

use crate::capture::calls::call_in_progress::{CallInProgress, Edge};
use crate::capture::describe::items::Met;
use crate::capture::gradients::graph::Graph;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// The places of tensors that a call is given.
    pub(in crate::capture) fn places(
        &self,
        py: Python<'_>,
        begun: &CallInProgress,
        met: Vec<Met>,
    ) -> PyResult<Vec<Edge>> {
        let mut stale = Vec::new();
        // What leads to a base through these is older than the call.
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

    /// Looks up the places that were left out before the call, where a call within it has asked for them.
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

    /// Looks up the places of views that the graph of a call leads to: it has asked for them itself. Tells whether
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

    /// Notes that there are views whose place could not be asked for.
    pub(in crate::capture) fn note_unasked(&self, begun: &CallInProgress) {
        // Without its number, lest there be a note for each call.
        let note = format!(
            "{} was given a view of a tensor that may have been changed since: to ask for its place in the graph \
             would change the order of sums, so its gradient is not recorded separately",
            begun.base()
        );
        self.locked(|state| state.note(note));
    }

    /// Notes that a view among a call's results has its node: as the call has made it, or has changed it in place as an
    /// argument. Where it only hands it on, that is as it was.
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

/// How often a view and its base were changed; nothing for what is no view, or was not changed.
fn changes(tensor: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let py = tensor.py();
    let changes: u64 = tensor.getattr(intern!(py, "_version"))?.extract()?;
    if changes == 0 || !tensor.call_method0(intern!(py, "_is_view"))?.is_truthy()? {
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
    /// The place of a view's base, which has its node whatever was changed.
    fn of_base(view: &Bound<'_, PyAny>) -> PyResult<Edge> {
        let base = view.getattr(intern!(view.py(), "_base"))?.unbind();
        Edge::of(
            view.py(),
            Met { tensor: base, requires_grad: true, path: String::new(), is_attribute: false },
        )
    }
}

impl Graph<'_> {
    /// Whether a node of the call's leads to the place of a base: by itself, or by a node of a view in between.
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
