"""Tensors within function transforms (``torch.func``): ``vmap``, ``grad``, ``jvp``.

A transform hands its function wrappers, which have no memory. Each wraps one of the level below, and the
innermost is an ordinary tensor that holds the elements. A wrapper of ``vmap`` hides a dimension, that of the
batch: what is read has these dimensions in front, those of the outermost ``vmap`` first.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

_functorch: Any = torch._C._functorch


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor stands for others: those of torch.func, and of backward passes over a batch."""
    asks = ("is_functorch_wrapped_tensor", "is_legacy_batchedtensor")
    return any(bool(getattr(_functorch, ask, _never)(tensor)) for ask in asks)


def unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """The tensor that holds the elements of a wrapper, and how many dimensions of batches it has in front.

    Nothing for what is no wrapper, or one that does not tell what it wraps.
    """
    if not getattr(_functorch, "is_functorch_wrapped_tensor", _never)(tensor):
        return None
    return _unwrapped(tensor)


def _unwrapped(tensor: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    if not is_wrapped(tensor):
        return tensor, 0
    is_batched = _functorch.is_batchedtensor(tensor)
    if not is_batched and not _functorch.is_gradtrackingtensor(tensor):
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
    """No transform has a hand in what is computed within."""
    guard = getattr(torch._C, "_DisableFuncTorch", None)
    return contextlib.nullcontext() if guard is None else guard()


def _never(_: torch.Tensor) -> bool:
    return False
