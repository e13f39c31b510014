//! What is recorded of a graph while it is captured.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::captured_graphs::names::GraphNumber;
use crate::stack::CallStack;

/// What has a number in a graph.
#[derive(Debug)]
pub(super) enum Numbered {
    /// A call of a base.
    Call(Arc<str>),
    /// The gradients of a module's parameters: how many each had in the graph before.
    Gradients(String, u64),
}

/// What is recorded of a graph while it is captured.
#[derive(Debug)]
pub(crate) struct GraphLines {
    pub(super) graph: GraphNumber,
    pub(super) text: Vec<u8>,
    pub(super) stacks: BTreeMap<u64, String>,
    pub(super) numbered: Vec<Numbered>,
    gradients: HashMap<(String, u64), u64>,
    /// Calls that still grow, by name.
    pub(crate) growing: HashMap<String, u64>,
}

impl GraphLines {
    pub(crate) fn new(graph: GraphNumber) -> GraphLines {
        let (growing, gradients) = (HashMap::new(), HashMap::new());
        GraphLines {
            graph,
            text: Vec::new(),
            stacks: BTreeMap::new(),
            numbered: Vec::new(),
            gradients,
            growing,
        }
    }

    /// The number of a call.
    pub(crate) fn call(&mut self, base: &Arc<str>) -> u64 {
        self.add_numbered(Numbered::Call(Arc::clone(base)))
    }

    /// The number of the call that has the gradients of a module's parameters that have had so many.
    pub(crate) fn gradient(&mut self, base: &str, before: u64) -> u64 {
        let key = (base.to_owned(), before);
        if let Some(number) = self.gradients.get(&key) {
            return *number;
        }
        let number = self.add_numbered(Numbered::Gradients(base.to_owned(), before));
        self.gradients.insert(key, number);
        number
    }

    fn add_numbered(&mut self, numbered: Numbered) -> u64 {
        self.numbered.push(numbered);
        self.graph.first() + self.numbered.len() as u64 - 1
    }

    /// Adds lines, given in parts.
    pub(crate) fn add(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.text.extend_from_slice(part));
    }

    /// Adds a stack.
    pub(crate) fn define(&mut self, stack: &CallStack) {
        self.stacks.entry(stack.id).or_insert_with(|| stack.frames.clone());
    }
}
