"""Tensors within function transforms (``torch.func``): ``vmap``, ``grad``, ``jvp``, ``functionalize``.

A transform passes wrappers without memory to its function. Each wraps one of the level below, and the
innermost is an ordinary tensor with the elements. A wrapper of ``vmap`` hides the batch dimension. The tensor
that is read has these dimensions in front, the outermost ``vmap``'s first.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

_functorch: Any = torch._C._functorch
_sync: Any = vars(torch).get("_sync", lambda _: None)


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor wraps others: those of torch.func, and of batched backward passes."""
    asks = ("is_functorch_wrapped_tensor", "is_legacy_batchedtensor")
    return any(bool(getattr(_functorch, ask, _never)(tensor)) for ask in asks)


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """The tensor with the elements of a wrapper, and how many batch dimensions it has in front.

    None for a tensor that is no wrapper, or for a wrapper that hides what it wraps.
    """
    if not getattr(_functorch, "is_functorch_wrapped_tensor", _never)(tensor):
        return None
    return _unwrapped(tensor)


def _unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    if not is_wrapped(tensor):
        return tensor, 0
    is_batched = _functorch.is_batchedtensor(tensor)
    if getattr(_functorch, "is_functionaltensor", _never)(tensor):
        # What was written to its views is applied to its elements when it is next used.
        _sync(tensor)
    elif not is_batched and not _functorch.is_gradtrackingtensor(tensor):
        return None
    found = _unwrapped(_functorch.get_unwrapped(tensor))
    if found is None or not is_batched:
        return found
    inner, batch_dims = found
    place = batch_dims + _functorch.maybe_get_bdim(tensor)
    if place != batch_dims:
        with disabled(), torch._C._DisableTorchDispatch():
            inner = inner.movedim(place, batch_dims)
    return inner, batch_dims + 1


def disabled() -> contextlib.AbstractContextManager[Any]:
    """Disables transforms inside the block."""
    guard = getattr(torch._C, "_DisableFuncTorch", None)
    return contextlib.nullcontext() if guard is None else guard()


def _never(_: torch.Tensor) -> bool:
    return False
