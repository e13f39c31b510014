"""One run under capture: when it records, and where it writes.

start, stop, step ──► is this step of this rank wanted? ──► Installation.install ──► Recorder ──► journal
                                                       └──► Installation.remove
"""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
from pathlib import Path
from types import TracebackType
from typing import Any

from ulpscope._capture import models, ranks, seed, stacks, tensors, values
from ulpscope._capture.functions import Functions
from ulpscope._capture.installation import CustomApis, Installation
from ulpscope._capture.jitter import Jitter
from ulpscope._capture.saving import Savings
from ulpscope._capture.settings import Settings
from ulpscope._core import Recorder

_log = logging.getLogger("ulpscope")


class _Front:
    """What the recorder asks Python, each thing once."""

    def __init__(self) -> None:
        self.function = Functions().describe
        self.stack = stacks.describe
        self.value = values.describe
        self.tensor = tensors.describe
        self.add = tensors.add
        self.part_of = tensors.part_of
        self.take_part = tensors.take_part
        self.warn = _log.warning


class Run:
    """Records the calls of a program, step by step; see ``ulpscope.capture``."""

    def __init__(self, settings: Settings, model: Any = None) -> None:
        self._settings = settings
        self._model = model
        self._recorder = Recorder(_Front(), settings)
        self._jitter = None if settings.jitter is None else Jitter(settings.jitter, self._recorder.note)
        self._installation = Installation(settings, self._recorder, self._joined_group, self._jitter)
        self._savings = Savings(self._recorder)
        self._custom: CustomApis = {}
        self._step = settings.init_step
        # Kept when the process leaves its group: its steps stay in the folders of one rank.
        self._rank: int | None = None
        self._aimed_at: Path | None = None
        self._started = False
        self._has_ended_forward = False
        self._closed = False
        self._closes_at_exit = False
        # A forked child has a copy of the run, and must leave the parent's files alone.
        self._process = os.getpid()

    def __enter__(self) -> Run:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def steps_done(self) -> bool:
        """Whether every wanted step is over."""
        return bool(self._settings.step) and self._step > max(self._settings.step)

    def start(self, model: Any = None) -> None:
        """Records from now on. Without a model, levels L0 and mix take the first module that is called."""
        self._check_open()
        if model is not None:
            models.roots_of(model)
            self._model = model
        # A place that cannot be written to is told now, not in the middle of a run.
        self._settings.dump_path.mkdir(parents=True, exist_ok=True)
        if not self._closes_at_exit:
            # A program that ends without a word leaves a whole dump all the same.
            atexit.register(self.close)
            self._closes_at_exit = True
        self._started = True
        self._has_ended_forward = False
        if not self.steps_done:
            seed.remove_dropout()
        self._update()

    def stop(self) -> None:
        """Records nothing more until the next ``start``. What was recorded is in the dump."""
        self._started = False
        seed.restore_dropout()
        self._update()

    def end_forward(self) -> None:
        """Records no further calls of this step; the backward of those recorded so far still is."""
        self._has_ended_forward = True
        self._recorder.end_forward()

    def step(self) -> None:
        """Ends a step: its dump is complete, and numbers begin anew."""
        if self._closed or self._process != os.getpid():
            return
        self._savings.flush()
        self._installation.next_step()
        # Also a step in which nothing happened has its dump, which says so.
        self._recorder.next_step(self._started and self._is_wanted())
        self._step += 1
        self._has_ended_forward = False
        if self.steps_done:
            seed.restore_dropout()
        self._update()

    def set_init_step(self, step: int) -> None:
        """Has steps counted from ``step`` on; before the first ``start``."""
        self._step = dataclasses.replace(self._settings, init_step=step).init_step

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Records a value, and the gradients of the tensors in it, under a name of your own."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"name: expected a text, found {name!r}")
        self._check_open()
        if self._is_wanted() and self._process == os.getpid():
            self._aim()
            self._savings.save(variable, name, save_backward)

    def register_custom_api(self, module: Any, api: str, prefix: str | None = None) -> None:
        """Records the calls of ``module.api``, too, as ``prefix.api``."""
        if not callable(getattr(module, api, None)):
            raise ValueError(f"api: {module!r} has no function {api!r}")
        name = prefix or str(getattr(module, "__name__", type(module).__name__)).rpartition(".")[2]
        self._custom[module, api] = name
        self._reinstall()

    def restore_custom_api(self, module: Any, api: str) -> None:
        """Undoes ``register_custom_api``."""
        if self._custom.pop((module, api), None) is not None:
            self._reinstall()

    def close(self) -> None:
        """Ends the capture: the dump is complete, and torch is as it was."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            # Gradients that have come are recorded while something still is.
            self._savings.flush()
        finally:
            try:
                self.stop()
            finally:
                try:
                    self._recorder.next_step(False)
                finally:
                    self._end_jitter()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this capture is closed; make another with ulpscope.capture(...)")

    def _is_wanted(self) -> bool:
        settings = self._settings
        return (not settings.step or self._step in settings.step) and (
            not settings.rank or self._known_rank() in settings.rank
        )

    def _known_rank(self) -> int | None:
        rank = ranks.current_rank()
        if rank is not None:
            self._rank = rank
        return self._rank

    def _folder(self) -> Path:
        return self._settings.dump_path / f"step{self._step}" / ranks.folder_name(self._known_rank())

    def _joined_group(self) -> None:
        """Has the step that has begun, perhaps under no rank, go on under the rank that is known now."""
        if self._process != os.getpid():
            return
        folder = self._folder()
        if folder != self._aimed_at:
            self._recorder.move_to(folder)
        self._update()

    def _aim(self) -> None:
        """Has this step recorded: its calls, too, where they are wanted."""
        self._aimed_at = self._folder()
        if self._started and not self._has_ended_forward:
            self._recorder.start(self._aimed_at)
        else:
            self._recorder.collect(self._aimed_at)

    def _update(self) -> None:
        """Puts everything in place, or takes it away, as this step asks for."""
        if self._process != os.getpid():
            return
        if self._started and self._is_wanted():
            self._aim()
            self._begin_jitter()
            if not self._installation.installed and self._settings.level != "debug":
                self._install()
        elif self._installation.installed or self._settings.level == "debug":
            try:
                if self._installation.installed:
                    self._installation.remove()
            finally:
                self._recorder.stop()

    def _install(self) -> None:
        try:
            self._installation.install(self._model, self._custom)
        except BaseException:
            self._started = False
            self._recorder.stop()
            self._end_jitter()
            raise

    def _begin_jitter(self) -> None:
        """Moves the inputs of the model, if that was asked for. They stay so until the capture is closed."""
        if self._jitter is None:
            return
        try:
            self._jitter.begin(self._model)
        except BaseException:
            self._started = False
            self._recorder.stop()
            self._end_jitter()
            raise

    def _end_jitter(self) -> None:
        if self._jitter is not None:
            self._jitter.end()

    def _reinstall(self) -> None:
        if self._installation.installed:
            self._installation.remove()
            self._update()
