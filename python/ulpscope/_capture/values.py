"""How an unusual argument or result reads in a dump."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any

import torch

from ulpscope._capture.collectives import Received
from ulpscope._core import stats


def describe(value: Any) -> Any:
    """JSON text (a ``str``), something to describe in its place, or nothing where there is nothing to say."""
    if value is ...:
        return '{"type":"ellipsis","value":"..."}'
    if isinstance(value, slice):
        return _typed("slice", [_plain(part) for part in (value.start, value.stop, value.step)])
    if isinstance(value, torch.dtype):
        return _typed("torch.dtype", str(value))
    if isinstance(value, torch.device):
        return _typed("torch.device", f"{value.type}:{value.index}")
    if isinstance(value, torch.memory_format):
        return json.dumps({"type": "torch.memory_format", "format": str(value).removeprefix("torch.")})
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)
        if fields and len(fields) == len(value):
            return dict(zip(fields, value, strict=True))
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return _typed(kind.__name__, kind(value))
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return _typed("str", str(value))
    if type(value).__module__ == "numpy":
        return _numpy(value)
    if torch.distributed.is_available():
        return _distributed(value)
    return None


def _typed(kind: str, value: Any) -> str:
    return json.dumps({"type": kind, "value": value})


def _plain(value: Any) -> Any:
    """A part of a slice: a number, or a tensor that stands for one."""
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
    """The numbers of an array, measured as those of tensors are."""
    try:
        found = stats(array)
    except (TypeError, ValueError):
        # Texts, objects, dates.
        return dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    norm = found.norm if array.size else None
    numbers = {"Max": found.max, "Min": found.min, "Mean": found.mean, "Norm": norm}
    infinite = found.pos_inf + found.neg_inf
    if found.nan or infinite:
        numbers |= {"nan": found.nan, "inf": infinite}
        numbers |= {"finite_max": found.finite_max, "finite_min": found.finite_min}
    return numbers


def _distributed(value: Any) -> Any:
    dist = torch.distributed
    if isinstance(value, dist.ProcessGroup):
        ranks, group = _ranks_and_id(value)
        return json.dumps({"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group})
    if isinstance(value, dist.ReduceOp | dist.ReduceOp.RedOpType):
        return _typed("torch.distributed.ReduceOp", str(value))
    if isinstance(value, dist.P2POp):
        return _message(value, value.tensor)
    if isinstance(value, Received):
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
    """The ranks of a group, and the older tool's way of telling groups apart."""
    ranks = torch.distributed.get_process_group_ranks(group)
    return ranks, f"{zlib.crc32(str(ranks).encode()):08x}"
