"""From the name of a call to the function of torch that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from ulpscope._core import returns_blank
from ulpscope._replay import function_names as names
from ulpscope._replay.npu_functions import NPU_FUNCTIONS

# Prefixes of calls that are no single function, and why.
_NO_FUNCTION = {
    "Module": "a module: --module package:Class makes it again",
    "Cell": "a cell of MindSpore",
    "Distributed": "a collective: --collectives makes it again with the other ranks",
    "Autograd": "an autograd function of the program",
    "Triton": "a custom kernel",
    "MindSpeed": "a function of MindSpeed, which is not torch's",
}


class NotReplayableError(Exception):
    """Why a call cannot be made again."""


class ReplayFunction(NamedTuple):
    """A function that a replay may call."""

    prefix: str
    name: str
    candidates: tuple[Callable[..., Any], ...]
    """Usually one. Dumps do not tell ``torch.norm`` from ``torch.linalg.norm``."""

    @property
    def returns_its_argument(self) -> bool:
        """Whether its result is its first argument, though it returns nothing."""
        return self.name == "__setitem__"

    @property
    def is_module(self) -> bool:
        """Whether it is a module that the user named: code of the program, with many roundings."""
        return self.prefix == "Module"

    @property
    def is_of_torch(self) -> bool:
        """Whether it is the very function that was called, and no module or counterpart of ours."""
        return self.prefix not in ("Module", "NPU")

    @property
    def indexes(self) -> bool:
        """Whether its second argument is an index, in which lists and tuples differ."""
        return self.name in ("__getitem__", "__setitem__")


def function_of(base: str) -> ReplayFunction:
    """The function of a call by its name without number and direction: ``Functional.linear``."""
    prefix, _, name = base.partition(".")
    if prefix in _NO_FUNCTION:
        raise NotReplayableError(_NO_FUNCTION[prefix])
    if prefix not in _PREFIXES:
        raise NotReplayableError(f"{prefix} is no namespace of torch that is called; see docs/check.md")
    if prefix == "NPU":
        made = NPU_FUNCTIONS.get(name)
        if made is None:
            raise NotReplayableError(f"{name} has no counterpart in torch that is known here")
        return ReplayFunction(prefix, name, (made,))
    if returns_blank(name):
        raise NotReplayableError("its result is uninitialised memory")
    if not any(name in listed for listed in _lists(prefix)):
        if _draws(name):
            raise NotReplayableError("it draws random numbers")
        raise NotReplayableError(
            f"{name} is not in the table of functions that are called; see docs/check.md"
        )
    found = tuple(function for function in _found(prefix, name) if callable(function))
    if not found:
        raise NotReplayableError(f"torch {torch.__version__} has no {base}")
    return ReplayFunction(prefix, name, found)


def _draws(name: str) -> bool:
    """Whether torch says that an operator of this name draws random numbers. Nothing is called."""
    if name.startswith("_") or not name.isidentifier():
        return False
    operator: Any = getattr(torch.ops.aten, name, None)
    overloads = operator.overloads() if hasattr(operator, "overloads") else []
    return any(torch.Tag.nondeterministic_seeded in getattr(operator, one).tags for one in overloads)


_PREFIXES = ("Tensor", "Torch", "Functional", "VF", "Aten", "NPU")


def _lists(prefix: str) -> Iterator[frozenset[str]]:
    in_place = frozenset(f"{name}_" for name in names.SHARED)
    match prefix:
        case "Tensor":
            yield from (names.SHARED, in_place, names.TENSOR)
        case "Torch":
            yield from (names.SHARED, in_place, names.TORCH, names.LINALG)
        case "Functional":
            yield names.FUNCTIONAL
        case "VF":
            yield names.RECURRENT
        case "Aten":
            yield from (names.SHARED, in_place, names.TENSOR, names.TORCH, names.FUNCTIONAL)
            yield names.ATEN_BACKWARD


def _found(prefix: str, name: str) -> Iterator[Any]:
    match prefix:
        case "Tensor":
            yield getattr(torch.Tensor, name, None)
        case "Functional":
            yield getattr(nn.functional, name, None)
        case "VF":
            yield getattr(torch, name, None)
        case "Aten":
            yield getattr(torch.ops.aten, name, None)
        case "Torch":
            space, _, inner = name.rpartition(".")
            yield getattr(getattr(torch, space), inner, None) if space else getattr(torch, name, None)
            if name in names.LINALG:
                yield getattr(torch.linalg, name, None)
