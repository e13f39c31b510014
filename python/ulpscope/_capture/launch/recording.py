"""One recording of a whole program: from its import of torch to the last selected step, or to its end.

An optimizer's step ends a step. torch is not imported before the program imports it: environment variables
that a program sets for torch count.
"""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulpscope._capture.launch.after_import import after_import
from ulpscope._capture.launch.program import Program, hide_ourselves
from ulpscope._capture.lifecycle import folders, ranks
from ulpscope._capture.settings import Settings, SettingsError

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.run import Run


_NO_OVERFLOW = "overflow_check: no call returned NaN or infinity that its inputs do not have"


class Enough(SystemExit):
    """Ends the script of a dry run after its step. Scripts typically do not catch SystemExit."""


class Recording:
    """One run from the import of torch to the last selected step, or to the end of the script."""

    def __init__(self, settings: Settings, is_dry: bool = False) -> None:
        self._settings = settings
        self._is_dry = is_dry
        self._run: Run | None = None
        self._hook: Any = None
        self._has_torch = False
        self._has_recorded = False
        self._has_overflows = False
        self._steps_ended = 0
        self._has_ended = False
        self._process = os.getpid()
        # Fail before the script runs if the folder cannot be used.
        self._made = folders.make(settings.dump_path)
        # Check the lock before the script runs. The run takes it once torch is imported and the rank known.
        folders.FolderLock(settings.dump_path, ranks.folder_name(ranks.current_rank())).release()
        self._optimizer: weakref.ref[Any] | None = None

    def of(self, program: Program) -> None:
        """Runs and records the program. Its errors pass through without our frames."""
        waiting = after_import("torch", self._begin)
        try:
            program.run()
        except Enough:
            # The step was measured; the rest is not needed.
            pass
        except BaseException as error:
            hide_ourselves(error)
            waiting.cancel()
            try:
                # An error leaves an incomplete step.
                self._end(has_come_to_end=isinstance(error, SystemExit))
            except Exception as ours:
                # The program's own error takes precedence.
                print(f"ulpscope: error: the dump may be incomplete: {ours}", file=sys.stderr)
            raise
        waiting.cancel()
        self._end(has_come_to_end=True)

    def of_this_process(self) -> None:
        """Records the running program until it ends."""

        def begin() -> None:
            self._begin()
            # The run closes at exit. Functions registered later are called earlier.
            atexit.register(self._end_at_exit)

        atexit.register(self._end_at_exit)
        after_import("torch", begin)

    def _end_at_exit(self) -> None:
        if not self._has_ended:
            # Python stores the error that ended the program there.
            self._end(has_come_to_end=getattr(sys, "last_value", None) is None)

    def _end(self, has_come_to_end: bool) -> None:
        self._has_ended = True
        if self._hook is not None:
            self._hook.remove()
        if self._process != os.getpid():
            # A forked child reached the end of the script: the dump is its parent's, and not complete yet.
            return
        try:
            if self._run is not None and has_come_to_end:
                self._run.end_training()
            self._finish()
        finally:
            if self._is_dry:
                pass
            elif self._has_recorded:
                print(f"ulpscope: {self._what_was_recorded()}", file=sys.stderr)
            elif self._hook is not None or not self._has_torch:
                # Only if the script has not put something else there.
                folders.remove_empty(self._made)
                print(f"ulpscope: {self._why_nothing()}, nothing was recorded", file=sys.stderr)

    def _what_was_recorded(self) -> str:
        place = self._settings.dump_path
        if self._settings.task != "overflow_check" or self._has_overflows:
            return f"the dump is in {place}"
        if any(Path(place).glob("step*/*/dump.json")):
            return (
                f"{_NO_OVERFLOW}; the first call that passed NaN on, or returned the largest number of its "
                f"dtype, is in {place}"
            )
        counts = ", ".join(str(path) for path in sorted(Path(place).glob("step*/*/would_overflow.csv"))[:1])
        return f"{_NO_OVERFLOW}, so there is no dump" + (
            f"; the values that {self._settings.would_overflow} would lose are in {counts}" if counts else ""
        )

    def _why_nothing(self) -> str:
        wanted = self._settings
        if not self._has_torch:
            return "torch was not imported"
        if wanted.rank and (rank := ranks.current_rank()) is not None and rank not in wanted.rank:
            return f"rank {rank} is not selected"
        if wanted.step and min(wanted.step) > self._steps_ended:
            return f"step {min(wanted.step)} was not reached"
        if wanted.task == "overflow_check":
            return _NO_OVERFLOW
        return "no call of torch was seen"

    def _begin(self) -> None:
        self._has_torch = True
        try:
            self._start()
        except SettingsError as error:
            print(f"ulpscope: error: {error}; nothing is recorded", file=sys.stderr)
        except Exception as error:
            # Our error must not break the script's import of torch.
            if self._settings.strict:
                raise
            print(f"ulpscope: error: {_in_words(error)}; nothing is recorded", file=sys.stderr)

    def _start(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from ulpscope._capture.lifecycle.run import Run

        run = Run(self._settings, gives_way=True)
        run.start()
        self._run = run
        self._hook = register_optimizer_step_post_hook(self._after_optimizer_step)

    def _after_optimizer_step(self, optimizer: Any, args: Any, keywords: Any) -> None:
        # With several optimizers, the first one to step ends the step: one iteration is one step.
        beat = self._optimizer() if self._optimizer else None
        if beat is None:
            self._optimizer = weakref.ref(optimizer)
        elif beat is not optimizer:
            return
        try:
            self._step()
        except Exception as error:
            if self._settings.strict or _ends_run(error):
                raise
            print(f"ulpscope: error: the dump may be incomplete: {_in_words(error)}", file=sys.stderr)

    def _step(self) -> None:
        if self._run is not None:
            self._run.step()
            self._steps_ended += 1
            if self._run.steps_done:
                # The hook stays: torch is iterating over its hooks now.
                self._finish()
                if self._is_dry:
                    raise Enough

    def _finish(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            # If closing fails, its error says what may be missing.
            self._has_recorded = True
            run.close()
            self._has_overflows = bool(run.overflows)
            self._has_recorded = run.has_recorded


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _ends_run(error: Exception) -> bool:
    """Whether a check ends the program on purpose."""
    # Not imported before the program imports torch.
    from ulpscope._capture.lifecycle.overflow_watch import OverflowLimitError

    return isinstance(error, OverflowLimitError)
