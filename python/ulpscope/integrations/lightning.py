"""Capture for the ``Trainer`` of Lightning.

>>> from ulpscope.integrations.lightning import CaptureCallback
>>> trainer = Trainer(..., callbacks=[CaptureCallback("dumps/cpu", level="mix", step="0-2")])
>>> trainer.fit(model, loader)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from ulpscope.integrations._training import TrainingCapture

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ulpscope._capture.settings.keywords import CaptureKeywords
    from ulpscope._capture.settings.settings import Level, Task


class CaptureCallback(Callback):
    """Records training steps.

    A step is one update of the weights, with all batches whose gradients it accumulates. A batch on which
    several optimizers step is one step. Sanity checks, validation and everything after the last step are not
    recorded. The settings are those of ``ulpscope.capture``.
    """

    def __init__(
        self,
        dump_path: str | os.PathLike[str],
        level: Level = "mix",
        task: Task = "statistics",
        **settings: Unpack[CaptureKeywords],
    ) -> None:
        self._training = TrainingCapture(dump_path, level, task, settings)
        self._updates = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Creates the capture."""
        self._updates = trainer.global_step
        self._training.begin(pl_module, trainer.global_step)

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """Starts recording."""
        self._training.resume()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Ends a step, if the weights were updated."""
        if trainer.global_step == self._updates:
            self._training.pause()
        else:
            self._updates = trainer.global_step
            self._training.end_step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Ends the capture."""
        self._training.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Ends the capture with what was recorded so far."""
        self._training.close()

    def close(self) -> None:
        """Ends the capture; call it if training ended with an error that the program catches."""
        self._training.close()
