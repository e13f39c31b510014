"""Taking a mode off this thread's stacks and putting it back, while those of the user above it stay.

Whoever leaves a mode takes off the topmost: were ours put back on top of theirs, they would take off ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _python_dispatch as dispatch


def is_function_mode_on(mode: Any) -> bool:
    """Whether a function mode is on this thread's stack."""
    stack = range(torch._C._len_torch_function_stack())
    return any(torch._C._get_function_stack_at(position) is mode for position in stack)


def is_dispatch_mode_on(mode: dispatch.TorchDispatchMode) -> bool:
    """Whether a dispatch mode is on this thread's stack."""
    return any(other is mode for other in dispatch._get_current_dispatch_mode_stack())


def take_function_mode(mode: Any) -> Callable[[], None]:
    """Takes a function mode off; returns what puts it back, on the same thread."""
    if not is_function_mode_on(mode):
        return _nothing
    above = []
    while (top := torch._C._pop_torch_function_stack()) is not mode:
        above.append(top)
    for other in reversed(above):
        torch._C._push_on_torch_function_stack(other)

    def put_back() -> None:
        others = [torch._C._pop_torch_function_stack() for _ in above]
        torch._C._push_on_torch_function_stack(mode)
        for other in reversed(others):
            torch._C._push_on_torch_function_stack(other)

    return put_back


def take_dispatch_mode(mode: dispatch.TorchDispatchMode) -> Callable[[], None]:
    """Takes a dispatch mode off; returns what puts it back, on the same thread."""
    if not is_dispatch_mode_on(mode):
        return _nothing
    # Torch's own modes (fake tensors, proxies) come first, wherever they were entered, from 2.2 on.
    count = torch._C._len_torch_dispatch_stack()
    own = [torch._C._get_dispatch_stack_at(position) for position in range(count)]
    above = count - 1 - next(position for position, other in enumerate(own) if other is mode)
    others = [torch._C._pop_torch_dispatch_stack() for _ in range(above)]
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    for other in reversed(others):
        torch._C._push_on_torch_dispatch_stack(other)

    def put_back() -> None:
        others = [torch._C._pop_torch_dispatch_stack() for _ in range(above)]
        mode.__enter__()  # type: ignore[no-untyped-call]
        for other in reversed(others):
            torch._C._push_on_torch_dispatch_stack(other)

    return put_back


def _nothing() -> None:
    """There was nothing to take off."""
