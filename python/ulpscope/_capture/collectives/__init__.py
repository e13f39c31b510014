"""Collectives and messages between processes, and the moment at which their buffers can be read."""
