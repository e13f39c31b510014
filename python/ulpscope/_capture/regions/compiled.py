"""Regions compiled by torch.compile run as they would without capture: nothing inside is recorded.

Dynamo traces everything it meets, including function modes and wrappers, and would compile a different
program. So capture is removed before a compiled region and restored after it. The boundary is the function
by which dynamo switches itself on and off for a frame; the ledger counts how often it was passed. There the
region as a whole is recorded as a call (``region_calls.py``). A program may also start, stop or end a step
within such a region. Dynamo is off while we do that, and anything that is installed there is removed until
the region is left.

The first use of torch.compile in a process replaces functions of torch for good, by functions that call what
was there. Capture is suspended meanwhile: a wrapper of ours would stay inside them. So it is while a module
is made into a compiled one, which keeps the method that it finds.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import torch

from ulpscope._capture.launch.after_import import Waiting, after_import
from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.regions.region_calls import RegionCall, RegionCalls

_NOTE = "a compiled region was entered: what runs inside it is not seen"

_RECORDED = "a compiled region was entered: it is recorded as one call, and what runs inside it is not seen"

_DYNAMO = "torch._dynamo.eval_frame"


# Not from dynamo's own module, which loads slowly and may never be needed.
_set_eval_frame = torch._C._dynamo.eval_frame.set_eval_frame

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class _Called(threading.local):
    """Whether this thread called us from within a compiled region."""

    from_within = False


_called = _Called()


def untraced(method: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """A method that dynamo never traces, wherever it is called."""

    @functools.wraps(method)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        prior = _set_eval_frame(None)
        before, _called.from_within = _called.from_within, _called.from_within or callable(prior)
        try:
            return method(*args, **kwargs)
        finally:
            _called.from_within = before
            _set_eval_frame(prior)

    # Not even when inlined into its caller.
    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call


class _Inside(threading.local):
    """The frame by which this thread entered a region, what undoes the suspension, and the region's call."""

    frame: Any = None
    resume: Callable[[], None] | None = None
    call: RegionCall | None = None


class CompiledRegions:
    """Watches the boundary. ``suspend`` removes capture from a thread; its result restores it."""

    def __init__(
        self,
        suspend: Callable[[], Callable[[], None]],
        note: Callable[[str], None],
        on_replaced: Callable[[], None],
    ) -> None:
        """``on_replaced`` is called, with capture suspended, after dynamo has replaced functions of torch."""
        self._suspend, self._note, self._on_replaced = suspend, note, on_replaced
        self._calls: RegionCalls | None = None
        self._patches = Patches()
        self._inside = _Inside()
        self._waiting: Waiting | None = None

    def install(self, calls: RegionCalls | None) -> None:
        """Starts watching; if dynamo is not loaded yet, as soon as it is.

        Without ``calls``, regions are only noted.
        """
        self._calls = calls
        self._waiting = after_import(_DYNAMO, self._add_door)
        if _called.from_within:
            self._note(_NOTE)
            self._inside.frame, self._inside.resume = _door_frame(), self._suspend()

    def next_step(self) -> None:
        """A region that continues in the next step is noted there, too."""
        if self._inside.resume is not None:
            self._note(_NOTE)

    def remove(self) -> None:
        """Stops watching."""
        if self._waiting is not None:
            self._waiting.cancel()
        self._patches.remove()
        self._patches = Patches()
        self._inside = _Inside()

    def _add_door(self) -> None:
        module = sys.modules[_DYNAMO]
        for name in ("_maybe_set_eval_frame", "set_eval_frame"):
            original = getattr(module, name, None)
            if original is not None:
                self._patches.add(module, name, self._door(original))
        patcher = getattr(module, "TorchPatcher", None)
        original = getattr(patcher, "patch", None)
        if original is not None and not _has_run(original):
            self._patches.add(patcher, "patch", staticmethod(self._replacing(original)))
        for name in ("_TorchDynamoContext", "DisableContext"):
            owner = getattr(module, name, None)
            original = vars(owner).get("__call__") if owner is not None else None
            if original is not None:
                self._patches.add(owner, "__call__", self._aside(original))
        self._patches.install()

    def _replacing(self, original: Callable[[], None]) -> Callable[[], None]:
        def patch() -> None:
            resume = self._suspend()
            try:
                original()
                self._on_replaced()
            finally:
                resume()

        return patch

    def _aside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            resume = self._suspend()
            try:
                return original(*args, **kwargs)
            finally:
                resume()

        return compiled

    def _door(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        inside = self._inside

        def set_eval_frame(callback: Any) -> Any:
            frame = sys._getframe(1)
            if inside.resume is None:
                if callable(callback):
                    begun = (None, False) if self._calls is None else self._calls.begin(frame)
                    call, is_recorded = begun
                    self._note(_RECORDED if is_recorded else _NOTE)
                    inside.frame, inside.resume, inside.call = frame, self._suspend(), call
            elif inside.frame is frame and not callable(callback):
                # The function that switched it on switches it off: the region is over.
                result = original(callback)
                resume, call = inside.resume, inside.call
                inside.frame = inside.resume = inside.call = None
                resume()
                if call is not None:
                    call.end(frame)
                return result
            return original(callback)

        # On the way out dynamo is still on and would compile this function.
        sys.modules[_DYNAMO].skip_code(set_eval_frame.__code__)
        return set_eval_frame


def _has_run(function: Callable[[], None]) -> bool:
    """Whether a function that does its work once has done it; false for one that does not remember it."""
    cache_info = getattr(function, "cache_info", None)
    return cache_info is not None and cache_info().currsize > 0


def _door_frame() -> FrameType | None:
    """The outermost frame that switched dynamo on; it will switch it off."""
    found, frame = None, sys._getframe(1)
    file = sys.modules[_DYNAMO].__file__
    while frame.f_back is not None:
        frame = frame.f_back
        # Other functions there switch it off for a while.
        if frame.f_code.co_filename == file and "callback" in frame.f_code.co_freevars:
            found = frame
    return found
