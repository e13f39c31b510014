"""Hooks that are called when a parameter has its gradient, and leave nothing behind when they are removed."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

# The dictionaries of hooks that parameters have because of us, by their addresses: torch makes one with the
# first hook of a parameter, and keeps it when the last one is gone.
_made: weakref.WeakValueDictionary[int, OrderedDict[int, Any]] = weakref.WeakValueDictionary()


class ParameterHook:
    """A hook on a parameter, which it does not keep alive."""

    def __init__(self, parameter: Any, hook: Callable[[torch.Tensor], None]) -> None:
        self._parameter: weakref.ref[Any] = weakref.ref(parameter)
        has_none = parameter._post_accumulate_grad_hooks is None
        self._handle = parameter.register_post_accumulate_grad_hook(hook)
        if has_none:
            hooks = parameter._post_accumulate_grad_hooks
            _made[id(hooks)] = hooks

    def remove(self) -> None:
        """Takes the hook away, and with the last one what torch has made for the first, if that was ours."""
        self._handle.remove()
        parameter = self._parameter()
        if parameter is None:
            return
        with torch._C.DisableTorchFunction():
            hooks = parameter._post_accumulate_grad_hooks
            if hooks is not None and not hooks and _made.get(id(hooks)) is hooks:
                parameter._post_accumulate_grad_hooks = None
