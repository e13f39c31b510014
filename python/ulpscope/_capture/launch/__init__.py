"""``ulpscope run``: a script or module recorded as it is."""
