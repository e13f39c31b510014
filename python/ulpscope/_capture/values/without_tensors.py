"""Classes whose objects hold no tensors of a call, or only a model's, which are recorded separately."""

from __future__ import annotations

import enum
import types

import torch

_CLASSES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    enum.Enum,
    types.ModuleType,
    torch.dtype,
    torch.device,
    torch.Size,
    torch.Generator,
    torch.layout,
    torch.memory_format,
    torch.qscheme,
    torch.finfo,
    torch.iinfo,
    torch.Stream,
    torch._C.DispatchKeySet,
)

# Classes of torch for processes and devices.
_MACHINERY = ("torch._C", "torch.distributed")


def holds_no_tensors(kind: type) -> bool:
    """Whether objects of a class need not be searched.

    That includes everything callable: functions, and modules of a model.
    """
    if issubclass(kind, _CLASSES) or has(kind, "__call__"):
        return True
    module = str(kind.__module__)
    if module.partition(".")[0] == "numpy":
        return True
    return module.startswith(_MACHINERY) and not _is_message(kind)


def has(kind: type, name: str) -> bool:
    """Whether a class or one of its bases defines a name."""
    return any(name in vars(base) for base in kind.__mro__)


def _is_message(kind: type) -> bool:
    """Whether it is a message between processes, which holds the tensor to send."""
    return torch.distributed.is_available() and issubclass(kind, torch.distributed.P2POp)
