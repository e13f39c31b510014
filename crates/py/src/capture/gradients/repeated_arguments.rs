//! Arguments of one call that are one and the same tensor: which part of its gradient is whose.
//!
//! The graph knows no arguments, only the place that their gradients go to, which twins have in common. A node that
//! leads there once for each of them has the edges in the order of its operands, and they are told apart. Where several
//! nodes lead there, they belong to what the function is made of, which may take its arguments in any order (`einsum`
//! swaps its operands as it likes) or several times: the first twin then has the sum of all, and says so. So it does where
//! fewer edges lead there than there are twins: the function has used one of them for all, as attention projects a key
//! that is its value, too, once.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ulpscope_capture::SharedGradient;
use ulpscope_capture::operators::{Trait, has_trait};

use crate::capture::calls::call_in_progress::{CallInProgress, Edge};
use crate::capture::gradients::graph::Graph;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Gives each of several arguments that are one tensor its own part of the gradient. Tells those for which that cannot
    /// be done, and has the ledger note it.
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
            if begun.base().strip_prefix("Functional.").is_some_and(|name| has_trait(name, Trait::KeepsOrder))
            {
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
            // Without its number, lest there be a note for each call.
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
    /// Whether the gradients of both go to one place.
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
    /// What is given to any of these arguments, as nodes and shares of theirs: in the order of operands, those of
    /// operands first.
    fn edges_to(&self, arguments: &[usize]) -> PyResult<Vec<(usize, usize)>> {
        let mut found = Vec::new();
        let mut is_met = vec![false; self.nodes.len()];
        // From the last to the first, so that the first is looked at first.
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

/// What is looked at next on the way through a graph.
enum Step {
    Node(usize),
    Share(usize, usize),
}
