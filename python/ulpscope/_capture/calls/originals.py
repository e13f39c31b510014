"""The originals of torch functions that a program has replaced with its own.

A torch function reports itself to modes under its public name, which is now the program's function. Calling
that would repeat the program's own work, which is already running. So we look up the function that really
runs: a Python function by its frame, a C function where torch keeps the methods of tensors.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

_TORCH = str(Path(torch.overrides.__file__).parent)
_HERE = str(Path(__file__).parents[1])
_TOLD_BY = torch.overrides.handle_torch_function.__code__
_TENSOR_BASE = torch.Tensor.__mro__[1]

_by_code: dict[CodeType, FunctionType] = {}


def is_of_program(function: Any) -> bool:
    """Whether a function is neither torch's nor built in."""
    if isinstance(function, FunctionType):
        return not function.__code__.co_filename.startswith(_TORCH)
    return type(function).__module__.partition(".")[0] not in ("builtins", "torch")


def original(function: Any) -> Any:
    """The function that really runs when torch reports a call of the program's function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    if frame is not None and frame.f_code is _TOLD_BY:
        return _running(frame.f_back, function)
    # C functions have no frames. Only methods can be looked up in a place that programs do not replace.
    for name, known in vars(torch.Tensor).items():
        if known is function:
            return getattr(_TENSOR_BASE, name, function)
    return function


def _running(frame: FrameType | None, function: Any) -> Any:
    if frame is None or not frame.f_code.co_filename.startswith(_TORCH):
        return function
    code = frame.f_code
    # All arguments are passed on, so defaults are not needed. The values of a closure would be.
    if code.co_freevars:
        return function
    if code not in _by_code:
        _by_code[code] = FunctionType(code, frame.f_globals, code.co_name)
    return _by_code[code]
