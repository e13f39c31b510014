//! Backward calls: the nodes that a call put into the autograd graph, the hooks on them, and what they see.

pub(super) mod backward_calls;
mod gradient_edges;
pub(super) mod graph;
pub(super) mod node_hooks;
mod parameter_gradients;
mod repeated_arguments;
