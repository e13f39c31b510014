"""``register_hook`` and ``set_dump_path``: which file is recorded to, and with which settings of capture."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from pathlib import Path
from typing import Any

from ulpscope._capture.lifecycle.run import Run
from ulpscope._capture.noise import seed as seeding
from ulpscope._capture.overflow_check import OverflowCheck
from ulpscope._capture.settings import Settings, SettingsError
from ulpscope.compat.arguments import check_registered
from ulpscope.compat.torch_npu_hooks import place
from ulpscope.compat.torch_npu_hooks.overflow import OverflowReport
from ulpscope.compat.torch_npu_hooks.steps import Schedule, step_schedule

_log = logging.getLogger("ulpscope.compat.torch_npu_hooks")

# The tool's number of sampled elements.
_SAMPLED = 10

# What capture does as the tool does it.
_AS_THE_TOOL: dict[str, Any] = {"inner_calls": True, "gradients": "last_node", "stacks": False}

_KEYWORDS = ("seed", "sample", "path", "schedule", "capacity")


def seed_all(seed: int = 1234) -> None:
    """Seeds Python, numpy and torch."""
    seeding.seed_all(seed)


def wrap_acc_cmp_hook(*_: Any, **__: Any) -> None:
    """For ``register_hook``: a dump for a comparison, as text."""
    raise TypeError("wrap_acc_cmp_hook is an argument of register_hook(model, wrap_acc_cmp_hook)")


def wrap_async_datadump_hook(*_: Any, **__: Any) -> None:
    """For ``register_hook``: a dump of whole tensors as .npy files."""
    raise TypeError(
        "wrap_async_datadump_hook is an argument of register_hook(model, wrap_async_datadump_hook)"
    )


def wrap_checkoverflow_hook(*_: Any, **__: Any) -> None:
    """For ``register_hook``: an error at the first call that overflows."""
    raise TypeError("wrap_checkoverflow_hook is an argument of register_hook(model, wrap_checkoverflow_hook)")


class _Dumping:
    """The recording of this process: at most one, into one file or folder."""

    def __init__(self) -> None:
        self._run: Run | None = None
        self._schedule = Schedule()
        self._is_started = False
        self._file: Path | None = None
        self._sample: int | str | None = None
        self._process = os.getpid()
        step_schedule.listen(self._end_step, self._update)

    def set_file(self, file: Path) -> None:
        """Ends the recording into the last file, and begins one into this file. Files of tensors go on."""
        if self._sample is not None:
            self.close()
        place.clear(file)
        self._file = file
        self._process = os.getpid()
        if self._sample is not None:
            self._begin(self._lines())

    def compare_calls(self, sample: bool, schedule: Schedule) -> None:
        """Registers the dump for a comparison; it begins when there is a file."""
        if self._sample is None:
            # The tensors of a dump that was registered before are complete.
            self.close()
        wanted: int | str = _SAMPLED if sample else "all"
        if self._run is not None and self._sample != wanted:
            self._end_empty_file()
        self._schedule = schedule
        self._sample = wanted
        if self._run is None and self._file is not None:
            self._begin(self._lines())
        else:
            self._update()

    def save_tensors(self, folder: Path, schedule: Schedule) -> None:
        """Registers the dump of whole tensors, which begins at once."""
        self.close()
        self._sample = None
        self._schedule = schedule
        self._begin(
            Settings(
                dump_path=folder / "ulpscope.journal",
                layout="torch_npu_hooks_async",
                layout_path=place.of_folder(folder),
                task="tensor",
                file_format="npy",
                strides=True,
                **_AS_THE_TOOL,
            )
        )

    def flush(self) -> None:
        """Writes what was recorded so far."""
        if self._run is not None and self._is_started:
            self._run.stop()
            self._run.start()

    def close(self) -> None:
        """Ends the recording."""
        run, self._run, self._is_started = self._run, None, False
        if run is not None:
            run.close()

    def reset(self) -> None:
        """Ends the recording, and forgets what was registered and set."""
        self.close()
        self._schedule = Schedule()
        self._file = self._sample = None

    def warn_if_pathless(self) -> None:
        """Says at the end of the process that nothing was recorded for lack of a path."""
        if self._sample is not None and self._file is None and self._process == os.getpid():
            _log.warning("register_hook without set_dump_path: nothing was dumped; call set_dump_path(file)")

    def _end_empty_file(self) -> None:
        """Ends the recording into a file that has no lines yet: a file has one kind of lines."""
        assert self._file is not None
        self.flush()
        written = place.in_this_process(self._file)
        if written.exists() and written.stat().st_size:
            raise RuntimeError(
                f"register_hook: {written} has lines of a different sample; call set_dump_path with another "
                "file first"
            )
        self.close()

    def _lines(self) -> Settings:
        assert self._file is not None
        return Settings(
            dump_path=place.journal_of(self._file),
            layout="torch_npu_hooks",
            layout_path=place.of_file(self._file),
            sample=self._sample,  # type: ignore[arg-type]
            **_AS_THE_TOOL,
        )

    def _begin(self, settings: Settings) -> None:
        self._process = os.getpid()
        self._run = Run(settings)
        self._is_started = False
        self._update()

    def _update(self) -> None:
        """Records or pauses, as the schedule says for the current step."""
        if self._run is None or self._process != os.getpid():
            return
        wanted = self._schedule.is_enabled(step_schedule.step_num)
        if wanted != self._is_started:
            self._is_started = wanted
            self._run.start() if wanted else self._run.stop()

    def _end_step(self, following: int) -> None:
        if self._run is None or self._process != os.getpid():
            return
        if self._is_started and not self._schedule.is_enabled(following):
            self._is_started = False
            self._run.stop()
        self._run.step()


_dumping = _Dumping()
_overflow: OverflowCheck | None = None
atexit.register(_dumping.warn_if_pathless)


def flush() -> None:
    """Writes what was recorded so far, so that it can be compared."""
    _dumping.flush()


def close() -> None:
    """Ends the recording and forgets the file. Without it recording goes on until the process ends."""
    global _overflow
    _dumping.reset()
    if _overflow is not None:
        _overflow.stop()
        _overflow = None
    step_schedule.reset_step()


def set_dump_path(fpath: str | os.PathLike[str] | None = None) -> None:
    """Sets the file of the dump. A file of that name is replaced, and numbering starts at 0."""
    if fpath is None or not isinstance(fpath, str | os.PathLike) or not os.fspath(fpath):
        raise RuntimeError(
            f"set_dump_path: fpath is {fpath!r}; give the path of a file, as ./cpu_module_op.pkl"
        )
    file = Path(fpath).absolute()
    if file.is_dir():
        raise RuntimeError(f"set_dump_path: {str(fpath)!r} is a folder; give the path of a file")
    if not file.parent.is_dir():
        raise RuntimeError(f"set_dump_path: there is no folder {str(file.parent)!r}; create it first")
    if not os.access(file.parent, os.W_OK):
        raise RuntimeError(f"set_dump_path: the folder {str(file.parent)!r} cannot be written to")
    try:
        _dumping.set_file(file)
    except SettingsError as error:
        raise RuntimeError(f"set_dump_path: {str(fpath)!r} is in use: {error.problem}") from None


def register_hook(model: Any, hook: Any, **kwargs: Any) -> None:
    """Switches one of the three hooks on, for all calls of this process."""
    check_registered(model, kwargs, _KEYWORDS)
    chosen = kwargs.get("schedule") or Schedule()
    if not isinstance(chosen, Schedule):
        raise TypeError(f"register_hook: schedule is {chosen!r}; expected schedule(begin, end, stride)")
    sample = kwargs.get("sample", True)
    if not isinstance(sample, bool):
        raise TypeError(f"register_hook: sample is {sample!r}; expected True or False")
    if hook not in (wrap_acc_cmp_hook, wrap_async_datadump_hook, wrap_checkoverflow_hook):
        raise TypeError(
            f"register_hook: hook is {hook!r}; expected wrap_acc_cmp_hook, wrap_async_datadump_hook or "
            "wrap_checkoverflow_hook"
        )
    seed_all(kwargs.get("seed", 1234))
    if hook is wrap_acc_cmp_hook:
        _dumping.compare_calls(sample, chosen)
    elif hook is wrap_async_datadump_hook:
        _mention_runtime_setting()
        _dumping.save_tensors(_folder(kwargs.get("path", "./")), chosen)
    else:
        _check_overflow()


def _folder(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise TypeError(f"register_hook: path is {path!r}; give the folder of the tensors, as ./output")
    folder = Path(path).absolute()
    if any(part.exists() and not part.is_dir() for part in (folder, *folder.parents)):
        raise RuntimeError(f"register_hook: path is {str(path)!r}, which is a file; give a folder")
    return folder


def _mention_runtime_setting() -> None:
    if "torch_npu" in sys.modules and "OutfeedEnqueueOpV2" not in os.environ.get("RUNTIME_V2_BLACKLIST", ""):
        _log.info(
            "RUNTIME_V2_BLACKLIST=OutfeedEnqueueOpV2 is not set, and not needed: tensors are copied without "
            "that operator"
        )


def _check_overflow() -> None:
    global _overflow
    if _overflow is None:
        report = OverflowReport()
        _overflow = OverflowCheck(report.report, report.decide)
        _overflow.start()
    _overflow.clear()
