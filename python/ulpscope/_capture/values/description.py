"""Describes unusual arguments and results for a dump."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import zlib
from collections import OrderedDict, UserDict
from collections.abc import Callable
from typing import Any

import torch

from ulpscope._capture.collectives.collective_calls import Received
from ulpscope._capture.values.attributes import Attributes
from ulpscope._capture.values.without_tensors import holds_no_tensors
from ulpscope._core import Stats, recorded_statistics, stats

# The methods by which a container gives its items.
_ITERATION = ("__iter__", "__len__", "keys", "items")

Described = str | dict[Any, Any] | list[Any] | None


def describe(value: Any) -> Described | tuple[Described, list[str]]:
    """JSON text (a ``str``), a value to describe instead, or None if there is nothing to say.

    For other objects: the attributes that contain tensors, with notes for the ledger if some may be missed.
    Only stored contents of the program's own values are read: nothing is computed, drawn or loaded.
    """
    kind = type(value)
    if value is ...:
        return '{"type":"ellipsis","value":"..."}'
    if kind is slice:
        return _typed("slice", [_plain(part) for part in (value.start, value.stop, value.step)])
    if kind is torch.dtype:
        return _typed("torch.dtype", str(value))
    if kind is torch.device:
        return _typed("torch.device", f"{value.type}:{value.index}")
    if kind is torch.memory_format:
        return json.dumps({"type": "torch.memory_format", "format": str(value).removeprefix("torch.")})
    if issubclass(kind, tuple | list):
        items = _items(value, kind)
        fields = getattr(kind, "_fields", None)
        if fields and len(fields) == len(items):
            return dict(zip(fields, items, strict=True))
        return items
    if issubclass(kind, dict):
        return _pairs(value, kind)
    if issubclass(kind, UserDict):
        return dict(_held(value).get("data", {}))
    if dataclasses.is_dataclass(kind):
        return _fields(value, kind)
    for plain, read in _PLAIN.items():
        if issubclass(kind, plain):
            return _typed(plain.__name__, read(value))
    if issubclass(kind, torch.SymInt | torch.SymFloat | torch.SymBool):
        return _typed("str", str(value))
    if kind.__module__ == "numpy":
        return _numpy(value)
    if torch.distributed.is_available() and (known := _distributed(value)) is not None:
        return known
    if holds_no_tensors(kind):
        return None
    look = Attributes()
    return look.of(value), look.notes


# Subclasses of numbers and texts, without their overrides.
_PLAIN: dict[type, Callable[[Any], Any]] = {
    bool: bool,
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
}


def _items(value: Any, kind: type) -> list[Any]:
    """The items of a list or tuple; uses its own iteration if it defines one."""
    base = list if issubclass(kind, list) else tuple
    if _walks_by_itself(kind, base):
        return list(value)
    return list(base.__iter__(value))


def _pairs(value: Any, kind: type) -> dict[Any, Any]:
    """The items of a dictionary; uses its own iteration if it defines one."""
    base: type[dict[Any, Any]] = OrderedDict if issubclass(kind, OrderedDict) else dict
    if _walks_by_itself(kind, base):
        return dict(value)
    return dict(base.items(value))


def _walks_by_itself(kind: type, base: type) -> bool:
    return any(getattr(kind, name, None) is not getattr(base, name, None) for name in _ITERATION)


def _fields(value: Any, kind: type) -> dict[str, Any]:
    """The stored fields of a dataclass; properties are not computed."""
    names = [field.name for field in dataclasses.fields(kind)]
    if inspect.getattr_static(kind, "__getattribute__") is not vars(object)["__getattribute__"]:
        return {name: getattr(value, name) for name in names}
    held = _held(value)
    fields = {}
    for name in names:
        slot = inspect.getattr_static(kind, name, None)
        if name in held:
            fields[name] = held[name]
        elif inspect.ismemberdescriptor(slot):
            with contextlib.suppress(AttributeError):
                fields[name] = slot.__get__(value)
    return fields


def _held(value: Any) -> dict[str, Any]:
    """The attributes stored in an object itself."""
    held = getattr(value, "__dict__", None)
    return held if type(held) is dict else {}


def _typed(kind: str, value: Any) -> str:
    return json.dumps({"type": kind, "value": value})


def _plain(value: Any) -> Any:
    """A part of a slice: a number, or a tensor used as one."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(type(value).__name__)


def _numpy(value: Any) -> str | None:
    import numpy as np

    if isinstance(value, np.ndarray):
        head = {"type": "numpy.ndarray", "dtype": str(value.dtype), "shape": list(value.shape)}
        return json.dumps(head | _numbers(value))
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        return _typed(str(value.dtype), value.item())
    return None


def _numbers(array: Any) -> dict[str, Any]:
    """The statistics of an array, computed as for tensors."""
    found: Stats | None
    try:
        found = stats(array)
    except (TypeError, ValueError):
        # Texts, objects, dates.
        found = None
    return recorded_statistics(found)


def _distributed(value: Any) -> Described:
    dist = torch.distributed
    kind = type(value)
    if issubclass(kind, dist.ProcessGroup):
        ranks, group = _ranks_and_id(value)
        return json.dumps({"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group})
    if issubclass(kind, dist.ReduceOp | dist.ReduceOp.RedOpType):
        return _typed("torch.distributed.ReduceOp", str(value))
    if issubclass(kind, dist.P2POp):
        return _message(value, value.tensor)
    if issubclass(kind, Received):
        return _message(value.operation, None)
    return None


def _message(message: Any, tensor: torch.Tensor | None) -> dict[str, Any]:
    group = message.group or torch.distributed.distributed_c10d._get_default_group()
    return {
        "class_type": "torch.distributed.P2POp",
        "tensor": tensor,
        "op": message.op.__name__,
        "peer": message.peer,
        "tag": message.tag,
        "group_id": _ranks_and_id(group)[1],
    }


def _ranks_and_id(group: torch.distributed.ProcessGroup) -> tuple[list[int], str]:
    """The ranks of a group, and its id in the form of the older tool."""
    ranks = torch.distributed.get_process_group_ranks(group)
    return ranks, f"{zlib.crc32(str(ranks).encode()):08x}"
