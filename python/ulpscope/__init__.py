"""Ulpscope: a precision debugger for deep learning.

>>> import torch, ulpscope
>>> golden = torch.linspace(0, 1, 1000)
>>> target = golden.clone()
>>> target[3] = 7
>>> ulpscope.diff(target, golden).worst_index
3
"""

from typing import TYPE_CHECKING, Any

from ulpscope import check as check
from ulpscope._capture import PrecisionDebugger, SettingsError, capture, seed_all
from ulpscope._capture.lifecycle.estimate import Estimate
from ulpscope._check import check
from ulpscope._check.results import CheckedCall, CheckedTensor, CheckResult
from ulpscope._core import (
    Comparison,
    Diff,
    Divergence,
    ElementDiff,
    FileTensor,
    FormatError,
    Stats,
    Unread,
    __version__,
    compare,
    diff,
    digest,
    stats,
)
from ulpscope._diffs import Diffs
from ulpscope._files import load, save

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.capture import Capture as Capture

__all__ = [
    "CheckResult",
    "CheckedCall",
    "CheckedTensor",
    "Comparison",
    "Diff",
    "Diffs",
    "Divergence",
    "ElementDiff",
    "Estimate",
    "FileTensor",
    "FormatError",
    "PrecisionDebugger",
    "SettingsError",
    "Stats",
    "Unread",
    "__version__",
    "capture",
    "check",
    "compare",
    "diff",
    "digest",
    "load",
    "save",
    "seed_all",
    "stats",
]


def __dir__() -> list[str]:
    return [*__all__, "Capture"]


def __getattr__(name: str) -> Any:
    """Loads ``ulpscope.Capture`` on first use: it needs torch, and reading files does not."""
    if name == "Capture":
        from ulpscope._capture.lifecycle.capture import Capture

        return Capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
