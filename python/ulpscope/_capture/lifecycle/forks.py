"""Forked processes: a child has a copy of each run, which must not touch the parent's files."""

from __future__ import annotations

import logging
import os
import weakref
from pathlib import Path
from typing import Protocol

_log = logging.getLogger("ulpscope")


class Started(Protocol):
    """A run that has started and not stopped."""

    def note_fork(self) -> None:
        """Notes in the ledger that a forked process is not recorded."""


# Runs that have started and not stopped.
started: weakref.WeakSet[Started] = weakref.WeakSet()


def _note_fork() -> None:
    for run in list(started):
        run.note_fork()


os.register_at_fork(after_in_parent=_note_fork)


class Owner:
    """The process that made a run."""

    def __init__(self, dump_path: Path) -> None:
        self._process = os.getpid()
        self._dump_path = dump_path
        self._has_reported = False

    @property
    def is_here(self) -> bool:
        """Whether it is this process."""
        return self._process == os.getpid()

    def is_elsewhere(self) -> bool:
        """Whether this is a forked child's copy of the run, which records nothing; logs that once."""
        if self.is_here:
            return False
        if not self._has_reported:
            self._has_reported = True
            _log.warning(
                "process %d was forked from process %d, whose capture into %s this is: "
                "nothing is recorded here; make a capture in the process itself",
                os.getpid(),
                self._process,
                self._dump_path,
            )
        return True
