"""``fix``: the program goes on with the result of the second run.

The elements are written into the original output, so it keeps its place in the autograd graph, and what the
graph saved of it for the backward pass is the new result, too.
"""

from __future__ import annotations

from typing import Any

import torch

from ulpscope._perturbation.arguments import float_outputs
from ulpscope._perturbation.second_run import CannotRepeatError


def replace(result: Any, second: Any) -> None:
    """Replaces the elements of an output. Raises if the two do not correspond."""
    originals = [tensor for _, tensor in float_outputs(result)]
    others = [tensor for _, tensor in float_outputs(second)]
    if [one.shape for one in originals] != [one.shape for one in others]:
        raise CannotRepeatError("its results have different shapes on the changed inputs")
    for original, other in zip(originals, others, strict=True):
        # Elements that share memory, as in an expanded tensor, cannot be written to one by one.
        if torch._debug_has_internal_overlap(original) != 1:
            original.data.copy_(other)
