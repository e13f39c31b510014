"""Hooks that are called when a parameter gets its gradient, and that leave nothing behind when removed."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

# The hook dictionaries that parameters have because of us, by their addresses: torch creates one for the
# first hook of a parameter, and keeps it after the last hook is removed.
_made: weakref.WeakValueDictionary[int, OrderedDict[int, Any]] = weakref.WeakValueDictionary()


class ParameterHook:
    """A hook on a parameter; it does not keep the parameter alive."""

    def __init__(self, parameter: Any, hook: Callable[[torch.Tensor], None]) -> None:
        self._parameter: weakref.ref[Any] = weakref.ref(parameter)
        has_none = parameter._post_accumulate_grad_hooks is None
        self._handle = parameter.register_post_accumulate_grad_hook(hook)
        if has_none:
            hooks = parameter._post_accumulate_grad_hooks
            _made[id(hooks)] = hooks

    def remove(self) -> None:
        """Removes the hook; with the last one also the dictionary that torch made for it, if we caused it."""
        self._handle.remove()
        parameter = self._parameter()
        if parameter is None:
            return
        with torch._C.DisableTorchFunction():
            hooks = parameter._post_accumulate_grad_hooks
            if hooks is not None and not hooks and _made.get(id(hooks)) is hooks:
                parameter._post_accumulate_grad_hooks = None
