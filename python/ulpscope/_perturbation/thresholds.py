"""The comparison of the free benchmark: the largest relative change of an output, and its threshold.

    relative change = max(|a| / |b|, |b| / |a|) - 1, over all elements, both not below a floor

A change of sign above the floor is ``symbol_flipping``. Two NaN, and two equal infinities, are no change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import torch

from ulpscope._perturbation.changes import TINY

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
    """The smallest magnitude that is distinguished from zero."""
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


def change_of(original: torch.Tensor, changed: torch.Tensor, stage: Stage, accepted: float = 0.0) -> Change:
    """Compares an output with that of the second run. Both have the same shape.

    Elements whose change is certainly not above ``accepted`` are only bounded: that is fast.
    """
    lowest = floor(original.dtype, stage)
    wide = torch.float64 if torch.float64 in (original.dtype, changed.dtype) else torch.float32
    relative = 0.0
    for first, second in _blocks(original, changed):
        if first.dtype == second.dtype and first.device == second.device and torch.equal(first, second):
            continue
        a, b = first.to(changed.device, wide), second.to(wide)
        bounds = _bounds(a, b, lowest)
        found = float(bounds.max())
        if not found <= accepted and not _is_exact(a, b, lowest, bounds):
            if float(torch.mul(a, b).min()) < -(lowest**2):
                return Change(SIGN, is_flipped=True)
            found = _exact(a, b, lowest)
        relative = found if math.isnan(found) or found > relative else relative
        if math.isnan(relative):
            break
    return Change(relative, is_flipped=False)


def _bounds(a: torch.Tensor, b: torch.Tensor, lowest: float) -> torch.Tensor:
    """No less than the relative change of each element; at least 1 where the sign changes and that counts."""
    smaller = torch.minimum(a.abs(), b.abs()).clamp_(min=lowest)
    return torch.sub(a, b).abs_().div_(smaller)


def _is_exact(a: torch.Tensor, b: torch.Tensor, lowest: float, bounds: torch.Tensor) -> bool:
    """Whether the largest bound is the largest change: it is where no sign and no floor plays a part."""
    place = bounds.argmax()
    first, second = float(a.reshape(-1)[place]), float(b.reshape(-1)[place])
    return float(bounds.reshape(-1)[place]) < 1 and min(abs(first), abs(second)) >= lowest


def _exact(a: torch.Tensor, b: torch.Tensor, lowest: float) -> float:
    """The largest relative change: NaN for a number and a NaN, 0 for two NaN or equal infinities."""
    same = (a == b) | (a.isnan() & b.isnan())
    a, b = a.abs().clamp(min=lowest), b.abs().clamp(min=lowest)
    return float((torch.maximum(a, b) / torch.minimum(a, b) - 1).masked_fill_(same, 0).max())


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


def _blocks(a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    a, b = a.detach(), b.detach()
    if a.numel() == 0:
        return
    if a.numel() <= _BLOCK:
        yield a, b
        return
    parts = torch.split(a.reshape(-1), _BLOCK), torch.split(b.reshape(-1), _BLOCK)
    yield from zip(*parts, strict=True)
