"""The benign changes by name: other ways to the same numbers, which are nobody's fault.

A golden run under one of them against a target without it is a pair of which nothing is to be said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from faults.models import MODELS, Program


def _nothing(program: Program) -> None:
    pass


@dataclass(frozen=True)
class Benign:
    """What is done to a program before it runs, and what is around its run."""

    name: str
    prepare: Callable[[Program], None] = _nothing
    around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
    models: tuple[str, ...] = MODELS


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Has kernels run on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _ulps(program: Program) -> None:
    """Moves every parameter to one of its neighbours."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in program.model.parameters():
            up = torch.rand(parameter.shape, generator=generator) < 0.5
            towards = torch.where(up, torch.inf, -torch.inf)
            parameter.copy_(torch.nextafter(parameter, towards))


# No change at all, and the smallest that there is, by which the floor of rounding is measured.
PLAIN = Benign("plain")
ULPS = Benign("ulps", _ulps)

BENIGN: dict[str, Benign] = {
    benign.name: benign
    for benign in (
        Benign("fp64", lambda program: program.to(torch.float64)),
        Benign("bf16", lambda program: program.to(torch.bfloat16)),
        Benign("threads", around=lambda: threads(2)),
    )
}
