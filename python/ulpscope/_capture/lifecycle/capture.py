"""``ulpscope.Capture``: returned by ``ulpscope.capture``. It exposes the user's methods of a ``Run``."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ulpscope._capture.lifecycle.estimate import Estimate, Estimation, NothingMeasuredError
from ulpscope._capture.lifecycle.overflow_watch import Overflow
from ulpscope._capture.lifecycle.run import Run
from ulpscope._capture.regions.compiled import untraced

if TYPE_CHECKING:
    from ulpscope._capture.settings import Settings


class Capture:
    """Records the calls of a program, step by step; created by ``ulpscope.capture``."""

    __slots__ = ("__weakref__", "_estimate", "_estimation", "_process", "_run", "_settings")

    def __init__(self, settings: Settings, model: Any = None, estimate: bool = False) -> None:
        self._settings = settings
        self._process = os.getpid()
        self._estimation = Estimation(settings) if estimate else None
        self._estimate: Estimate | None = None
        self._run = Run(self._estimation.settings if self._estimation else settings, model=model)

    def __enter__(self) -> Capture:
        self._run.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def dump_path(self) -> Path:
        """The folder of the dump."""
        return self._settings.dump_path

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings by name, as they are used: ranges expanded, sizes in bytes, defaults filled in."""
        return self._settings.by_name()

    @property
    def steps_done(self) -> bool:
        """Whether every selected step is over; nothing more is recorded then."""
        return self._run.steps_done

    @property
    def overflows(self) -> list[Overflow]:
        """With task overflow_check: the calls that returned NaN or infinity from finite inputs so far."""
        return self._run.overflows

    @property
    def estimate(self) -> Estimate:
        """With ``capture(..., estimate=True)``, after one step: what each step would write."""
        if self._estimation is None:
            raise RuntimeError("this capture records: make one with ulpscope.capture(..., estimate=True)")
        if self._estimate is None:
            raise RuntimeError("no step is over yet: call step() or close() first")
        return self._estimate

    @untraced
    def start(self, model: Any = None) -> None:
        """Starts recording. Without a model, levels L0 and mix use the first module that is called."""
        if self._estimate is None:
            self._run.start(model)

    @untraced
    def stop(self) -> None:
        """Stops recording until the next ``start``. The calls recorded so far are in the dump."""
        self._run.stop()

    @untraced
    def step(self) -> None:
        """Ends a step: its dump is complete, and call numbers start at 0 again."""
        self._run.step()
        if self._estimation is not None and self._run.steps_done:
            self.close()

    @untraced
    def end_forward(self) -> None:
        """Stops recording calls of this step. The backward pass of recorded calls is still recorded."""
        self._run.end_forward()

    @untraced
    def end_training(self) -> None:
        """Ends training: calls after the last step are recorded separately.

        They go to the folder ``after_last_step``, unless they include a backward pass.
        """
        self._run.end_training()

    @untraced
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Records a value, and the gradients of its tensors, under the name that you pass."""
        self._run.save(variable, name, save_backward)

    @untraced
    def register_custom_api(self, module: Any, api: str, prefix: str | None = None) -> None:
        """Also records the calls of ``module.api``, as ``prefix.api``."""
        self._run.register_custom_api(module, api, prefix)

    @untraced
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Undoes ``register_custom_api``."""
        self._run.restore_custom_api(module, api)

    def set_init_step(self, step: int) -> None:
        """Numbers steps from ``step`` on. Call it before the first ``start``."""
        self._run.set_init_step(step)

    @untraced
    def close(self) -> None:
        """Ends the capture: the dump is complete, and torch is restored."""
        self._run.close()
        if self._estimation is not None and self._estimate is None and self._process == os.getpid():
            try:
                self._estimate = self._estimation.finish()
            except NothingMeasuredError as error:
                # The program goes on: an estimate is no part of it.
                logging.getLogger("ulpscope").warning("%s", error)
