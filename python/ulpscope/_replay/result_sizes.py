"""How large the results of a call will be, before it is made: the numbers come from a file.

    name, arguments ──► a bound from the shapes ──► else from the values ──► else torch's own shape functions

Those of torch come last: the first use of some imports torch's compiler, which takes longer than most
comparisons.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

from ulpscope._replay.arguments import leaves
from ulpscope._replay.function_names import NO_LARGER
from ulpscope._replay.functions import NotReplayableError

# The most bytes that the results of one call may take.
MAX_RESULT_BYTES = 16 << 30
# The most elements of a result whose size is only bounded, or decided by an element of an argument.
MAX_COUNTED = 1 << 28

# Their results take as much memory as an element says, whatever the shapes are.
_SIZED_BY_VALUES = frozenset(("one_hot", "bincount", "repeat_interleave"))
_PRODUCTS = frozenset(("matmul", "mm", "bmm", "addmm", "baddbmm", "__matmul__", "__rmatmul__"))
_OTHER_OPERATORS = frozenset(("__getitem__", "__setitem__"))


def check_size(name: str, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """Refuses a call whose results would not fit into memory."""
    given = list(leaves([args, list(kwargs.values())]))
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    if name in _SIZED_BY_VALUES:
        _check_values(name, given, tensors)
        return
    bound = _bound(name, tensors)
    if bound is not None and bound <= MAX_COUNTED:
        return
    try:
        with torch.no_grad(), torch.device("meta"):
            on_meta = [_on_meta(value) for value in args]
            result = function(*on_meta, **{key: _on_meta(value) for key, value in kwargs.items()})
    except Exception:
        # Not every function says its shapes without computing; these follow from its arguments.
        return
    size = sum(one.numel() * one.element_size() for one in leaves(result) if isinstance(one, torch.Tensor))
    if size > MAX_RESULT_BYTES:
        raise NotReplayableError(f"its results would take {size} bytes")


def _check_values(name: str, given: list[Any], tensors: list[torch.Tensor]) -> None:
    elements = max((value.numel() for value in tensors), default=0)
    for value in given:
        is_count = isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and value.numel()
        size = value.abs().max().item() if is_count else value
        # Every element is repeated or spread that often; a histogram has only as many elements.
        total = size if name == "bincount" or not isinstance(size, int) else size * elements
        if isinstance(total, int) and total > MAX_COUNTED:
            raise NotReplayableError(f"its result would have up to {total} elements")


def _bound(name: str, tensors: list[torch.Tensor]) -> int | None:
    """The most elements that a result can have, as far as the shapes of the arguments say that."""
    try:
        if name == "linear" and len(tensors) > 1:
            return _product(tensors[0], tensors[1].transpose(0, -1))
        if name in _PRODUCTS and len(tensors) > 1:
            return _product(*tensors[-2:])
        if name == "embedding" and len(tensors) == 2:
            return min(one.numel() for one in tensors) * max(one.shape[-1] for one in tensors if one.dim())
        if name == "scaled_dot_product_attention" and len(tensors) > 2:
            query, key, value = tensors[:3]
            # With the scores, which some kernels keep.
            return _product(query, key.transpose(-1, -2)) + _product(query, value)
        if _is_elementwise(name):
            return _broadcast(*(one.shape for one in tensors))
    except (RuntimeError, IndexError):
        # Too few dimensions: the call will say so.
        return None
    if name not in NO_LARGER:
        return None
    # Losses combine their arguments, too.
    return max(sum(one.numel() for one in tensors), _broadcast(*(one.shape for one in tensors)))


def _product(one: torch.Tensor, other: torch.Tensor) -> int:
    """The elements of a matrix product; of one with a wrong inner size, those that it would have."""
    rows = one.shape[-2] if one.dim() > 1 else 1
    columns = other.shape[-1] if other.dim() > 1 else 1
    return _broadcast(one.shape[:-2], other.shape[:-2]) * rows * columns


def _broadcast(*shapes: torch.Size) -> int:
    """The elements of tensors that are combined. Torch's own function imports its compiler."""
    return math.prod(max(sizes) for sizes in itertools.zip_longest(*map(reversed, shapes), fillvalue=1))


def _is_elementwise(name: str) -> bool:
    """Whether torch computes each element of the result from one of each argument."""
    if name.startswith("__"):
        return name not in _OTHER_OPERATORS
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    tag = getattr(torch.Tag, "pointwise", None)
    overloads = [] if packet is None or tag is None else packet.overloads()
    return any(tag in getattr(packet, overload).tags for overload in overloads)


def _on_meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, list | tuple):
        return type(value)(_on_meta(item) for item in value)
    return value
