"""Puts a mode on this thread's stacks and takes it off, without disturbing the user's modes.

Leaving a mode removes the topmost one. So our modes are below all of the user's, including those that are
already on when recording starts. If recording is a block (``with``), those outlive it: then our modes are
above them, and see the calls as these modes pass them on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils import _python_dispatch as dispatch
from torch.utils._device import DeviceContext

from ulpscope._core import Recorder

# Whether torch keeps its default device at the bottom of the stack and removes it from there, as
# ``set_default_device`` of newer releases does. ``with torch.device(...)`` is left like any other mode.
_KEEPS_DEVICE_AT_BOTTOM = "_pop_mode" in DeviceContext.__exit__.__code__.co_names


class Within(NamedTuple):
    """How many of the user's modes enclose a recording block, on its thread."""

    function_modes: int = 0
    dispatch_modes: int = 0

    @classmethod
    def now(cls) -> Within:
        """The modes that are on. A default device does not count: it may be changed at any time."""
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
    """Puts a function mode on this thread's stack, below the user's modes that do not enclose it."""
    stack = _function_modes()
    # The attribute shows that the mode was entered, not only put on the stack.
    has_device = stack and isinstance(stack[0], DeviceContext) and hasattr(stack[0], "old_device")
    below = 1 if has_device and _KEEPS_DEVICE_AT_BOTTOM else 0
    # Modes left by captures that were stopped on another thread: they may pass on changed calls.
    while below < len(stack) and isinstance(stack[below], Recorder):
        below += 1
    below = max(below, min(within, len(stack)))
    _insert_function_mode(mode, len(stack) - below)


def put_dispatch_mode(mode: dispatch.TorchDispatchMode, within: int = 0) -> None:
    """Puts a dispatch mode on this thread's stack, below the user's modes that do not enclose it."""
    _insert_dispatch_mode(mode, max(0, _user_dispatch_modes() - within))


def take_function_mode(mode: Any) -> Callable[[], None]:
    """Takes a function mode off; returns a function that puts it back, on the same thread."""
    if not is_function_mode_on(mode):
        return _nothing
    above = []
    while (top := torch._C._pop_torch_function_stack()) is not mode:
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)
    return lambda: _insert_function_mode(mode, len(above))


def take_dispatch_mode(mode: dispatch.TorchDispatchMode) -> Callable[[], None]:
    """Takes a dispatch mode off; returns a function that puts it back, on the same thread."""
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
    # From 2.2 on, torch's own modes (fake tensors, proxies) have separate slots below all others.
    stack = dispatch._get_current_dispatch_mode_stack()
    return sum(getattr(other, "_mode_key", None) is None for other in stack)


def _insert_function_mode(mode: Any, above: int) -> None:
    others = [torch._C._pop_torch_function_stack() for _ in range(above)]
    torch._C._push_on_torch_function_stack(mode)
    for other in reversed(others):
        torch._C._push_on_torch_function_stack(other)


def _insert_dispatch_mode(mode: dispatch.TorchDispatchMode, above: int) -> None:
    # The mode is not entered: torch would set a process-wide flag, and the first to leave would reset it too
    # early. Only compiled regions read the flag, and our mode is off there.
    others = [dispatch._pop_mode() for _ in range(above)]
    dispatch._push_mode(mode)
    for other in reversed(others):
        dispatch._push_mode(other)


def _nothing() -> None:
    """There was nothing to take off."""
