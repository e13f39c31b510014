"""Capture in the training loops of other libraries: transformers and Lightning.

Each module needs its library installed. ``import ulpscope`` does not import these modules.
"""
