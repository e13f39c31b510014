"""Calls have the names and numbers that capture gives them."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import twin_programs
import ulpscope
from captured import Captured

# Everything that is logged about a call names it.
NAMED = re.compile(r"(?:of |For |类型 )([\w.]+?\.\d+\.forward)")


def names_of(caplog: pytest.LogCaptureFixture, folder: Path, program: Callable[[Any], None]) -> list[str]:
    """The calls that a program makes, as the log of its perturbation names them."""
    caplog.clear()
    with (
        caplog.at_level(logging.INFO, "ulpscope.check"),
        ulpscope.check.perturb(folder, pert_mode="no_change") as check,
    ):

        @contextlib.contextmanager
        def tool(model: torch.nn.Module) -> Iterator[None]:
            yield
            check.step()

        program(tool)
    return [name for record in caplog.records for name in NAMED.findall(record.getMessage())]


def dumped(folder: Path, program: Callable[[Any], None]) -> list[str]:
    steps = []
    with ulpscope.capture(folder) as run:

        @contextlib.contextmanager
        def tool(model: torch.nn.Module) -> Iterator[None]:
            yield
            run.step()
            steps.append(len(steps))

        program(tool)
    return [
        name
        for step in steps
        for name, call in Captured(folder, step).calls.items()
        # Checkpointing ends a recomputation with an error, in the middle of its last call.
        if name.endswith(".forward") and "output" in call
    ]


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.mul(x, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * gradients[0]


def operators(tool: Any) -> None:
    """Operators, properties, pooling, sums in C, and a function of the program."""
    x = torch.arange(1.0, 17).reshape(4, 4).requires_grad_()
    with tool(torch.nn.Identity()):
        y = 2 * x + 1 - x / 3 + 2**x % 5
        y = sum([y, x.T, x.mT @ x]) + x.real
        y = F.max_pool2d(y[None], 2) + Squared.apply(x)[:2, :2]
        y.add_(1)
        y *= 2
        y = torch.linalg.norm(y, dim=(1, 2)) + torch.fft.fft(x).abs().sum() + torch.special.erf(x).sum()
        y.sum().backward()


@pytest.mark.parametrize("program", [operators, twin_programs.edges], ids=lambda one: one.__name__)
def test_names_and_numbers_are_those_of_a_dump(
    program: Callable[[Any], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    expected = dumped(tmp_path / "dump", program)
    torch.manual_seed(0)
    assert sorted(names_of(caplog, tmp_path / "check", program)) == sorted(expected)
    assert len(expected) > 15
