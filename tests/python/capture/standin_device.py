"""A device that is not the CPU, for tests: torch's PrivateUse1, written in Python.

Each tensor of ``standin`` has a tensor of the CPU behind it, on which its operations run. Copies to the host
that are not waited for lag behind, as on an accelerator: they are made when the program waits for an event,
or when a test lets the device catch up. Import this in a process of its own: torch cannot forget a device.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_leaves, tree_map

NAME = "standin"

# Operators and dtypes of results that the device lacks.
lacking: set[str | torch.dtype] = set()

# Operators for which it has no memory left.
full: set[str] = set()

_copies: deque[Callable[[], None]] = deque()
_done = 0


def catch_up(until: int | None = None) -> None:
    """Makes the copies that were not waited for."""
    global _done
    # The device does this, not the program.
    with torch._C.DisableTorchFunction():
        while _copies and (until is None or _done < until):
            _copies.popleft()()
            _done += 1


class Event:
    """A point in the work of the device."""

    def record(self, stream: Any = None) -> None:
        """After everything that was asked so far."""
        self._after = _done + len(_copies)

    def query(self) -> bool:
        """Whether the device is there."""
        return _done >= self._after

    def synchronize(self) -> None:
        """Waits for the device."""
        catch_up(self._after)


class Module(backend_registration._DummyBackendModule):  # type: ignore[misc]
    """``torch.standin``."""

    Event = Event

    def current_stream(self, device: Any = None) -> None:
        """There is only one."""


def wrapped(behind: torch.Tensor) -> torch.Tensor:
    """The tensor of the device with this one behind it."""
    tensor = torch._C._acc.create_empty_tensor(behind.shape, behind.dtype)
    tensor.behind = behind
    return tensor


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the device."""
    return wrapped(tensor.detach().clone())


def _behind(value: Any) -> Any:
    return value.behind if isinstance(value, torch.Tensor) and value.device.type == NAME else value


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    if lacking & {operator.overloadpacket.__name__, kwargs.get("dtype")}:
        raise NotImplementedError(str(operator))
    if operator.overloadpacket.__name__ in full:
        raise torch.OutOfMemoryError("the device is full")
    given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    if "device" in kwargs:
        kwargs["device"] = "cpu"
    own_args, own_kwargs = tree_map(_behind, (args, kwargs))
    found = operator(*own_args, **own_kwargs)

    def shown(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        known = [one for one in given if _behind(one) is value]
        return known[0] if known else wrapped(value)

    return tree_map(shown, found)


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    behind = _behind(source)

    def copy() -> None:
        _behind(target).copy_(behind)

    if non_blocking and target.device.type == "cpu":
        _copies.append(copy)
    else:
        copy()
    return target


backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=Module())
_all = torch.library.Library("_", "IMPL")
_all.fallback(_fallback, "PrivateUse1")
_aten = torch.library.Library("aten", "IMPL")
_aten.impl("_copy_from", _copy_from, "PrivateUse1")
_aten.impl("detach", lambda tensor: wrapped(_behind(tensor).detach()), "PrivateUse1")
