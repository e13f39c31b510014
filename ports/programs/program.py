"""A program: a model with its batch, and the step that a user's script makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Results = dict[str, Tensor]


@dataclass
class Program:
    """What is captured."""

    model: nn.Module
    step: Callable[[bool], Results]
    """Runs one step, with its backward pass or without; returns the final results."""


def loss_of(output: Tensor, wanted: Tensor) -> Tensor:
    """Cross entropy for classes, else the mean squared error."""
    if wanted.is_floating_point():
        return F.mse_loss(output.float(), wanted)
    return F.cross_entropy(output.reshape(-1, output.shape[-1]).float(), wanted.reshape(-1))


def plain(model: nn.Module, forward: Callable[[], Tensor], wanted: Tensor | None) -> Program:
    """One forward pass, a loss, and the gradients."""

    def step(backward: bool) -> Results:
        if not backward:
            with torch.no_grad():
                return {"output": forward()}
        output = forward()
        loss = loss_of(output, wanted) if wanted is not None else output.float().square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        return {"output": output, "loss": loss}

    return Program(model, step)
