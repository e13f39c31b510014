"""Finds the call whose results leave the range that its inputs are in, while the program runs.

    call ──► its results and inputs ──► in range? ──► OverflowCheck.report
                                    └─► on a device: judged by later calls, when the numbers have arrived

On an NPU the device's overflow flag decides, too. A mask of ``-inf`` is no overflow, and neither is passing a
NaN on. As in the older tools, the largest number of a dtype counts, unless an input has it.
"""

from __future__ import annotations

import linecache
import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ulpscope._capture.calls import modes
from ulpscope._capture.calls.functions import Function
from ulpscope._capture.calls.named_calls import NamedCall, NamedCalls
from ulpscope._capture.lifecycle.loss_scaling import LossScaling
from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.npu_overflow_flag import overflow_flag
from ulpscope._capture.values.ranges import IN_RANGE, NAN, Extent, Ranges, change_count, tensors_of
from ulpscope._core import returns_blank

_log = logging.getLogger("ulpscope")

# Tensors of calls that are judged later are kept alive up to this size.
_MAX_KEPT = 64 << 20

# The range of values whose numbers are lost: their call is not reported.
_LOST = NAN + 1

# How often other ranks are looked at, in seconds.
_OFTEN = 0.2

_OWN_FOLDER = str(Path(__file__).parents[1])


class Frame(NamedTuple):
    """A frame of the program."""

    filename: str
    lineno: int
    function: str

    @property
    def code(self) -> str | None:
        """The line, if its file is there."""
        return linecache.getline(self.filename, self.lineno).strip() or None


class Overflow(NamedTuple):
    """A call that overflowed."""

    name: str
    """``Functional.linear.forward``, without a number."""
    number: int
    """The number of the call among those of its name, from 0."""
    inputs: Any
    outputs: Any
    frames: list[Frame]
    """Where it was made, innermost first; ours are left out."""
    is_scaled: bool
    """Whether a loss scaler will decide about it: see ``decide``."""
    args: tuple[Any, ...] = ()
    """The arguments of the forward call."""
    kwargs: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    is_kept: bool = True
    """False if its tensors were gone, or changed, when it was found on a device."""


class _Waiting(NamedTuple):
    """A call on a device that is judged when its numbers have arrived."""

    found: Overflow
    inputs: Extent
    results: Extent
    kept: list[tuple[torch.Tensor, int | None]]
    bytes: int


class OverflowCheck(NamedCalls):
    """Calls ``report`` for each call that overflows; what it raises reaches the program."""

    def __init__(
        self,
        report: Callable[[Overflow], None],
        decide: Callable[[bool], None],
        keeps_arguments: bool = False,
        look_at_others: Callable[[], None] | None = None,
    ) -> None:
        """``decide(skips)`` is called when a loss scaler has decided about those with ``is_scaled``.

        ``keeps_arguments``: backward calls that overflow are reported with those of their forward call.
        ``look_at_others`` is called now and then, and may raise, too.
        """
        super().__init__()
        self._report = report
        self._decide = decide
        self._keeps_arguments = keeps_arguments
        self._look_at_others = look_at_others
        self._looked_at = 0.0
        self.is_paused = False
        self._flag = overflow_flag()
        self._ranges = Ranges()
        self._waiting: deque[_Waiting] = deque()
        self._kept_bytes = 0
        self._noted: set[str] = set()
        self.is_scaled = False
        self._is_scaling = False
        self._patches = Patches()
        LossScaling(self).add(self._patches)

    def start(self) -> None:
        """Begins."""
        self._patches.install()
        modes.put_function_mode(self)

    def stop(self) -> None:
        """Ends, on the thread on which it began. Backward calls of earlier calls are not checked any more."""
        self.is_paused = True
        self._patches.remove()
        modes.take_function_mode(self)

    def clear(self) -> None:
        """Clears the flag of the device."""
        if self._flag is not None:
            with torch._C.DisableTorchFunction():
                self._flag.clear()

    def set_scaling(self, is_scaling: bool) -> None:
        """A loss scaler multiplies the loss, or has done so."""
        self._is_scaling = is_scaling

    def scaler_decided(self, skips: bool) -> None:
        """A loss scaler has decided. It has waited for the devices, too."""
        try:
            self.judge_all()
        finally:
            self.is_scaled = False
        self._decide(skips)

    def judge_all(self) -> None:
        """Waits for the devices, and reports what overflowed there."""
        self._judge(waits=True)

    def wants(self, function: Function) -> bool:
        """Functions and methods, no operators."""
        return function.prefix in ("Functional", "Tensor", "Torch")

    def around(self, call: NamedCall) -> Any:
        """Runs a call, and checks its results."""
        if self.is_paused:
            return call.original()
        self._look_now_and_then()
        given = (call.args, tuple(call.kwargs.values()))
        with torch._C.DisableTorchFunction():
            # Afterwards it would be too late for an argument that the call changes.
            may_change = _may_change(call)
            before = self._range_of(given) if may_change else None
            known = [tensor.grad_fn for tensor in tensors_of(given)]
        result = call.original()
        with torch._C.DisableTorchFunction():
            is_known = not may_change or before is not None
            if is_known and not returns_blank(call.base.partition(".")[2]):
                name = f"{call.base}.forward"

                def found() -> Overflow:
                    awaits = self.is_scaled and self._is_scaling
                    return Overflow(
                        name, call.number, call.args, result, _frames(), awaits, call.args, call.kwargs
                    )

                self._check(found, before, given, result)
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
            if self.is_paused:
                return

            def found() -> Overflow:
                frames = _frames()
                return Overflow(
                    f"{name}.backward", number, given, taken, frames, self.is_scaled, args, kwargs
                )

            self._check(found, None, taken, given)

        node.register_hook(check)

    def _check(self, found: Callable[[], Overflow], before: Extent | None, inputs: Any, results: Any) -> None:
        """Reports a call, now or when its numbers have arrived."""
        if self._flag is not None and self._flag.is_set():
            # For the next call.
            self.clear()
            self._report(found())
            return
        after = self._range_of(results)
        if after is None or (not after.there and after.here <= IN_RANGE):
            return
        before = before or self._range_of(inputs)
        if before is None:
            return
        if not after.there:
            # Torch has waited for a result in ordinary memory; so may we.
            reach = self._reach_of(before, waits=True)
            if reach is not None and reach < after.here:
                self._report(found())
            return
        overflow = found()
        kept = [(tensor, change_count(tensor)) for tensor in tensors_of((inputs, results))]
        size = sum(tensor.nbytes for tensor, _ in kept)
        self._waiting.append(_Waiting(overflow, before, after, kept, size))
        self._kept_bytes += size
        self._judge(waits=False)
        self._let_go()

    def _judge(self, waits: bool) -> None:
        """Reports the calls whose numbers have arrived, in order."""
        while self._waiting:
            one = self._waiting[0]
            inputs, results = self._reach_of(one.inputs, waits), self._reach_of(one.results, waits)
            if inputs is None or results is None:
                return
            self._waiting.popleft()
            self._kept_bytes -= one.bytes
            if inputs < results != _LOST:
                self._report(one.found if _is_as_it_was(one) else _without_tensors(one.found))

    def _range_of(self, values: Any) -> Extent | None:
        """How far values go; None if they cannot be measured: then their call is not checked."""
        try:
            return self._ranges.of(values)
        except Exception as error:
            self._note_unmeasured(error)
            return None

    def _reach_of(self, extent: Extent, waits: bool) -> int | None:
        """How far they go; None if not all numbers have arrived. Those that never will say nothing."""
        try:
            return extent.reach(waits)
        except Exception as error:
            self._note_unmeasured(error)
            return _LOST

    def _note_unmeasured(self, error: Exception) -> None:
        kind = type(error).__name__
        if kind not in self._noted:
            self._noted.add(kind)
            _log.warning(
                "overflow check: values could not be measured, so their calls are not checked; the run goes "
                "on (%s: %s)",
                kind,
                error,
            )

    def _let_go(self) -> None:
        """Frees the tensors of the oldest calls, if there are too many."""
        for index, one in enumerate(self._waiting):
            if self._kept_bytes <= _MAX_KEPT:
                return
            self._kept_bytes -= one.bytes
            self._waiting[index] = one._replace(found=_without_tensors(one.found), kept=[], bytes=0)

    def _look_now_and_then(self) -> None:
        if self._look_at_others is not None and time.monotonic() - self._looked_at > _OFTEN:
            self._looked_at = time.monotonic()
            self._look_at_others()


def _may_change(call: NamedCall) -> bool:
    function = call.function
    return function is None or bool(function.changes) or "out" in call.kwargs


def _is_as_it_was(one: _Waiting) -> bool:
    return all(version is not None and version == change_count(tensor) for tensor, version in one.kept)


def _without_tensors(found: Overflow) -> Overflow:
    return found._replace(inputs=(), outputs=(), args=(), kwargs={}, is_kept=False)


def _frames() -> list[Frame]:
    """The frames of the program, without those of the check."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FOLDER):
        frame = frame.f_back
    found = []
    while frame is not None:
        found.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return found
