"""The modules of a model: their names, and the gradients of their parameters."""
