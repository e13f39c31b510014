"""Whether the wrappers of one installation are active.

A program may keep a wrapper after it was removed: a module imported during recording may have imported it
(``from torch.jit import trace``), or a patch of the program may call it. Then it must have no effect.
"""

from __future__ import annotations

import threading


class _Thread(threading.local):
    """How often this thread is suspended."""

    suspensions = 0


class Switch:
    """On for every thread that is not suspended, until it is switched off for good."""

    def __init__(self) -> None:
        self._is_installed = True
        self._thread = _Thread()

    def is_on(self) -> bool:
        """Whether wrappers on this thread record."""
        return self._is_installed and not self._thread.suspensions

    def suspend(self) -> None:
        """Disables wrappers on this thread."""
        self._thread.suspensions += 1

    def resume(self) -> None:
        """Undoes ``suspend``, on the same thread."""
        self._thread.suspensions -= 1

    def off(self) -> None:
        """Disables wrappers for good."""
        self._is_installed = False
