"""Asynchronous collectives, from their start to the moment at which their buffers can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._capture.lifecycle.patches import Patches

if TYPE_CHECKING:
    from ulpscope._core import OpenCall, Recorder


# Torch's originals, even if replaced during recording; none if torch has no collectives.
_work: Any = getattr(torch.distributed, "Work", None)
_is_completed: Any = getattr(_work, "is_completed", None)
_is_success: Any = getattr(_work, "is_success", None)


# The work itself does not report an error of an asynchronous collective.
_FAILED = "the work failed"


# A call, and the buffers of its results.
Unfinished = tuple["OpenCall", Any]


class _Running:
    """Calls that returned before they were complete."""

    def __init__(self, works: list[Any], calls: list[Unfinished]) -> None:
        # Kept alive, so that no other work gets the same address.
        self.works = works
        self.calls = calls
        self.remaining = {id(work) for work in works}
        # A waiting thread continues only after the buffers were read: it may change them next.
        self.lock = threading.RLock()


class Pending:
    """Asynchronous collectives that are not known to be complete."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._running: dict[int, _Running] = {}
        self._futures: dict[int, tuple[Any, Any]] = {}
        # Re-entrant: a garbage collection inside it may run a finalizer that waits for a collective.
        self._lock = threading.RLock()

    def add(self, works: list[Any], call: OpenCall, buffers: Any) -> None:
        """Waits for all works of a call."""
        self.add_together(works, [(call, buffers)])

    def add_together(self, works: list[Any], calls: list[Unfinished]) -> None:
        """Waits for all works of calls that are done together."""
        running = _Running(works, calls)
        with self._lock:
            self._running.update((id(work), running) for work in works)

    def completed(self, work: Any, raised: bool | None = None) -> None:
        """A work is complete. When all works of its call are, the buffers are recorded.

        If ``raised`` is None, the work itself tells whether it failed.
        """
        running = self._running.get(id(work))
        if running is None:
            return
        with running.lock:
            with self._lock:
                self._running.pop(id(work), None)
            running.remaining.discard(id(work))
            if _has_work_failed(work) if raised is None else raised:
                self._raise(running)
            elif not running.remaining:
                # Only once: a call cannot be ended twice.
                self.end(running.calls)

    def end(self, calls: list[Unfinished]) -> None:
        """Records the results of calls that are complete."""
        for call, buffers in calls:
            self._recorder.end(call, buffers)

    def _raise(self, running: _Running) -> None:
        for call, _ in running.calls:
            self._recorder.raised(call, _FAILED)

    def follow(self, work: Any, future: Any) -> None:
        """Links a work to its future, for programs that wait for the future instead."""
        if id(work) in self._running:
            with self._lock:
                self._futures[id(future)] = future, work
            future.add_done_callback(lambda done: self.completed(work, raised=_has_failed(done)))

    def waited_for(self, future: Any, raised: bool) -> None:
        """A future has been waited for."""
        with self._lock:
            found = self._futures.pop(id(future), None)
        if found is not None:
            self.completed(found[1], raised)

    def flush(self) -> None:
        """Ends complete calls that no one waited for; the ledger notes the others."""
        with self._lock:
            calls = list({id(running): running for running in self._running.values()}.values())
            self._running.clear()
            self._futures.clear()
        for running in calls:
            with running.lock:
                remaining = [work for work in running.works if id(work) in running.remaining]
                if not all(_is_complete(work) for work in remaining):
                    self._recorder.note(
                        "an asynchronous collective was not waited for: its result is not recorded"
                    )
                elif any(_has_work_failed(work) for work in remaining):
                    self._raise(running)
                else:
                    self.end(running.calls)


def add_completions(patches: Patches, pending: Pending) -> None:
    """Watches all ways in which a program learns that a collective is complete."""
    work = torch.distributed.Work
    for name in ("wait", "synchronize", "result"):
        patches.add(work, name, _waiting(getattr(work, name), pending))
    get_future = work.get_future

    def asked(self: Any) -> bool:
        answer = bool(_is_completed(self))
        if answer:
            pending.completed(self)
        return answer

    def followed(self: Any) -> Any:
        future = get_future(self)
        pending.follow(self, future)
        return future

    patches.add(work, "is_completed", asked)
    patches.add(work, "get_future", followed)
    future = torch._C.Future
    wait = future.wait

    def future_waited(self: Any) -> Any:
        try:
            value = wait(self)
        except BaseException:
            pending.waited_for(self, raised=True)
            raise
        pending.waited_for(self, raised=False)
        return value

    patches.add(future, "wait", future_waited)


def _is_complete(work: Any) -> bool:
    """Whether a work is over; False if it cannot tell."""
    try:
        return bool(_is_completed(work))
    except Exception:
        return False


def _has_work_failed(work: Any) -> bool:
    """Whether a finished work ended with an error; False for backends that do not report it."""
    try:
        return not _is_success(work)
    except Exception:
        return False


def _has_failed(future: Any) -> bool:
    """Whether a completed future holds an error."""
    try:
        future.value()
    except BaseException:
        return True
    return False


def _waiting(original: Callable[..., Any], pending: Pending) -> Callable[..., Any]:
    def waited(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            pending.completed(self, raised=True)
            raise
        pending.completed(self, raised=False)
        return result

    waited.__name__ = waited.__qualname__ = original.__name__
    return waited
