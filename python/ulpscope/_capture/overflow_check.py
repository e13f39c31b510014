"""Finds the call that returns NaN or infinity from finite inputs, while the program runs.

On an NPU the device's overflow flag decides. Elsewhere a call overflows if a result is infinite or NaN and
all of its arguments are finite: a mask of ``-inf`` is no overflow, and neither is passing a NaN on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from ulpscope._capture.calls import modes
from ulpscope._capture.calls.functions import Function
from ulpscope._capture.calls.named_calls import NamedCall, NamedCalls
from ulpscope._capture.npu_overflow_flag import overflow_flag


class Overflow(NamedTuple):
    """A call that overflowed."""

    name: str
    """``Functional.linear.forward``, without a number."""
    number: int
    """The number of the call among those of its name, from 0."""
    inputs: Any
    outputs: Any
    own_frames: int
    """How many of the innermost frames are those of the check."""
    args: tuple[Any, ...] = ()
    """The arguments of the forward call."""
    kwargs: dict[str, Any] = {}  # noqa: RUF012 (never changed)


class OverflowCheck(NamedCalls):
    """Calls ``report`` for each call that overflows; what it raises reaches the program."""

    def __init__(self, report: Callable[[Overflow], None], keeps_arguments: bool = False) -> None:
        """``keeps_arguments``: backward calls that overflow are reported with those of their forward call."""
        super().__init__()
        self._report = report
        self._keeps_arguments = keeps_arguments
        self.is_paused = False
        self._flag = overflow_flag()

    def start(self) -> None:
        """Begins."""
        modes.put_function_mode(self)

    def stop(self) -> None:
        """Ends, on the thread on which it began. Backward calls of earlier calls are not checked any more."""
        self.is_paused = True
        modes.take_function_mode(self)

    def clear(self) -> None:
        """Clears the flag of the device."""
        if self._flag is not None:
            with torch._C.DisableTorchFunction():
                self._flag.clear()

    def wants(self, function: Function) -> bool:
        """Functions and methods, no operators."""
        return function.prefix in ("Functional", "Tensor", "Torch")

    def around(self, call: NamedCall) -> Any:
        """Runs a call, and checks its results."""
        if self.is_paused:
            return call.original()
        with torch._C.DisableTorchFunction():
            # A call in place changes its arguments.
            given = (call.args, tuple(call.kwargs.values()))
            were_finite = _is_finite(given)
            known = [tensor.grad_fn for tensor in tensors_of(given)]
        result = call.original()
        with torch._C.DisableTorchFunction():
            if self._overflows(were_finite, result):
                self._report(
                    Overflow(
                        f"{call.base}.forward", call.number, call.args, result, 2, call.args, call.kwargs
                    )
                )
            self._watch(call, result, known)
        return result

    def _watch(self, call: NamedCall, result: Any, known: list[Any]) -> None:
        name, number = call.base, call.number
        first = next(tensors_of(result), None)
        node = None if first is None or first._is_view() else first.grad_fn
        # A call that returns its argument has no node: it is that of the call before.
        if node is None or any(node is one for one in known):
            return
        # Kept only if they are asked for: otherwise the graph alone decides how long tensors live.
        args, kwargs = (call.args, call.kwargs) if self._keeps_arguments else ((), {})

        def check(given: Any, taken: Any) -> None:
            if not self.is_paused and self._overflows(_is_finite(taken), given):
                self._report(Overflow(f"{name}.backward", number, given, taken, 1, args, kwargs))

        node.register_hook(check)

    def _overflows(self, were_finite: bool, results: Any) -> bool:
        if self._flag is not None and self._flag.is_set():
            # For the next call.
            self.clear()
            return True
        return were_finite and not _is_finite(results)


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """The tensors among arguments or results, also those in lists."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_of(item)


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return value - value == 0
    if isinstance(value, tuple | list):
        return all(_is_finite(item) for item in value)
    if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
        return value.device.type == "meta" or bool(value.isfinite().all())
    return True
