"""``ulpscope run``: records a script or module without changes to it."""
