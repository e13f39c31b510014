"""When and where a run records: start and stop, steps, ranks, folders, and what is installed meanwhile."""
