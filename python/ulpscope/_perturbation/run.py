"""One run under perturbation: when calls are perturbed, and where the findings go.

It has the methods of capture's ``Run``, so that ``PrecisionDebugger`` drives either.
"""

from __future__ import annotations

import atexit
import dataclasses
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from ulpscope._capture.lifecycle import exclusive, folders, forks, ranks
from ulpscope._capture.lifecycle.forks import Owner
from ulpscope._capture.lifecycle.installation import Installation
from ulpscope._capture.lifecycle.installed_run import InstalledRun
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.modules import models
from ulpscope._capture.noise import seed
from ulpscope._capture.regions.compiled import untraced
from ulpscope._capture.settings import Settings
from ulpscope._capture.settings.perturb_settings import AMPLIFICATION, PerturbSettings
from ulpscope._perturbation.amplification import Amplification
from ulpscope._perturbation.findings import Finding, Findings
from ulpscope._perturbation.free_benchmark import FreeBenchmark
from ulpscope._perturbation.perturber import Perturber

CSV = "free_benchmark.csv"
"""With the columns of the guide."""

AMPLIFICATION_CSV = "perturbation.csv"
"""With one more column: the cause."""


class PerturbRun(InstalledRun):
    """Perturbs the calls of a program, step by step."""

    gives_way = False

    def __init__(
        self, settings: PerturbSettings, model: Any = None, perturber: Perturber | None = None
    ) -> None:
        """``perturber`` takes the place of the one that the settings ask for; then nothing is written."""
        _check_torch()
        if model is not None:
            models.roots_of(model)
        self.dump_path = settings.dump_path
        self._settings = settings
        self._model = model
        selection = Selection(settings)
        is_own = settings.pert_mode == AMPLIFICATION
        file = settings.dump_path / (AMPLIFICATION_CSV if is_own else CSV)
        self._writes = settings.handler_type != "fix" and perturber is None
        self._findings = Findings(file if self._writes else None, with_cause=is_own)
        kind = Amplification if is_own else FreeBenchmark
        self._perturber: Perturber = perturber or kind(settings, selection, self._findings)
        # Of capture's recorder it has what is asked of it at levels L0 and L1.
        recorder: Any = self._perturber
        super().__init__(Installation(_as_capture(settings), selection, recorder, self._joined_group))
        self._started = False
        self._closed = False
        self._owner = Owner(settings.dump_path)

    def __enter__(self) -> PerturbRun:
        self._installation.enter_block()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def findings(self) -> list[Finding]:
        """What was found so far, in order."""
        return list(self._findings.found)

    @property
    def steps_done(self) -> bool:
        """Whether every selected step is over."""
        return bool(self._settings.step) and self._perturber.step > max(self._settings.step)

    @untraced
    def start(self, model: Any = None) -> None:
        """Starts to perturb calls."""
        if self._closed:
            raise RuntimeError("this check is closed; make another with ulpscope.check.perturb(...)")
        if self._owner.is_elsewhere():
            return
        if model is not None:
            models.roots_of(model)
            self._model = model
        exclusive.check(self)
        if self._writes:
            # Report an unwritable place now, not in the middle of a run.
            folders.make(self._settings.dump_path)
        exclusive.begin(self)
        atexit.register(self.close)
        forks.started.add(self)
        self._started = True
        if not self.steps_done:
            seed.remove_dropout(self)
        self._perturber.is_collecting = True
        self._update()

    @untraced
    def stop(self) -> None:
        """Stops: calls after it, forward and backward, are not touched."""
        self._started = False
        forks.started.discard(self)
        if not self._owner.is_here:
            return
        try:
            seed.restore_dropout(self)
            self._perturber.is_collecting = False
            self._update()
        finally:
            exclusive.end(self)

    @untraced
    def end_forward(self) -> None:
        """Stops perturbing forward calls of this step; the backward stage goes on."""
        self._perturber.is_on = False

    @untraced
    def step(self) -> None:
        """Ends a step: calls are counted from 0 again."""
        if self._closed or not self._owner.is_here:
            return
        self._installation.next_step()
        self._perturber.next_step()
        if self.steps_done:
            seed.restore_dropout(self)
        self._update()

    def set_init_step(self, step: int) -> None:
        """Numbers steps from ``step`` on. Call it before the first ``start``."""
        self._perturber.step = dataclasses.replace(self._settings, init_step=step).init_step

    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Does nothing: values are saved by a capture at level debug."""

    def record_module(self, module: Any, name: str) -> None:
        """Refused: a module as one call is a capture's."""
        raise RuntimeError(f"task free_benchmark perturbs calls of functions, not the module {name!r}")

    def end_record_module(self) -> None:
        """Does nothing: see ``record_module``."""

    @untraced
    def close(self) -> None:
        """Ends the check, and restores torch."""
        if self._closed or not self._owner.is_here:
            return
        self._closed = True
        atexit.unregister(self.close)
        self.stop()
        self._perturber.next_step()

    def note_fork(self) -> None:
        """A process was forked: its calls are not perturbed."""
        self._perturber.note("a process was forked: what it calls is not perturbed")

    def step_aside(self, why: str) -> None:
        """Never called: a check does not yield."""

    def come_back(self) -> None:
        """Never called: see ``step_aside``."""

    def holds(self, dump_path: Path, rank_folder: str) -> bool:
        """Never: a check writes no folders of ranks."""
        return False

    def _joined_group(self) -> None:
        self._update()

    def _is_wanted(self) -> bool:
        steps, wanted, rank = self._settings.step, self._settings.rank, ranks.current_rank()
        is_wanted_rank = not wanted or rank is None or rank in wanted
        return is_wanted_rank and (not steps or self._perturber.step in steps)

    def _update(self) -> None:
        """Installs or removes everything, as this step requires."""
        if not self._owner.is_here:
            return
        is_wanted = self._started and self._is_wanted()
        self._perturber.is_on = is_wanted
        if is_wanted and not self._installation.installed:
            try:
                self._installation.install(self._model, self._custom)
            except BaseException:
                self._perturber.is_on = self._started = False
                exclusive.end(self)
                raise
        elif not is_wanted and self._installation.installed:
            self._installation.remove()


def _as_capture(settings: PerturbSettings) -> Settings:
    """The settings of a capture that sees the same calls."""
    shared = {field.name: getattr(settings, field.name) for field in dataclasses.fields(Settings)}
    return Settings(**(shared | {"task": "statistics", "level": settings.fuzz_level}))


def _check_torch() -> None:
    if int(torch.__version__.partition(".")[0]) < 2:
        raise RuntimeError(f"perturbation needs PyTorch 2.0 or newer; this is {torch.__version__}")
