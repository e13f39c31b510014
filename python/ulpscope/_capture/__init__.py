"""Capture: recording what each call of a PyTorch program takes and gives, without changing it."""
