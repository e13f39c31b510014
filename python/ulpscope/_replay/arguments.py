"""The arguments of a call, rebuilt from a dump.

    DumpCall ──► Rebuilt: positional and keyword arguments with tensors of torch in them, and these in order

Nothing is evaluated: tensors come from the inert reader, plain values are numbers and texts, and names of
dtypes and memory formats are looked up in closed tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._core import DumpTensor, DumpValue
from ulpscope._files import to_torch
from ulpscope._replay.drawing import drawn
from ulpscope._replay.functions import NotReplayableError

if TYPE_CHECKING:
    from ulpscope._core import DumpCall

DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
_MEMORY_FORMATS = {
    "contiguous_format": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
    "preserve_format": torch.preserve_format,
}


class UnreadableError(NotReplayableError):
    """Elements that the dump should have cannot be read."""


# A hostile dump may describe tensors of any size without their elements. They are drawn in float64: 2 GiB.
MAX_ELEMENTS = 1 << 28
# Memory of a tensor with gaps, in multiples of its elements: a slice of q, k and v in one has three.
MOST_GAPS = 4


@dataclass
class ArgumentTensor:
    """A tensor among the arguments."""

    recorded: DumpTensor
    tensor: torch.Tensor
    is_drawn: bool
    """Whether it was drawn from statistics."""

    @property
    def needs_grad(self) -> bool:
        """Whether a gradient with respect to it was or could be computed."""
        kind = self.tensor.dtype
        return self.recorded.requires_grad and (kind.is_floating_point or kind.is_complex)


class Slot:
    """The place of a tensor among the arguments, by its number."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


@dataclass
class Rebuilt:
    """The arguments of a call; tensors are `Slot`s, so that they can be filled again and again."""

    positional: list[Any] = field(default_factory=list)
    keyword: dict[str, Any] = field(default_factory=dict)
    tensors: list[ArgumentTensor] = field(default_factory=list)

    @property
    def is_drawn(self) -> bool:
        """Whether some tensor was drawn from statistics."""
        return any(given.is_drawn for given in self.tensors)

    def equals(self, other: Rebuilt) -> bool:
        """Whether another call was given the same."""
        return (
            len(self.tensors) == len(other.tensors)
            and _is_same(self.positional, other.positional)
            and _is_same(self.keyword, other.keyword)
            and all(
                one.needs_grad == two.needs_grad and same_elements(one.tensor, two.tensor)
                for one, two in zip(self.tensors, other.tensors, strict=True)
            )
        )

    def filled(
        self, tensors: list[torch.Tensor], plain: Callable[[Any], Any], index_as: type | None
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments with these tensors. ``plain`` converts other values."""

        def fill(value: Any) -> Any:
            if isinstance(value, Slot):
                return tensors[value.number]
            if isinstance(value, list):
                return [fill(item) for item in value]
            if isinstance(value, dict):
                return {name: fill(item) for name, item in value.items()}
            return plain(value)

        positional = [fill(value) for value in self.positional]
        if index_as is not None and len(positional) > 1 and isinstance(positional[1], list):
            positional[1] = index_as(positional[1])
        return positional, {name: fill(value) for name, value in self.keyword.items()}


class Rebuilder:
    """Rebuilds arguments; ``seed`` is for tensors that have only statistics."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def call(
        self, call: DumpCall, name: str, more: dict[str, dict[str, DumpTensor]] | None = None
    ) -> Rebuilt:
        """The arguments of a call. ``name`` is the call's, for drawing. ``more`` are further ones by name."""
        made = Rebuilt()
        made.positional = [
            self._value(value, f"{name}.input.{at}", made) for at, value in enumerate(call.positional)
        ]
        made.keyword = {
            key: self._value(value, f"{name}.input.{key}", made) for key, value in call.keyword.items()
        }
        for key, tensors in (more or {}).items():
            # Unlike other dictionaries, they may be empty.
            made.keyword[key] = {
                one: self._value(value, f"{name}.{one}", made) for one, value in tensors.items()
            }
        return made

    def gradients(self, recorded: list[Any], name: str) -> list[torch.Tensor | None]:
        """The gradients of results that a backward call was given."""
        made = Rebuilt()
        slots = [self._value(value, f"{name}.input.{at}", made) for at, value in enumerate(leaves(recorded))]
        return [made.tensors[slot.number].tensor if isinstance(slot, Slot) else None for slot in slots]

    def add(self, value: Any, place: str, made: Rebuilt) -> Any:
        """A value whose tensors are added to those of a call."""
        return self._value(value, place, made)

    def _value(self, value: Any, place: str, made: Rebuilt) -> Any:
        if isinstance(value, DumpTensor):
            made.tensors.append(self._tensor(value, place))
            return Slot(len(made.tensors) - 1)
        if isinstance(value, list):
            return [self._value(item, f"{place}.{at}", made) for at, item in enumerate(value)]
        if isinstance(value, dict):
            if not value:
                raise NotReplayableError(f"{place} is an argument that the tool did not describe")
            return {key: self._value(item, f"{place}.{key}", made) for key, item in value.items()}
        if isinstance(value, DumpValue):
            return _plain(value, place)
        return value

    def _tensor(self, recorded: DumpTensor, place: str) -> ArgumentTensor:
        if recorded.class_name not in ("", "torch.Tensor", "torch.nn.parameter.Parameter"):
            raise NotReplayableError(f"{place} is a {recorded.class_name}")
        if recorded.is_blank:
            raise NotReplayableError(f"{place} is uninitialised memory")
        if recorded.is_changed:
            raise NotReplayableError("an argument was recorded after the call changed it")
        found = loaded(recorded, place)
        if found is not None:
            return ArgumentTensor(recorded, laid_out(found, recorded.strides), False)
        dtype = DTYPES.get(recorded.dtype)
        if dtype is None or recorded.shape is None:
            raise NotReplayableError(f"dtype or shape of {place} are unknown")
        shape = tuple(recorded.shape)
        if math.prod(shape) > MAX_ELEMENTS:
            raise NotReplayableError(f"{place} has more than {MAX_ELEMENTS} elements, and none is recorded")
        values = drawn(recorded, dtype, shape, self._seed, place)
        return ArgumentTensor(recorded, laid_out(values, recorded.strides), True)


def laid_out(values: torch.Tensor, strides: list[int] | None) -> torch.Tensor:
    """Values at the recorded strides: some functions compute differently, or only, in some layouts.

    Repeated elements, and those with large gaps between them, as in a column of a matrix, stay as they are.
    """
    if strides is None or len(strides) != values.dim() or tuple(strides) == values.stride():
        return values
    extent = 1 + sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    if not values.numel() <= extent <= MOST_GAPS * values.numel():
        return values
    memory = torch.empty(extent, dtype=values.dtype).as_strided(values.shape, strides)
    try:
        return memory.copy_(values)
    except RuntimeError:
        # Several elements at one place.
        return values


def same_elements(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two tensors are the same for any function: elements, dtype and strides. NaN equals nothing."""
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and one.stride() == other.stride() and torch.equal(one, other)


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, Slot):
        return bool(one.number == other.number)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return bool(one == other)


def loaded(recorded: DumpTensor, place: str) -> torch.Tensor | None:
    """The elements; ``None`` if only statistics were recorded. What cannot be read is never drawn."""
    try:
        found = recorded.load()
        return None if found is None else to_torch(found)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise UnreadableError(f"{place} cannot be read: {error}") from error


def _plain(value: DumpValue, place: str) -> Any:
    kind, found = value.kind, value.value
    match kind:
        case "int" | "float" | "bool" | "str":
            return found
        case "torch.Size" if isinstance(found, list):
            return torch.Size(found)
        case "slice" if isinstance(found, list) and len(found) == 3:
            return slice(*found)
        case "ellipsis":
            return ...
        case "torch.dtype" if found in DTYPES:
            return DTYPES[found]
        case "torch.device":
            return torch.device("cpu")
        case "" if isinstance(found, dict) and found.get("type") == "torch.memory_format":
            known = _MEMORY_FORMATS.get(found.get("format", ""))
            if known is not None:
                return known
        case _ if kind.startswith(("int", "float", "uint")) and isinstance(found, int | float):
            # A scalar of numpy.
            return found
    raise NotReplayableError(f"{place} is a {kind or 'value'} that cannot be rebuilt")


def leaves(value: Any) -> Iterator[Any]:
    """What is in containers, in order; ``None`` is a leaf."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value
