"""Ulpscope: a precision debugger for deep learning.

>>> import torch, ulpscope
>>> golden = torch.linspace(0, 1, 1000)
>>> target = golden.clone()
>>> target[3] = 7
>>> ulpscope.diff(target, golden).worst_index
3
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ulpscope._capture import SettingsError, capture, seed_all
from ulpscope._capture.lifecycle.estimate import Estimate
from ulpscope._capture.lifecycle.overflow_watch import Overflow, OverflowLimitError
from ulpscope._check import check
from ulpscope._core import (
    Comparison,
    Diff,
    Divergence,
    ElementDiff,
    FileTensor,
    FormatError,
    Region,
    RegionCall,
    Stats,
    Unread,
    __version__,
    compare,
    diff,
    digest,
    stats,
)
from ulpscope._debugger import PrecisionDebugger
from ulpscope._diffs import Diffs
from ulpscope._files import load, save
from ulpscope._replay.results import CheckedCall, CheckedTensor, CheckResult

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.capture import Capture as Capture
    from ulpscope._perturbation.findings import Finding as Finding
    from ulpscope._perturbation.perturbation import Perturbation as Perturbation
    from ulpscope._perturbation.significance import CallGain as CallGain
    from ulpscope._perturbation.significance import EntryBits as EntryBits
    from ulpscope._perturbation.significance import SignificantBits as SignificantBits

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
    "Overflow",
    "OverflowLimitError",
    "PrecisionDebugger",
    "Region",
    "RegionCall",
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

# Classes that need torch, which reading files does not; each is loaded on first use.
_WITH_TORCH = {
    "CallGain": "ulpscope._perturbation.significance",
    "Capture": "ulpscope._capture.lifecycle.capture",
    "EntryBits": "ulpscope._perturbation.significance",
    "Finding": "ulpscope._perturbation.findings",
    "Perturbation": "ulpscope._perturbation.perturbation",
    "SignificantBits": "ulpscope._perturbation.significance",
}


def __dir__() -> list[str]:
    return [*__all__, *_WITH_TORCH]


def __getattr__(name: str) -> Any:
    if name in _WITH_TORCH:
        return getattr(import_module(_WITH_TORCH[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
