"""Wrong kernels below the recorder, for tests of replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Wrong(TorchFunctionMode):
    """Wrong kernels: what they return is changed in its memory, gradients by a hook on their node."""

    def __init__(self, forward: dict[Any, Callable[[Tensor], None]], backward: Any = None) -> None:
        super().__init__()
        self._forward, self._backward = forward, backward
        self._seen: set[Any] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = func not in self._seen
        self._seen.add(func)
        if first and func in self._forward:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                self._forward[func](result.data)
        if first and func is self._backward:
            result.grad_fn.register_hook(lambda given, _: tuple(g if g is None else g * 1.001 for g in given))
        return result
