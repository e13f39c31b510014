"""The tensors among the arguments and results of a call, in containers too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ulpscope._capture.values.transforms import is_wrapped

_PLAIN = (torch.Tensor, torch.nn.Parameter)

# Deeper containers are left as they are.
_MAX_DEPTH = 8


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors of a value, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < _MAX_DEPTH:
        if isinstance(value, tuple | list):
            for item in value:
                yield from tensors_in(item, depth + 1)
        elif isinstance(value, dict):
            for item in value.values():
                yield from tensors_in(item, depth + 1)


def mapped(value: Any, change: Callable[[torch.Tensor], torch.Tensor], depth: int = 0) -> Any:
    """The value with its tensors replaced; a container without any stays the same object."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if depth >= _MAX_DEPTH or not isinstance(value, tuple | list | dict):
        return value
    if isinstance(value, dict):
        changed = {key: mapped(item, change, depth + 1) for key, item in value.items()}
        same = all(changed[key] is value[key] for key in value)
        return value if same else changed
    items = [mapped(item, change, depth + 1) for item in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    if isinstance(value, list):
        return items
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has elements in memory that can be copied and changed like an array."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not tensor.is_quantized
        and not is_wrapped(tensor)
    )


def float_outputs(value: Any) -> list[tuple[int | None, torch.Tensor]]:
    """The floating-point tensors of a result, with the position of each in a list or tuple."""
    if isinstance(value, torch.Tensor):
        return [(None, value)] if value.is_floating_point() and is_plain(value) else []
    items: Any = value.values() if isinstance(value, dict) else value
    if not isinstance(items, tuple | list) and not isinstance(value, dict):
        return []
    return [
        (index, tensor)
        for index, item in enumerate(items)
        for tensor in tensors_in(item)
        if tensor.is_floating_point() and is_plain(tensor)
    ]
