"""Collectives and messages between processes, and the time when their buffers can be read."""
