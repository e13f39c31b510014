"""Whether the wrappers of one installation do anything.

A program may keep a wrapper for longer than it is in place: a module that is imported while calls are
recorded takes it along (``from torch.jit import trace``), a patch of the program's own calls what it found.
By then it must be as if it were not there.
"""

from __future__ import annotations

import threading


class _Thread(threading.local):
    """How often this thread is suspended."""

    suspensions = 0


class Switch:
    """On, on every thread that is not suspended, until it is switched off for good."""

    def __init__(self) -> None:
        self._is_installed = True
        self._thread = _Thread()

    def is_on(self) -> bool:
        """Whether a wrapper on this thread is to record."""
        return self._is_installed and not self._thread.suspensions

    def suspend(self) -> None:
        """Has wrappers do nothing on this thread."""
        self._thread.suspensions += 1

    def resume(self) -> None:
        """Undoes ``suspend``, on the same thread."""
        self._thread.suspensions -= 1

    def off(self) -> None:
        """Has wrappers do nothing any more."""
        self._is_installed = False
