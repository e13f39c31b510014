"""The calls of a rank, each forward call with its backward call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ulpscope._core import DumpTensor
from ulpscope._replay.function_names import AUTOCAST

if TYPE_CHECKING:
    from ulpscope._core import DumpRank

_HALVES = ("torch.bfloat16", "torch.float16")


@dataclass(frozen=True)
class RecordedCall:
    """A call of a dump, by the numbers of its two directions."""

    name: str
    """``Functional.linear.0``; for a module ``Module.fc.Linear.0``."""
    base: str
    """``Functional.linear``"""
    forward: int
    backward: int | None

    @property
    def is_module(self) -> bool:
        """Whether it is the call of a module, which is made of other calls."""
        return self.base.startswith(("Module.", "Cell."))

    @property
    def is_collective(self) -> bool:
        """Whether it is a collective or a message, which depends on other ranks."""
        return self.base.startswith("Distributed.")

    @property
    def api(self) -> str:
        """``linear``"""
        return self.base.rpartition(".")[2]


def calls_of(rank: DumpRank) -> Iterator[RecordedCall]:
    """The forward calls of a rank, in order."""
    names = rank.calls()
    numbers = {name: number for number, name in enumerate(names)}
    for number, name in enumerate(names):
        front, _, last = name.rpartition(".")
        if last == "forward":
            # Functional.linear.0.forward
            yield RecordedCall(front, front.rpartition(".")[0], number, numbers.get(f"{front}.backward"))
        elif front.endswith(".forward") and last.isdigit():
            # Module.fc.Linear.forward.0
            base = front.removesuffix(".forward")
            yield RecordedCall(f"{base}.{last}", base, number, numbers.get(f"{base}.backward.{last}"))


@dataclass(frozen=True)
class Autocast:
    """What autocast did in a run."""

    dtype: str
    """``torch.bfloat16``"""
    shared: frozenset[str]
    """Parameters that several calls use: their copy is made once, so the first call has all gradients."""


def autocast_of(rank: DumpRank) -> Autocast | None:
    """What autocast did, if a contraction of float32 has a result in a half; ``None`` if none has."""
    dtype = None
    uses: Counter[str] = Counter()
    for found in calls_of(rank):
        if found.api not in AUTOCAST and not found.is_module:
            continue
        call = rank.call(found.forward)
        if call is None:
            return None
        given = [one for one in [*call.positional, *call.parameters.values()] if isinstance(one, DumpTensor)]
        made = {one.dtype for one in call.results if isinstance(one, DumpTensor)}
        if not found.is_module:
            uses.update({one.source for one in given if one.source is not None and ":" in one.source})
        if {one.dtype for one in given} == {"torch.float32"} and len(made) == 1:
            dtype = dtype or next((half for half in _HALVES if half in made), None)
    shared = frozenset(source for source, count in uses.items() if count > 1)
    return None if dtype is None else Autocast(dtype, shared)


def has_apis(rank: DumpRank) -> bool:
    """Whether calls of APIs were recorded, and not modules alone."""
    return any(not found.is_module for found in calls_of(rank))
