"""Calls: which functions of torch are recorded, under which name, and how each of them is seen."""
