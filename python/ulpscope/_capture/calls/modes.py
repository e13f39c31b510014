"""Putting a mode on this thread's stacks, and taking it off, while those of the user stay as they are.

Whoever leaves a mode takes off the topmost. So ours lie below all of the user's, also below those that are on
already when recording starts: what is left then is theirs. Only where recording is a block (``with``) are
these left after it: ours lie above them then, and see what they make of a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import _python_dispatch as dispatch
from torch.utils._device import DeviceContext

from ulpscope._core import Recorder

# Whether torch keeps its default device at the bottom, and takes it off from there: ``set_default_device`` of
# newer releases. ``with torch.device(...)`` is left like any other mode.
_KEEPS_DEVICE_AT_BOTTOM = "_pop_mode" in DeviceContext.__exit__.__code__.co_names


class Within(NamedTuple):
    """How many modes of the user a block of recording lies within, on its thread."""

    function_modes: int = 0
    dispatch_modes: int = 0

    @classmethod
    def now(cls) -> Within:
        """Those that are on. A default device is no block: it may be set to another at any time."""
        modes = enumerate(_function_modes(), 1)
        blocks = [place for place, mode in modes if not isinstance(mode, DeviceContext)]
        return cls(max(blocks, default=0), _user_dispatch_modes())


def is_function_mode_on(mode: Any) -> bool:
    """Whether a function mode is on this thread's stack."""
    return any(other is mode for other in _function_modes())


def is_dispatch_mode_on(mode: dispatch.TorchDispatchMode) -> bool:
    """Whether a dispatch mode is on this thread's stack."""
    return any(other is mode for other in dispatch._get_current_dispatch_mode_stack())


def put_function_mode(mode: Any, within: int = 0) -> None:
    """Puts a function mode on this thread's stack, below those of the user that it is not within."""
    stack = _function_modes()
    # The attribute tells that it was entered, and not just put on the stack.
    has_device = stack and isinstance(stack[0], DeviceContext) and hasattr(stack[0], "old_device")
    below = 1 if has_device and _KEEPS_DEVICE_AT_BOTTOM else 0
    # Those of captures that were stopped on another thread: what these hand on is not as it was called.
    while below < len(stack) and isinstance(stack[below], Recorder):
        below += 1
    below = max(below, min(within, len(stack)))
    _insert_function_mode(mode, len(stack) - below)


def put_dispatch_mode(mode: dispatch.TorchDispatchMode, within: int = 0) -> None:
    """Puts a dispatch mode on this thread's stack, below those of the user that it is not within."""
    _insert_dispatch_mode(mode, max(0, _user_dispatch_modes() - within))


def take_function_mode(mode: Any) -> Callable[[], None]:
    """Takes a function mode off; returns what puts it back, on the same thread."""
    if not is_function_mode_on(mode):
        return _nothing
    above = []
    while (top := torch._C._pop_torch_function_stack()) is not mode:
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
    return lambda: _insert_function_mode(mode, len(above))


def take_dispatch_mode(mode: dispatch.TorchDispatchMode) -> Callable[[], None]:
    """Takes a dispatch mode off; returns what puts it back, on the same thread."""
    if not is_dispatch_mode_on(mode):
        return _nothing
    above = []
    while (top := dispatch._pop_mode()) is not mode:
        above.append(top)
    for other in reversed(above):
        dispatch._push_mode(other)
    return lambda: _insert_dispatch_mode(mode, len(above))


def _function_modes() -> list[Any]:
    return [torch._C._get_function_stack_at(place) for place in range(torch._C._len_torch_function_stack())]


def _user_dispatch_modes() -> int:
    # Torch's own (fake tensors, proxies) have places of their own, below all others, from 2.2 on.
    stack = dispatch._get_current_dispatch_mode_stack()
    return sum(getattr(other, "_mode_key", None) is None for other in stack)


def _insert_function_mode(mode: Any, above: int) -> None:
    others = [torch._C._pop_torch_function_stack() for _ in range(above)]
    torch._C._push_on_torch_function_stack(mode)
    for other in reversed(others):
        torch._C._push_on_torch_function_stack(other)


def _insert_dispatch_mode(mode: dispatch.TorchDispatchMode, above: int) -> None:
    # Not by entering it: torch would note for the whole process that a mode is on, and who leaves first would
    # leave that note wrong. It is for compiled regions, where ours is off.
    others = [dispatch._pop_mode() for _ in range(above)]
    dispatch._push_mode(mode)
    for other in reversed(others):
        dispatch._push_mode(other)


def _nothing() -> None:
    """There was nothing to take off."""
