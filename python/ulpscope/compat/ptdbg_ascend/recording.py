"""One recording at a time: a capture that goes on while its settings stay the same."""

from __future__ import annotations

import logging
import os

from ulpscope._capture.lifecycle import ranks
from ulpscope._capture.lifecycle.run import Run
from ulpscope._capture.settings import Settings

log = logging.getLogger("ulpscope.compat.ptdbg_ascend")


def check_rank(rank: object) -> int | None:
    """A rank, or None for all of them."""
    if rank is None:
        return None
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
        raise ValueError(f"rank is {rank!r}; expected a number from 0 on")
    return rank


class Recording:
    """Starts and stops captures."""

    def __init__(self) -> None:
        self._settings: Settings | None = None
        self._process = os.getpid()
        self.run: Run | None = None

    @property
    def steps_done(self) -> bool:
        """Whether every selected step is over."""
        return self.run is not None and self.run.steps_done

    def start(self, settings: Settings, rank: int | None) -> None:
        """Records from now on."""
        if not is_selected(rank):
            log.warning("rank %d is selected, which this process does not have: nothing is dumped here", rank)
            return
        if self._process != os.getpid():
            # A forked process records on its own.
            self.run, self._settings, self._process = None, None, os.getpid()
        if self.run is None or settings != self._settings:
            if self._settings is not None and settings.layout_path == self._settings.layout_path:
                log.warning(
                    "the dump %s is replaced, because it is selected differently now: "
                    "use another dump_tag to keep both",
                    settings.layout_path,
                )
            self.close()
            self.run = Run(settings)
            self._settings = settings
        self.run.start()

    def stop(self) -> None:
        """Writes the files; a later start continues them."""
        if self.run is not None:
            self.run.stop()

    def close(self) -> None:
        """Ends the recording: a later start replaces the files."""
        run, self.run, self._settings = self.run, None, None
        if run is not None:
            run.close()


def is_selected(rank: int | None) -> bool:
    """Whether this process may have the rank; None stands for all of them."""
    return rank is None or ranks.may_be_one_of((rank,))
