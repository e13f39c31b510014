"""A capture controlled by the events of another library's training loop.

    training begins ──► begin ──► a step begins ──► resume ──► it ends ──► end_step ──► pause
                                        └────────────── evaluation, checkpoints: not recorded ──┘

Only calls between the beginning and the end of a training step are recorded. Evaluation, checkpoints and
everything after the last step are not.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import ulpscope
from ulpscope._capture.settings import Settings

if TYPE_CHECKING:
    from ulpscope._capture.settings.keywords import CaptureKeywords
    from ulpscope._capture.settings.settings import Level, Task

_log = logging.getLogger("ulpscope")


class TrainingCapture:
    """One capture per training; none before it begins."""

    def __init__(
        self,
        dump_path: str | os.PathLike[str],
        level: Level,
        task: Task,
        settings: CaptureKeywords,
    ) -> None:
        # An invalid setting raises when the callback is constructed, not hours later.
        Settings.from_keywords(dump_path, level=level, task=task, **settings)
        self._dump_path, self._level, self._task, self._settings = dump_path, level, task, settings
        self._capture: ulpscope.Capture | None = None

    def begin(self, model: Any, step: int) -> None:
        """Training begins at a step, which is above 0 when it resumes from a checkpoint."""
        self.close()
        settings: CaptureKeywords = {"init_step": step, **self._settings}
        self._capture = ulpscope.capture(self._dump_path, model, self._level, self._task, **settings)
        if self._capture.steps_done:
            _log.warning(
                "nothing is recorded: training begins at step %d, after the last selected step", step
            )

    def resume(self) -> None:
        """A step, or a part of one, begins."""
        if self._capture is not None and not self._capture.steps_done:
            self._capture.start()

    def pause(self) -> None:
        """The part of the step is over; later calls are not recorded."""
        if self._capture is not None:
            self._capture.stop()

    def end_step(self) -> None:
        """A step is over."""
        if self._capture is not None:
            self._capture.step()
            self.pause()
            if self._capture.steps_done:
                self.close()

    def close(self) -> None:
        """Training is over."""
        capture, self._capture = self._capture, None
        if capture is not None:
            capture.close()
