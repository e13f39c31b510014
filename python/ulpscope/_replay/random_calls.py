"""Calls that draw random numbers, where the recorded result shows what was drawn.

``dropout`` is the only one: where its result is not zero, the element was kept. Then all else follows.
"""

from __future__ import annotations

from typing import Any

import torch

from ulpscope._replay.arguments import Rebuilt, Slot
from ulpscope._replay.execution import Outcome
from ulpscope._replay.functions import NotReplayableError, ReplayFunction

# The share of zeros may differ from the probability by this many standard deviations.
_SPREAD = 6.0


def dropout_reference(
    function: ReplayFunction,
    arguments: Rebuilt,
    recorded: torch.Tensor | None,
    gradients: list[torch.Tensor | None] | None,
    recorded_gradients: list[torch.Tensor | None],
) -> tuple[Outcome, str]:
    """What a dropout must return, given which elements it kept, and what is wrong with their number."""
    if function.name != "dropout":
        raise NotReplayableError("it draws random numbers")
    if recorded is None:
        raise NotReplayableError("it draws random numbers, and its result is not recorded")
    position = arguments.positional[0] if arguments.positional else arguments.keyword.get("input")
    if not isinstance(position, Slot):
        raise NotReplayableError("it draws random numbers")
    x = arguments.tensors[position.number].tensor.to(torch.float64)
    probability = _argument(arguments, 1, "p", 0.5)
    kept = recorded != 0
    scale = 1.0 / (1.0 - probability) if probability < 1 else 0.0
    result = torch.where(kept, x * scale, torch.zeros_like(x))
    found: list[torch.Tensor | None] = [None] * len(arguments.tensors)
    if gradients and gradients[0] is not None:
        gradient = gradients[0].to(torch.float64)
        expected = torch.where(kept, gradient * scale, torch.zeros_like(gradient))
        returned = next((one for one in recorded_gradients if one is not None), None)
        if returned is not None and returned.shape == expected.shape:
            # Where the argument is zero, only its gradient shows that it was kept.
            expected = torch.where((x == 0) & (returned != 0), gradient * scale, expected)
        found[position.number] = expected
    return Outcome([result], found), _share_of_zeros(x, kept, probability)


def _share_of_zeros(x: torch.Tensor, kept: torch.Tensor, probability: float) -> str:
    shown = int((x != 0).sum())
    dropped = int(((x != 0) & ~kept).sum())
    expected = shown * probability
    allowed = _SPREAD * (expected * (1 - probability)) ** 0.5 + 1
    if abs(dropped - expected) <= allowed:
        return ""
    return f"{dropped} of {shown} elements are dropped, where {expected:.0f} were expected"


def _argument(arguments: Rebuilt, position: int, name: str, default: float) -> float:
    value: Any = default
    if position < len(arguments.positional):
        value = arguments.positional[position]
    value = arguments.keyword.get(name, value)
    return float(value) if isinstance(value, int | float) else default
