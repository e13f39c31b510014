"""Collectives and messages between processes, which no function mode sees.

Their results are what their buffers hold when they are complete: at once, or, for an asynchronous one, when it
is waited for.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._capture.patches import Patches

if TYPE_CHECKING:
    from ulpscope._core import OpenCall, Recorder

_NAMES = [
    "send",
    "recv",
    "isend",
    "irecv",
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "reduce_scatter",
    "all_to_all",
    "all_to_all_single",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "_all_gather_base",
    "_reduce_scatter_base",
    "batch_isend_irecv",
    "all_reduce_coalesced",
    "all_gather_coalesced",
    "broadcast_object_list",
    "all_gather_object",
    "gather_object",
    "scatter_object_list",
    "barrier",
]


class _Pending:
    """Asynchronous collectives that nobody has waited for."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls: dict[int, tuple[Any, OpenCall, Any]] = {}
        self._lock = threading.Lock()

    def add(self, work: Any, call: OpenCall, buffers: Any) -> None:
        with self._lock:
            self._calls[id(work)] = work, call, buffers

    def completed(self, work: Any) -> None:
        with self._lock:
            found = self._calls.pop(id(work), None)
        if found is not None:
            self._recorder.end(found[1], found[2])

    def flush(self) -> None:
        """Ends those that are complete although nobody asked; of the others the ledger knows."""
        with self._lock:
            calls, self._calls = list(self._calls.values()), {}
        for work, call, buffers in calls:
            if work.is_completed():
                self._recorder.end(call, buffers)
            else:
                self._recorder.note(
                    "an asynchronous collective was not waited for: its result is not recorded"
                )


def add_collectives(patches: Patches, recorder: Recorder) -> Callable[[], None]:
    """Has collectives recorded; returns what is to be called before recording stops."""
    dist = torch.distributed
    if not dist.is_available():
        return lambda: None
    pending = _Pending(recorder)
    homes = [dist, sys.modules["torch.distributed.distributed_c10d"]]
    wrappers = {
        name: (original, _wrapped(recorder, name, original, pending))
        for name in _NAMES
        if (original := getattr(dist, name, None)) is not None
    }
    # Without a process group there is nothing to call, and looking through all modules takes its time.
    for module in _modules(wrappers.keys(), homes) if dist.is_initialized() else homes:
        for name in wrappers.keys() & vars(module).keys():
            original, wrapper = wrappers[name]
            if vars(module)[name] is original:
                patches.add(module, name, wrapper)
    wait = dist.Work.wait

    def waited(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = wait(self, *args, **kwargs)
        pending.completed(self)
        return result

    patches.add(dist.Work, "wait", waited)
    return pending.flush


def _modules(names: Set[str], homes: list[Any]) -> list[Any]:
    """The modules that may have one of the functions: its own, and those that imported it from there."""
    found = list(homes)
    for module in list(sys.modules.values()):
        try:
            has_one = not names.isdisjoint(vars(module))
        except TypeError:
            # Not every entry is a module with a dictionary.
            continue
        if has_one and not any(module is home for home in homes):
            found.append(module)
    return found


def _wrapped(recorder: Recorder, name: str, original: Any, pending: _Pending) -> Callable[..., Any]:
    def collective(*args: Any, **kwargs: Any) -> Any:
        begun = recorder.begin("Distributed", name, args, kwargs)
        if begun is None:
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            recorder.raised(begun)
            raise
        buffers = (*args, *kwargs.values())
        works = result if isinstance(result, list) else [result]
        works = [work for work in works if isinstance(work, torch.distributed.Work)]
        if works:
            # Of several messages sent together, the last to be waited for completes the call.
            pending.add(works[-1], begun, buffers)
        else:
            recorder.end(begun, buffers)
        return result

    collective.__name__ = collective.__qualname__ = name
    collective.__wrapped__ = original  # type: ignore[attr-defined]
    return collective
