//! Arguments of one call that are the same tensor: which part of its gradient belongs to which.
//!
//! The graph has no arguments, only the place that their gradients go to, and repeated arguments share one place. If
//! one node leads there once for each of them, its edges are in the order of its operands and identify them. If several
//! nodes lead there, they are parts of the function, which may use its arguments in any order (`einsum` swaps its
//! operands) or several times: then the first argument gets the sum of all, and says so. The same applies if fewer
//! edges lead there than there are arguments: the function used one of them for all, as attention projects a key that
//! is also its value only once.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ulpscope_capture::SharedGradient;
use ulpscope_dump::operators::{ApiName, Trait};

use crate::capture::calls::call_in_progress::{CallInProgress, Edge};
use crate::capture::gradients::graph::Graph;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Separates the gradient parts of arguments that are one tensor. Returns those for which that is impossible, and
    /// notes it in the ledger.
    pub(in crate::capture) fn tell_apart(
        &self,
        begun: &CallInProgress,
        graph: &mut Graph<'_>,
        parts: &mut [usize],
    ) -> PyResult<Vec<SharedGradient>> {
        let inputs = &begun.inputs;
        let mut shared: Vec<SharedGradient> = Vec::new();
        let is_left = |&argument: &usize| inputs[argument].requires_grad && parts[argument] == 0;
        let left: Vec<usize> = (0..inputs.len()).filter(is_left).collect();
        for argument in 0..inputs.len() {
            let is_told_apart = match parts[argument] {
                0 => true,
                1 => !left.iter().any(|&other| inputs[other].is_same(&inputs[argument])),
                _ => false,
            };
            if is_told_apart {
                continue;
            }
            let is_twin = |&other: &usize| inputs[other].is_same(&inputs[argument]);
            let twins: Vec<usize> = (0..inputs.len()).filter(is_twin).collect();
            let [first, others @ ..] = twins.as_slice() else { continue };
            if others.is_empty() || shared.iter().any(|(known, _)| known == first) {
                continue;
            }
            let name = ApiName::of(begun.base());
            if name.namespace == "Functional" && name.has(Trait::KeepsOrder) {
                let edges = graph.edges_to(&twins)?;
                if edges.len() == twins.len() {
                    for (&(node, share), &twin) in edges.iter().zip(&twins) {
                        graph.nodes[node].given[share].owner = twin;
                        parts[twin] = 1;
                    }
                    continue;
                }
            }
            let given = graph.nodes.iter_mut().flat_map(|watched| &mut watched.given);
            given.filter(|share| twins.contains(&share.owner)).for_each(|share| share.owner = *first);
            parts[*first] = twins.iter().map(|&twin| parts[twin]).sum();
            others.iter().for_each(|&twin| parts[twin] = 0);
            shared.push((*first, others.to_vec()));
        }
        if !shared.is_empty() {
            // Without its number, so that there is one note for all calls of the function.
            let note = format!(
                "{} was given one tensor for several arguments: the gradient of all is at the first of them",
                begun.base()
            );
            self.locked(|state| state.note(note));
        }
        Ok(shared)
    }
}

impl Edge {
    /// Whether both gradients go to the same place.
    fn is_same(&self, other: &Edge) -> bool {
        self.requires_grad
            && other.requires_grad
            && match (&self.node, &other.node) {
                (Some(own), Some(node)) => own.is(node) && self.number == other.number,
                (None, None) => self.tensor.is(&other.tensor),
                _ => false,
            }
    }
}

impl Graph<'_> {
    /// The gradients for any of these arguments, as nodes and their shares: in the order of operands, depth first.
    fn edges_to(&self, arguments: &[usize]) -> PyResult<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        let mut is_met = vec![false; self.nodes.len()];
        // In reverse, so that the first is visited first.
        let mut waiting: Vec<Step> = (0..self.nodes.len())
            .rev()
            .filter(|&node| !self.nodes[node].taken.is_empty())
            .map(Step::Node)
            .collect();
        while let Some(step) = waiting.pop() {
            let at = match step {
                Step::Share(node, share) => {
                    found.push((node, share));
                    continue;
                }
                Step::Node(at) => at,
            };
            if std::mem::replace(&mut is_met[at], true) {
                continue;
            }
            let watched = &self.nodes[at];
            let next = watched.node.getattr(intern!(watched.node.py(), "next_functions"))?;
            let mut steps = Vec::new();
            for (position, edge) in next.cast::<PyTuple>()?.iter().enumerate() {
                let share = watched.given.iter().position(|share| share.position == position);
                match share {
                    Some(share) if arguments.contains(&watched.given[share].owner) => {
                        steps.push(Step::Share(at, share));
                    }
                    Some(_) => {}
                    None => {
                        let (node, _): (Bound<'_, PyAny>, usize) = edge.extract()?;
                        steps.extend(self.find(&node).map(Step::Node));
                    }
                }
            }
            waiting.extend(steps.into_iter().rev());
        }
        Ok(found)
    }
}

/// The next item of the walk through a graph.
enum Step {
    Node(usize),
    Share(usize, usize),
}
