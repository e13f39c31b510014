"""The changes of the free benchmark: one function for each ``pert_mode``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ulpscope._perturbation.arguments import mapped, tensors_in
from ulpscope._perturbation.second_run import LOW_PRECISION, is_autocast_on

# What add_noise adds. Its root is the smallest element that gets it, and the floor of comparisons.
TINY = {torch.bfloat16: 1e-4, torch.float16: 1e-6, torch.float32: 1e-8, torch.float64: 1e-16}

BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


class NotChangedError(Exception):
    """Why the inputs of a call cannot be changed."""


class NoInputError(Exception):
    """A call has no input to change: neither a tensor nor a list."""


class Changed(NamedTuple):
    """Changed arguments, and how the second run treats them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    keeps_autocast: bool = True


def bit_noise(tensor: torch.Tensor) -> torch.Tensor:
    """The last bit of every element is flipped, except for zeros and subnormal numbers."""
    largest = _check_floats(tensor)
    tensor = tensor.detach().contiguous()
    is_flipped = tensor.abs() > torch.finfo(tensor.dtype).tiny
    if not math.isfinite(largest):
        is_flipped &= tensor.isfinite()
    return (tensor.view(BITS[tensor.dtype]) ^ is_flipped).view(tensor.dtype)


def add_noise(tensor: torch.Tensor) -> torch.Tensor:
    """A tiny number is added to every element that is not tiny itself."""
    _check_floats(tensor)
    tiny = TINY[tensor.dtype]
    return torch.where(tensor.abs() > tiny**0.5, tensor + tiny, tensor)


def change_value(tensor: torch.Tensor) -> torch.Tensor:
    """The first and the last element are exchanged."""
    _check_floats(tensor)
    if tensor.numel() < 2:
        raise NotChangedError("the input has a single value")
    changed = tensor.detach().clone(memory_format=torch.contiguous_format)
    flat = changed.view(-1)
    first = flat[0].clone()
    flat[0] = flat[-1]
    flat[-1] = first
    return changed


def no_change(tensor: torch.Tensor) -> torch.Tensor:
    """A copy."""
    return tensor.detach().clone()


def changed(mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Changed:
    """The arguments of a call after a change. Raises ``NotChangedError`` or ``NoInputError``."""
    if not any(isinstance(value, torch.Tensor | list | tuple | dict) for value in (*args, *kwargs.values())):
        raise NoInputError
    if mode == "improve_precision":
        return _raised(args, kwargs)
    if mode == "to_cpu":
        return _on_cpu(args, kwargs)
    return _first_changed(_OF_FIRST[mode], args, kwargs)


_OF_FIRST: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bit_noise": bit_noise,
    "add_noise": add_noise,
    "change_value": change_value,
    "no_change": no_change,
}


def _raised(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Changed:
    """Every low-precision tensor in float32. Automatic casts would undo that: they are off."""
    tensors = list(tensors_in((args, kwargs)))
    is_low = any(tensor.dtype in LOW_PRECISION for tensor in tensors)
    is_lowered = any(tensor.is_floating_point() and is_autocast_on(tensor.device.type) for tensor in tensors)
    if not is_low and not is_lowered:
        raise NotChangedError("no input has a precision that can be raised")

    def raised(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().float() if tensor.dtype in LOW_PRECISION else tensor

    return Changed(mapped(args, raised), mapped(kwargs, raised), keeps_autocast=False)


def _on_cpu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Changed:
    """Every tensor on the CPU, low precision as float32, which the CPU computes more exactly."""

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach().cpu()
        return tensor.float() if tensor.dtype in LOW_PRECISION else tensor

    def on_cpu(value: Any) -> Any:
        return torch.device("cpu") if isinstance(value, torch.device) else value

    args, kwargs = mapped(args, moved), mapped(kwargs, moved)
    if isinstance(kwargs.get("device"), str):
        kwargs = {**kwargs, "device": "cpu"}
    return Changed(
        tuple(map(on_cpu, args)),
        {name: on_cpu(value) for name, value in kwargs.items() if name != "generator"},
        keeps_autocast=False,
    )


def _first_changed(
    change: Callable[[torch.Tensor], torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Changed:
    """The first floating-point tensor is changed, as the guide has it, wherever it occurs."""
    first = next((one for one in tensors_in((args, kwargs)) if one.is_floating_point()), None)
    if first is None:
        dtypes = sorted({str(one.dtype) for one in tensors_in((args, kwargs))})
        held = f"dtype {', '.join(dtypes)} is not supported" if dtypes else "it has no tensor"
        raise NotChangedError(held)
    new = change(first)
    return Changed(
        mapped(args, lambda tensor: new if tensor is first else tensor),
        mapped(kwargs, lambda tensor: new if tensor is first else tensor),
    )


def _check_floats(tensor: torch.Tensor) -> float:
    """The largest magnitude of a tensor whose elements can be changed."""
    if tensor.dtype not in TINY:
        raise NotChangedError(f"dtype {tensor.dtype} is not supported")
    if tensor.numel() == 0:
        raise NotChangedError("the input is an empty tensor")
    # A norm with the same result takes several times as long.
    least, most = torch.aminmax(tensor.detach())
    largest = max(abs(float(least)), abs(float(most)))
    if largest < TINY[tensor.dtype]:
        raise NotChangedError("all values of the input are too small")
    return largest
