"""The comparison of the free benchmark: the largest relative change of an output, and its threshold.

    relative change = max(|a| / |b|, |b| / |a|) - 1, over all elements, both not below a floor

A change of sign above the floor is ``symbol_flipping``. Two NaN, and two equal infinities, are no change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import torch

from ulpscope.check.perturbation.changes import TINY

THRESHOLDS = {torch.float16: 0.002, torch.bfloat16: 0.004, torch.float32: 0.0002}
_OTHER_THRESHOLD = 0.0002

# Elements below this count as this large, so that the last bits of a tiny number do not decide.
_BACKWARD_FLOOR = 1e-3

# Elements that are compared at a time: temporary memory does not grow with the tensor.
_BLOCK = 1 << 22

Stage = Literal["forward", "backward"]

SIGN = math.inf
"""The change of an element that changed its sign: above every threshold."""


def threshold(dtype: torch.dtype, mode: str) -> float:
    """The largest accepted relative change of an output. A plain repetition must not change at all."""
    return 0.0 if mode == "no_change" else THRESHOLDS.get(dtype, _OTHER_THRESHOLD)


def floor(dtype: torch.dtype, stage: Stage) -> float:
    """The smallest magnitude that is told from zero."""
    return _BACKWARD_FLOOR if stage == "backward" else math.sqrt(TINY.get(dtype, TINY[torch.float32]))


class Change:
    """How much an output changed."""

    def __init__(self, relative: float, is_flipped: bool) -> None:
        self.relative = relative
        """NaN if one of the two is NaN where the other is a number."""
        self.is_flipped = is_flipped

    @property
    def text(self) -> str:
        """As in the column ``max_rel``."""
        return "symbol_flipping" if self.is_flipped else str(self.relative)

    def exceeds(self, allowed: float) -> bool:
        """Whether it is above a threshold."""
        return self.is_flipped or not self.relative <= allowed


def change_of(original: torch.Tensor, changed: torch.Tensor, stage: Stage) -> Change:
    """Compares an output with that of the second run. Both have the same shape."""
    lowest = floor(original.dtype, stage)
    wide = torch.float64 if torch.float64 in (original.dtype, changed.dtype) else torch.float32
    relative, is_flipped = 0.0, False
    for first, second in _blocks(original, changed):
        a, b = first.to(changed.device, wide), second.to(wide)
        # A number and a NaN: the larger of the two is NaN, and stays so.
        same = (a == b) | (a.isnan() & b.isnan())
        is_flipped = is_flipped or bool(((a * b < -(lowest**2)) & ~same).any())
        low, high = _ordered(a.abs().clamp(min=lowest), b.abs().clamp(min=lowest))
        found = float((high / low - 1).masked_fill_(same, 0).max())
        relative = found if math.isnan(found) or found > relative else relative
        if math.isnan(relative):
            break
    return Change(relative, is_flipped)


def agrees_with_cpu(original: torch.Tensor, on_cpu: torch.Tensor) -> bool:
    """Whether a result agrees with that of the CPU in higher precision, as preheat asks.

    Elements below 1 by their absolute, others by their relative error; the mean error must be small too.
    """
    allowed = {torch.float16: 2**-11, torch.bfloat16: 2**-8}.get(original.dtype, 2**-14)
    total, count = 0.0, 0
    for first, second in _blocks(original, on_cpu):
        a, b = first.cpu().double(), second.double()
        if not bool(b.isfinite().all()):
            return True
        error = (a - b) / b.abs().clamp(min=1)
        if not bool((error.abs() <= allowed).all()):
            return False
        total, count = total + float(error.sum()), count + error.numel()
    # In low precision the mean of few elements is as large as the error of each.
    return count == 0 or abs(total / count) <= max(1e-4, allowed / math.sqrt(count))


def _ordered(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.minimum(a, b), torch.maximum(a, b)


def _blocks(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    a, b = a.detach(), b.detach()
    if a.numel() == 0:
        return
    if a.numel() <= _BLOCK:
        yield a, b
        return
    yield from zip(a.reshape(-1).split(_BLOCK), b.reshape(-1).split(_BLOCK), strict=True)
