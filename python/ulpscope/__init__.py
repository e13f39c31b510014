"""Ulpscope: a precision debugger for deep learning.

>>> import torch, ulpscope
>>> golden = torch.linspace(0, 1, 1000)
>>> target = golden.clone()
>>> target[3] = 7
>>> ulpscope.diff(target, golden).worst_index
3
"""

from ulpscope._core import Diff, ElementDiff, FileTensor, FormatError, Stats, Unread, diff, digest, stats
from ulpscope._files import load, save

__all__ = [
    "Diff",
    "ElementDiff",
    "FileTensor",
    "FormatError",
    "Stats",
    "Unread",
    "diff",
    "digest",
    "load",
    "save",
    "stats",
]
