"""One run under capture: when it records.

start, stop, step ──► is this step of this rank selected? ──► Installation.install ──► Recorder ──► journal
                                                          └──► Installation.remove

From start to stop no other run records (``exclusive.py``). The run owns its folders until it is closed
(``destination.py``).
"""

from __future__ import annotations

import atexit
import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from ulpscope._capture.lifecycle import exclusive, folders, forks, working_folder
from ulpscope._capture.lifecycle.destination import Destination
from ulpscope._capture.lifecycle.failures import Failures
from ulpscope._capture.lifecycle.forks import Owner
from ulpscope._capture.lifecycle.front import Front
from ulpscope._capture.lifecycle.installation import Installation
from ulpscope._capture.lifecycle.installed_run import InstalledRun
from ulpscope._capture.lifecycle.loss_scaling import LossScaling
from ulpscope._capture.lifecycle.overflow_watch import (
    WOULD_OVERFLOW_CSV,
    Overflow,
    OverflowLimitError,
    OverflowWatch,
)
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.modules import models
from ulpscope._capture.noise import seed
from ulpscope._capture.noise.jitter import Jitter
from ulpscope._capture.regions.compiled import untraced
from ulpscope._capture.settings import Settings
from ulpscope._capture.values.saving import Savings
from ulpscope._core import Recorder

_log = logging.getLogger("ulpscope")


class Run(InstalledRun):
    """Records the calls of a program, step by step; see ``ulpscope.capture``."""

    def __init__(self, settings: Settings, model: Any = None, gives_way: bool = False) -> None:
        self.gives_way = gives_way
        self.dump_path = settings.dump_path
        self._settings = settings
        if model is not None:
            models.roots_of(model)
        self._model = model
        self._selection = Selection(settings)
        self._reported: set[str] = set()
        self._watch = OverflowWatch(settings, self._where) if settings.task == "overflow_check" else None
        self._recorder = Recorder(Front(self._selection, self._reported, self._watch), settings)
        scaling = None
        if self._watch is not None:
            self._watch.watch(self._recorder)
            scaling = LossScaling(self._watch)
        self._jitter = None if settings.jitter is None else Jitter(settings.jitter, self._recorder.note)
        super().__init__(
            Installation(settings, self._selection, self._recorder, self._joined_group, self._jitter, scaling)
        )
        self._failures = Failures(self._recorder.note, settings.strict)
        self._savings = Savings(self._recorder, self._failures)
        self._step = settings.init_step
        self._destination = Destination(settings)
        # The folder of the current step.
        self._aimed_at: Path | None = None
        # Where the last step was recorded.
        self._last_folder: Path | None = None
        # Why a started run does not record: another capture has precedence.
        self._aside: str | None = None
        self._has_given_way = False
        self._started = False
        self._has_ended_forward = False
        self._closed = False
        self._closes_at_exit = False
        self._owner = Owner(settings.dump_path)

    def __enter__(self) -> Run:
        self._installation.enter_block()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def steps_done(self) -> bool:
        """Whether every selected step is over."""
        return bool(self._settings.step) and self._step > max(self._settings.step)

    @property
    def overflows(self) -> list[Overflow]:
        """With task overflow_check: the calls found so far, in order; at most the first 1,000."""
        return [] if self._watch is None else list(self._watch.found)

    @property
    def has_recorded(self) -> bool:
        """Whether there is a dump of a step."""
        return any(folder and folder.exists() for folder in (self._aimed_at, self._last_folder))

    @untraced
    def start(self, model: Any = None) -> None:
        """Starts recording. Without a model, levels L0 and mix use the first module that is called."""
        self._check_open()
        if self._owner.is_elsewhere():
            return
        if model is not None:
            models.roots_of(model)
        takes_turn = self._settings.level != "debug" or self.gives_way
        if takes_turn:
            # A refused start leaves nothing behind, not even a folder.
            exclusive.check(self)
        # Report an unwritable place now, not in the middle of a run.
        made = folders.make(self._settings.dump_path)
        had_folders = self._destination.is_taken
        try:
            if self._destination.is_wanted_rank():
                self._destination.take()
            if takes_turn:
                exclusive.begin(self)
            if model is not None:
                self._model = model
            self._begin()
        except BaseException:
            if not had_folders:
                self._withdraw(made)
            raise

    def _begin(self) -> None:
        if not self._closes_at_exit:
            # The dump is complete even if the program ends without close().
            atexit.register(self.close)
            self._closes_at_exit = True
        self._started = True
        if self._watch is not None:
            self._watch.clear_flag()
        forks.started.add(self)
        self._has_ended_forward = False
        if not self.steps_done:
            seed.remove_dropout(self)
        self._update()

    def _withdraw(self, made: list[Path]) -> None:
        """Undoes a first start that was refused: no lock, no folder, nothing to write later."""
        try:
            self._end_early()
        finally:
            self._aimed_at = None
            self._recorder.withdraw()
            self._destination.release()
            folders.remove_empty(made)

    @untraced
    def stop(self) -> None:
        """Stops recording until the next ``start``. The calls recorded so far are in the dump."""
        self._started = False
        forks.started.discard(self)
        self._aside = None
        if not self._owner.is_here:
            return
        try:
            seed.restore_dropout(self)
            self._update()
        finally:
            exclusive.end(self)

    def step_aside(self, why: str) -> None:
        """Pauses recording until ``come_back``; the ledger of each affected step has the reason."""
        if not self._has_given_way:
            _log.warning("ulpscope run gives way to the script while its own capture records: %s", why)
            self._has_given_way = True
        self._aside = why
        self._update()

    def come_back(self) -> None:
        """Resumes after ``step_aside``."""
        self._aside = None
        self._go_on()

    def _go_on(self) -> None:
        """Applies the step's settings in the middle of a program, which must not see our errors."""
        try:
            self._update()
        except Exception as error:
            if self._settings.strict:
                raise
            self._end_early()
            _log.error("recording ends, and the run goes on without it: %s", error)

    def note_fork(self) -> None:
        """Notes in the ledger that a forked process is not recorded."""
        if self._owner.is_here and self._aimed_at is not None:
            self._recorder.note("a process was forked: what it calls is not recorded")

    def holds(self, dump_path: Path, rank_folder: str) -> bool:
        """Whether this run writes to these folders."""
        return self._destination.holds(dump_path, rank_folder)

    @untraced
    def end_forward(self) -> None:
        """Stops recording calls of this step. The backward pass of recorded calls is still recorded."""
        self._has_ended_forward = True
        self._recorder.end_forward()

    @untraced
    def step(self) -> None:
        """Ends a step: its dump is complete, and call numbers start at 0 again."""
        if self._closed or not self._owner.is_here:
            return
        self._savings.flush()
        self._note_unmatched()
        self._installation.next_step()
        ending = self._end_step_of_check()
        # A step without calls has a dump too, which says so.
        self._recorder.next_step(self._started and self._is_wanted(), self._next_folder())
        self._clear_working_folder()
        self._step += 1
        self._last_folder, self._aimed_at = self._aimed_at or self._last_folder, None
        self._has_ended_forward = False
        if self.steps_done:
            seed.restore_dropout(self)
        was_installed = self._installation.installed
        self._go_on()
        if was_installed:
            self._installation.begin_step()
        if ending is not None:
            raise ending

    def _where(self) -> tuple[int, Path | None]:
        return self._step, self._aimed_at

    def _end_step_of_check(self) -> OverflowLimitError | None:
        """What a check learns at the end of a step; returns the error that ends the run, if one does."""
        if self._watch is None:
            return None
        ending = None
        parts: dict[str, Callable[[], None]] = {
            WOULD_OVERFLOW_CSV: self._watch.write_would_overflow,
            "overflows on devices": self._recorder.judge_devices,
            "overflows of other ranks": self._watch.look_at_other_ranks,
        }
        for what, learn in parts.items():
            try:
                learn()
            except OverflowLimitError as error:
                ending = ending or error
            except Exception as error:
                self._failures.hold_back(what, error)
        return ending

    @untraced
    def end_training(self) -> None:
        """Ends training: calls after the last step are no step, unless they include a backward pass.

        They go to a separate folder after all steps. Before the end of the first step all calls belong to it.
        """
        is_first = self._step == self._settings.init_step
        if self._aimed_at is None or is_first or self._installation.has_backward or not self._owner.is_here:
            return
        self._aimed_at = self._destination.after_last_step(self._aimed_at)
        self._recorder.move_to(self._aimed_at)

    def set_init_step(self, step: int) -> None:
        """Numbers steps from ``step`` on. Call it before the first ``start``."""
        self._step = dataclasses.replace(self._settings, init_step=step).init_step

    @untraced
    def save(self, variable: Any, name: str, save_backward: bool = True) -> None:
        """Records a value, and the gradients of its tensors, under the name that you pass."""
        if not isinstance(name, str) or not name:
            raise ValueError(f"name: expected a text, found {name!r}")
        self._check_open()
        if self._owner.is_elsewhere():
            return
        self._follow_rank()
        if self._is_wanted():
            self._destination.take()
            self._aim()
            self._savings.save(variable, name, save_backward)

    @untraced
    def record_module(self, module: Any, name: str) -> None:
        """Records the calls of ``module`` as ``name``, and nothing else until ``end_record_module``.

        A name such as ``Module.block.Block`` is numbered as a module's: ``Module.block.Block.forward.0``.
        """
        self._custom[module, "forward"] = (name, "")
        self._installation.only_custom = True
        self._reinstall()

    @untraced
    def end_record_module(self) -> None:
        """Undoes ``record_module``. The backward pass of the recorded calls is still recorded."""
        self._installation.only_custom = False
        self._custom = {key: name for key, name in self._custom.items() if name[1]}
        self._reinstall()

    @untraced
    def close(self) -> None:
        """Ends the capture: the dump is complete, and torch is restored."""
        if self._closed or not self._owner.is_here:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            # Record the gradients received so far while recording is still on.
            self._savings.flush()
        finally:
            try:
                self.stop()
            finally:
                try:
                    self._end_recording()
                finally:
                    self._end_jitter()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("this capture is closed; make another with ulpscope.capture(...)")

    def _end_recording(self) -> None:
        try:
            # Nothing is left that an error could end.
            self._end_step_of_check()
            self._note_unmatched()
            self._recorder.next_step(False, None)
            self._clear_working_folder()
            self._destination.report_earlier_steps(self._recorder, (self._aimed_at, self._last_folder))
            if self._watch is not None:
                self._watch.report()
        finally:
            self._destination.release()
            if self._settings.layout != "msprobe":
                working_folder.remove(self._settings.dump_path)

    def _clear_working_folder(self) -> None:
        """Removes what a finished step leaves beside the files of its layout."""
        if self._settings.layout == "msprobe" or self._aimed_at is None:
            return
        for report in working_folder.clear_step(self._aimed_at):
            if report not in self._reported:
                self._reported.add(report)
                written = working_folder.layout_file(self._settings.layout_path, self._aimed_at)
                _log.warning("%s: %s", written, report)

    def _note_unmatched(self) -> None:
        """Notes patterns that matched nothing in this step; logs each once."""
        for note in self._selection.take_notes() if self._aimed_at is not None else ():
            self._recorder.note(note)
            if note not in self._reported:
                self._reported.add(note)
                _log.warning("%s", note)

    def _is_wanted(self, step: int | None = None) -> bool:
        step = self._step if step is None else step
        if self._watch is not None and self._watch.is_done:
            return False
        return (not self._settings.step or step in self._settings.step) and self._destination.is_wanted_rank()

    def _next_folder(self) -> Path | None:
        """The folder of the next step; None if the step is not selected."""
        following = self._step + 1
        return self._destination.folder(following) if self._started and self._is_wanted(following) else None

    def _joined_group(self) -> None:
        if not self._owner.is_here:
            return
        try:
            self._follow_rank()
        except Exception as error:
            if self._settings.strict:
                raise
            _log.error("%s; recording ends", error)
            self.stop()
        self._go_on()

    def _follow_rank(self) -> None:
        """Continues the current step under the rank that is known now."""
        if self._aimed_at is None:
            return
        if not self._destination.is_wanted_rank():
            self._discard_step(self._aimed_at)
            return
        folder = self._destination.folder(self._step)
        if folder != self._aimed_at:
            self._destination.take()
            self._recorder.move_to(folder)
            self._aimed_at = folder

    def _discard_step(self, folder: Path) -> None:
        """Deletes a step that began before its rank was known and turned out not to be selected."""
        self._aimed_at = None
        if self._installation.installed:
            self._installation.remove()
        self._savings.forget()
        self._recorder.stop()
        self._end_recording()
        folders.discard(folder)

    def _aim(self) -> None:
        """Points the recorder at this step; its calls are recorded only if selected."""
        self._aimed_at = self._destination.folder(self._step)
        if self._started and not self._has_ended_forward:
            self._recorder.start(self._aimed_at)
        else:
            self._recorder.collect(self._aimed_at)

    def _update(self) -> None:
        """Installs or removes everything, as this step requires."""
        if not self._owner.is_here:
            return
        wanted = self._started and self._is_wanted()
        if wanted and self._aside is None:
            self._aim()
            self._begin_jitter()
            if not self._installation.installed and self._settings.level != "debug":
                self._install()
        elif self._installation.installed or self._aside is not None or self._settings.level == "debug":
            try:
                if self._installation.installed:
                    self._installation.remove()
                if wanted and self._aside is not None:
                    # A step without any other record says why, too.
                    self._aimed_at = self._destination.folder(self._step)
                    self._recorder.collect(self._aimed_at)
                    self._recorder.note(self._aside)
            finally:
                self._recorder.stop()

    def _install(self) -> None:
        try:
            self._installation.install(self._model, self._custom)
        except BaseException:
            self._end_early()
            raise

    def _begin_jitter(self) -> None:
        """Perturbs the model's inputs, if requested. They stay so until the capture is closed."""
        if self._jitter is None:
            return
        try:
            self._jitter.begin(self._model)
        except BaseException:
            self._end_early()
            raise

    def _end_early(self) -> None:
        """Ends recording: installation failed."""
        self._started = False
        forks.started.discard(self)
        seed.restore_dropout(self)
        self._recorder.stop()
        exclusive.end(self)
        self._end_jitter()

    def _end_jitter(self) -> None:
        if self._jitter is not None:
            self._jitter.end()
