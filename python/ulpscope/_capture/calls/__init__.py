"""Calls: which functions of torch are recorded, under which name, and how capture intercepts them."""
