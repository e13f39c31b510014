"""Shows the calls that torch's own Python functions make: ``F.relu`` calls ``torch.relu``.

While a function mode handles a call it is off. A function that is called with the mode on passes the call to
the mode again, at its first line: ``if has_torch_function_unary(input): ...``. So the function is called with
the mode on and with answers of "no" at that line.
"""

from __future__ import annotations

import types
from typing import Any

from ulpscope._capture.calls import modes

# The questions at the beginning of torch's functions.
_QUESTIONS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


def call_open(mode: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """Calls a function so that the mode sees the calls inside it."""
    opened = _opened(function)
    if opened is None:
        return function(*args, **(kwargs or {}))
    modes.put_function_mode(mode, modes.Within.now().function_modes)
    try:
        return opened(*args, **(kwargs or {}))
    finally:
        modes.take_function_mode(mode)


def _opened(function: Any) -> types.FunctionType | None:
    """The function without its questions; None if it would pass the call on without end.

    It is made anew for each call: a program may replace what the function refers to.
    """
    if not isinstance(function, types.FunctionType):
        return None
    if "__class__" in function.__code__.co_freevars:
        # A method of torch.Tensor that calls `super()`: torch names that call by this method, so it would
        # begin again without end.
        return None
    cells = [_opened_cell(cell) for cell in function.__closure__ or ()]
    asks = not set(_QUESTIONS).isdisjoint(function.__code__.co_names)
    if not asks and not any(cell is not None for cell in cells):
        return None
    names = function.__globals__
    if asks:
        names = {**names, **dict.fromkeys(_QUESTIONS, _no)}
    closure = tuple(new or old for new, old in zip(cells, function.__closure__ or (), strict=True))
    opened = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


def _opened_cell(cell: types.CellType) -> types.CellType | None:
    """The cell of a function that selects between two others, as those for pooling do."""
    try:
        inner = cell.cell_contents
    except ValueError:
        return None
    if getattr(inner, "__module__", None) != "torch.nn.functional":
        return None
    opened = _opened(inner)
    return None if opened is None else types.CellType(opened)


def _no(*_: Any) -> bool:
    return False
