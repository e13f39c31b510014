"""Capture for the ``Trainer`` of transformers.

>>> from ulpscope.integrations.transformers import CaptureCallback
>>> trainer = Trainer(..., callbacks=[CaptureCallback("dumps/cpu", level="mix", step="0-2")])
>>> trainer.train()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from ulpscope.integrations._training import TrainingCapture

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ulpscope._capture.settings.keywords import CaptureKeywords
    from ulpscope._capture.settings.settings import Level, Task


class CaptureCallback(TrainerCallback):
    """Records training steps, numbered by the trainer's ``global_step``.

    A step is one update of the weights, with all batches whose gradients it accumulates. Evaluation,
    checkpoints and everything after the last step are not recorded. The settings are those of
    ``ulpscope.capture``.
    """

    def __init__(
        self,
        dump_path: str | os.PathLike[str],
        level: Level = "mix",
        task: Task = "statistics",
        **settings: Unpack[CaptureKeywords],
    ) -> None:
        self._training = TrainingCapture(dump_path, level, task, settings)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Creates the capture."""
        self._training.begin(kwargs.get("model"), state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Starts recording."""
        self._training.resume()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends a step."""
        self._training.end_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the capture."""
        self._training.close()

    def close(self) -> None:
        """Ends the capture; call it if training ended with an error that the program catches."""
        self._training.close()
