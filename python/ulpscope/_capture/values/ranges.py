"""How far values go: read here in one pass, or measured on their device without waiting.

A range is a number, from harmless to worst: in range, the dtype's largest, infinity, NaN.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from ulpscope._capture.values.device_range import RangeBatch, measure_range
from ulpscope._capture.values.device_statistics import measurable
from ulpscope._core import reach

IN_RANGE, AT_LIMIT, INFINITE, NAN = range(4)

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# The largest numbers of the float dtypes: a program that passes one as a scalar means it, as masks do.
_LIMITS = {torch.finfo(dtype).max for dtype in _FLOATS}

# Tensors that are remembered before all are forgotten.
_MANY = 1 << 14


class Measured:
    """A tensor on a device whose range is known when its number has arrived."""

    __slots__ = ("_batch", "_index", "_limit", "_reach")

    def __init__(self, batch: RangeBatch, index: int, dtype: torch.dtype) -> None:
        self._batch: RangeBatch | None = batch
        self._index = index
        self._limit = torch.finfo(dtype).max
        self._reach = IN_RANGE

    def reach(self, waits: bool) -> int | None:
        """How far it goes; None if that is not known yet."""
        if self._batch is not None:
            if waits:
                self._batch.wait()
            elif not self._batch.has_arrived():
                return None
            _, _, largest, _, nan, infinite, _ = self._batch.numbers()[self._index]
            at_limit = AT_LIMIT if largest >= self._limit else IN_RANGE
            self._reach, self._batch = NAN if nan else INFINITE if infinite else at_limit, None
        return self._reach


class Extent:
    """How far some values go: those that were read here, and those that devices measure."""

    __slots__ = ("here", "there")

    def __init__(self, here: int, there: list[Measured]) -> None:
        self.here = here
        self.there = there

    def reach(self, waits: bool = False) -> int | None:
        """How far they go; None if not all numbers have arrived, unless it waits for them."""
        reaches = [measured.reach(waits) for measured in self.there]
        known = [one for one in reaches if one is not None]
        return max([self.here, *known]) if len(known) == len(reaches) else None


class Ranges:
    """Measures values. What a device has measured is known until the tensor changes."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int, Measured]] = {}

    def of(self, values: Any) -> Extent:
        """How far values go, also those in lists."""
        here, elsewhere = IN_RANGE, []
        for value in _leaves(values):
            if isinstance(value, float):
                here = max(here, _of_scalar(value))
            elif value.is_floating_point() or value.is_complex():
                found = _reach_here(value)
                if found is None:
                    elsewhere.append(value)
                else:
                    here = max(here, found)
        return Extent(here, self._measured(elsewhere) if elsewhere else [])

    def _measured(self, tensors: list[torch.Tensor]) -> list[Measured]:
        found, unknown = [], []
        for tensor in tensors:
            known = self._known.get(id(tensor))
            if known is not None and known[0]() is tensor and known[1] == change_count(tensor):
                found.append(known[2])
            elif measurable(tensor) is not None:
                unknown.append(tensor)
        for device in dict.fromkeys(tensor.device for tensor in unknown):
            own = [tensor for tensor in unknown if tensor.device == device]
            batch = measure_range(own)
            for index, tensor in enumerate(own):
                found.append(Measured(batch, index, tensor.dtype))
                version = change_count(tensor)
                if version is not None:
                    if len(self._known) >= _MANY:
                        self._known.clear()
                    self._known[id(tensor)] = (weakref.ref(tensor), version, found[-1])
        return found


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments or results, also those in lists."""
    return (leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor | float):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)


def _reach_here(tensor: torch.Tensor) -> int | None:
    """How far a tensor in ordinary memory goes; None for any other."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        found = reach(tensor)
        if found is not None:
            return found
    if tensor.device.type == "meta" or tensor.layout is not torch.strided:
        return IN_RANGE
    if tensor.device.type != "cpu":
        return None
    # Classes of the program, and releases of torch without the fast way.
    found = reach(tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg())
    return _by_torch(tensor) if found is None else found


def _by_torch(tensor: torch.Tensor) -> int:
    if bool(tensor.isnan().any()):
        return NAN
    return IN_RANGE if bool(tensor.isfinite().all()) else INFINITE


def _of_scalar(value: float) -> int:
    if math.isnan(value):
        return NAN
    return INFINITE if math.isinf(value) else AT_LIMIT if abs(value) in _LIMITS else IN_RANGE


def change_count(tensor: torch.Tensor) -> int | None:
    """How often a tensor has been changed in place; None if torch does not count that."""
    try:
        return tensor._version
    except RuntimeError:
        # Torch does not count the changes of inference tensors.
        return None
