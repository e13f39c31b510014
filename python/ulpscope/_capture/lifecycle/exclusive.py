"""Only one capture can record at a time.

Two would record each other, and each would restore the other's wrappers as if they were the originals. So a
second one is refused while the first records. Under ``ulpscope run``, a capture of the script itself takes
precedence: the script must work as without us, so our capture pauses while the script's one records.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Protocol

_log = logging.getLogger("ulpscope")


class Recording(Protocol):
    """A capture that has started and not stopped."""

    gives_way: bool
    dump_path: Path

    def step_aside(self, why: str) -> None:
        """Pauses recording."""

    def come_back(self) -> None:
        """Resumes recording."""

    def holds(self, dump_path: Path, rank_folder: str) -> bool:
        """Whether it writes to these folders."""

    def close(self) -> None:
        """Ends."""


_lock = threading.RLock()

# The last one records; those before it are paused.
_started: list[Recording] = []


def check(recording: Recording) -> None:
    """Refuses a capture while another one records that does not yield."""
    with _lock:
        if _started and recording not in _started and not _started[-1].gives_way:
            raise RuntimeError(
                f"a capture into {str(_started[-1].dump_path)!r} is recording; "
                "only one capture can record at a time: call stop() or close() on the first"
            )


def begin(recording: Recording) -> None:
    """Starts a capture; refuses while another one records that does not yield."""
    with _lock:
        if recording in _started:
            return
        check(recording)
        if _started:
            _started[-1].step_aside(
                f"the script's own capture into {recording.dump_path} was recording: "
                "what ran meanwhile is recorded there only"
            )
        _started.append(recording)


def end(recording: Recording) -> None:
    """Ends a capture; the paused one resumes."""
    with _lock:
        if recording not in _started:
            return
        was_last = _started[-1] is recording
        _started.remove(recording)
        if was_last and _started:
            _started[-1].come_back()


def make_room(dump_path: Path, rank_folder: str) -> None:
    """Ends a capture that yields if it writes to these folders: they cannot hold both dumps."""
    with _lock:
        for other in [one for one in _started if one.gives_way and one.holds(dump_path, rank_folder)]:
            _log.warning(
                "the script's own capture writes to %s, too: it goes first, and ulpscope run records no more",
                dump_path,
            )
            try:
                other.close()
            except Exception as error:
                # The running script is not responsible for this error.
                _log.error("the dump in %s may be incomplete: %s", dump_path, error)


def _forget() -> None:
    """Captures that a forked child inherits record nothing there."""
    _started.clear()


os.register_at_fork(after_in_child=_forget)
