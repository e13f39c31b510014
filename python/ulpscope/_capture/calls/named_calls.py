"""A function mode that names and counts calls as capture does, and runs each as a subclass decides.

    torch ──► __torch_function__ ──► which function, under which name and number ──► around(call)

It can take the place of the recorder in an ``Installation``: then calls that torch does not show to modes
reach ``around`` too, threads and backward passes have the mode, and compiled code and tracers do not.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from ulpscope._capture.calls import originals
from ulpscope._capture.calls.functions import Function, Functions
from ulpscope._capture.calls.recorded import CallRunner
from ulpscope._capture.calls.stacks import call_name

_PROPERTY_ACCESS = type(vars(torch._C.TensorBase)["shape"].__get__)

# Properties that compute a new tensor: they are calls.
_COMPUTING = [getattr(torch.Tensor, name) for name in ("T", "mT", "H", "mH", "real", "imag")]

# By the names that wrappers give: see `wrappers.add_operators`.
_HINTS = {"__radd__": "r+", "__rmul__": "r*"}

# Descriptions of functions that are remembered. A program may make new functions without end.
_MAX_FUNCTIONS = 1 << 12

# Calls of torch.distributed send messages: nothing may repeat or change them.
_MESSAGES = "Distributed"


class NamedCall(NamedTuple):
    """A call that is about to run."""

    base: str
    """``Functional.linear``, without number and direction."""
    number: int
    """The number of the call among those of its base, from 0."""
    run: Callable[..., Any]
    """Computes the result, from ``args`` and ``kwargs``."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    function: Function | None
    """What is known about the function; None for one that torch does not show to modes."""

    @property
    def name(self) -> str:
        """``Functional.linear.0.forward``."""
        return f"{self.base}.{self.number}.forward"

    def original(self) -> Any:
        """The result of the call as the program made it."""
        return self.run(*self.args, **self.kwargs)


class _Hint(threading.local):
    """The operator of this thread's next call, if torch reports a different one."""

    operator: str | None = None


class _Thread(threading.local):
    """Whether calls on this thread are ours, not the program's."""

    is_aside = False


_thread = _Thread()


def is_aside() -> bool:
    """Whether this thread's calls are ours: see ``unseen``."""
    return _thread.is_aside


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Hides what runs inside from all modes and wrappers, on this thread."""
    before, _thread.is_aside = _thread.is_aside, True
    try:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            yield
    finally:
        _thread.is_aside = before


class NamedCalls(TorchFunctionMode, CallRunner):
    """Names and counts calls; ``around`` of a subclass runs them."""

    def __init__(self) -> None:
        super().__init__()
        self._functions = Functions()
        self._described: dict[int, tuple[Any, Function]] = {}
        self._counts: dict[str, int] = {}
        self._hint = _Hint()
        # Several threads may make calls.
        self._counting = threading.Lock()

    def around(self, call: NamedCall) -> Any:
        """Runs a call, and returns what the program gets as its result."""
        raise NotImplementedError

    def wants(self, function: Function) -> bool:
        """Whether the calls of a function are named and counted."""
        return True

    def restart(self) -> None:
        """Counts calls from 0 again."""
        with self._counting:
            self._counts.clear()

    def hint(self, name: str) -> None:
        """Sets the operator of this thread's next call; an empty name clears it."""
        self._hint.operator = _HINTS.get(name)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs a call of a torch function."""
        own = func
        if type(func) is _PROPERTY_ACCESS:
            own = next((one for one in _COMPUTING if one is func.__self__), None)
            if own is None or (len(args) > 1 and func.__name__ == "__set__"):
                return func(*args, **(kwargs or {}))
        function = self._describe(own)
        if function.is_of_program:
            known = originals.original(own)
            if known is not own:
                own = func = known
                function = self._describe(own)
        if function.treatment != "record" or not self.wants(function):
            return func(*args, **(kwargs or {}))
        operator, self._hint.operator = self._hint.operator, None
        called = call_name(function.operators, function.name, sys._getframe(1), operator)
        base = f"{function.prefix}.{called}"
        return self.around(NamedCall(base, self._number(base), func, args, kwargs or {}, function))

    def run_call(
        self,
        prefix: str,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Runs a call that torch does not show to function modes."""
        if prefix == _MESSAGES or _thread.is_aside:
            return function(*args, **kwargs)
        base = f"{prefix}.{name}" if name else prefix
        return self.around(NamedCall(base, self._number(base), function, args, kwargs, None))

    def _describe(self, function: Any) -> Function:
        known = self._described.get(id(function))
        if known is None:
            if len(self._described) >= _MAX_FUNCTIONS:
                self._described.clear()
            # The function is kept: after it is freed, another object could get its id.
            known = self._described[id(function)] = (function, self._functions.describe(function))
        return known[1]

    def _number(self, base: str) -> int:
        with self._counting:
            number = self._counts.get(base, 0)
            self._counts[base] = number + 1
        return number
