"""Values: how arguments, results and tensors are read, and how they are described in a dump."""
