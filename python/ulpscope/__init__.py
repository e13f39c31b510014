"""Ulpscope: a precision debugger for deep learning.

>>> import torch, ulpscope
>>> golden = torch.linspace(0, 1, 1000)
>>> target = golden.clone()
>>> target[3] = 7
>>> ulpscope.diff(target, golden).worst_index
3
"""

from ulpscope._capture import PrecisionDebugger, SettingsError, capture, seed_all
from ulpscope._core import (
    Comparison,
    Diff,
    Divergence,
    ElementDiff,
    FileTensor,
    FormatError,
    Stats,
    Unread,
    compare,
    diff,
    digest,
    stats,
)
from ulpscope._diffs import Diffs
from ulpscope._files import load, save

__all__ = [
    "Comparison",
    "Diff",
    "Diffs",
    "Divergence",
    "ElementDiff",
    "FileTensor",
    "FormatError",
    "PrecisionDebugger",
    "SettingsError",
    "Stats",
    "Unread",
    "capture",
    "compare",
    "diff",
    "digest",
    "load",
    "save",
    "seed_all",
    "stats",
]
