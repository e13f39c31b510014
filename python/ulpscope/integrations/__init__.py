"""Capture in the training loops of other libraries: transformers and Lightning.

Each module imports its library, and needs it installed. Nothing here is imported by ``import ulpscope``.
"""
