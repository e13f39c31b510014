"""A capture that is driven by the events of somebody else's training loop.

    training begins ──► begin ──► a step begins ──► resume ──► it ends ──► end_step ──► pause
                                        └────────────── evaluation, checkpoints: not recorded ──┘

Recorded is what runs between the beginning and the end of a step of training. Evaluation, checkpoints and
what follows the last step do not become steps, and are not recorded.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import ulpscope
from ulpscope._capture.settings import Settings

if TYPE_CHECKING:
    from ulpscope._capture.settings.keywords import CaptureKeywords
    from ulpscope._capture.settings.settings import Level, Task


class TrainingCapture:
    """One capture per training; none before it begins."""

    def __init__(
        self,
        dump_path: str | os.PathLike[str],
        level: Level,
        task: Task,
        settings: CaptureKeywords,
    ) -> None:
        # A wrong setting is an error where the callback is made, not hours later.
        Settings.from_keywords(dump_path, level=level, task=task, **settings)
        self._dump_path, self._level, self._task, self._settings = dump_path, level, task, settings
        self._capture: ulpscope.Capture | None = None

    def begin(self, model: Any, step: int) -> None:
        """A training begins at a step, which is above 0 where it goes on from a checkpoint."""
        self.close()
        settings: CaptureKeywords = {"init_step": step, **self._settings}
        self._capture = ulpscope.capture(self._dump_path, model, self._level, self._task, **settings)

    def resume(self) -> None:
        """A step, or a part of one, begins."""
        if self._capture is not None and not self._capture.steps_done:
            self._capture.start()

    def pause(self) -> None:
        """What follows is no part of a step."""
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
