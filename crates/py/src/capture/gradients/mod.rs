//! Backward calls: the nodes that a call added to the autograd graph, the hooks on them, and the gradients they read.

pub(super) mod backward_calls;
mod gradient_edges;
pub(super) mod graph;
pub(super) mod node_hooks;
mod parameter_gradients;
mod repeated_arguments;
mod view_parts;
