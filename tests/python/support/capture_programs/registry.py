"""The list of programs, and the loop that most of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Steps(Protocol):
    """What a program needs of a run."""

    def step(self) -> None:
        """The iteration is over."""


class NoSteps:
    """A run without capture."""

    def step(self) -> None:
        """Nothing to do."""


Observed = dict[str, Any]
Watch = Callable[[nn.Module | None], AbstractContextManager[Steps]]
Program = Callable[[Watch], Observed]

PROGRAMS: dict[str, Program] = {}


def unwatched(model: nn.Module | None) -> AbstractContextManager[Steps]:
    """The program without capture."""
    del model
    return nullcontext(NoSteps())


def program(function: Program) -> Program:
    """Puts a program on the list."""
    PROGRAMS[function.__name__] = function
    return function


def state(model: nn.Module) -> Observed:
    """Parameters, buffers and gradients."""
    return {
        "parameters": {name: parameter.detach().clone() for name, parameter in model.named_parameters()},
        "buffers": {name: buffer.clone() for name, buffer in model.named_buffers()},
        "gradients": {name: parameter.grad for name, parameter in model.named_parameters()},
    }


def train(
    watch: Watch,
    model: nn.Module,
    batches: Iterable[Any],
    loss_of: Callable[[Any], Tensor],
    optimizer: torch.optim.Optimizer | None = None,
) -> Observed:
    """The usual loop. Gradients are those of the last step."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with watch(model) as run:
        for batch in batches:
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
            run.step()
    return {"losses": losses, **state(model)}
