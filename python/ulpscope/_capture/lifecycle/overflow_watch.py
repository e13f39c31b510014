"""Counts the overflows of a run, and ends it or its check at the number that the user set.

    recorder ──► overflowed ──► expected by a loss scaler? ──► counted ──► enough? ──► the end
    other ranks ──► overflow_rank{R}.jsonl ──► look_at_other_ranks ──┘

Each overflow is a line of ``overflow_rank{R}.jsonl`` in the dump folder, which is there even if the run is
killed. Ranks read the files of the others at the end of a step: all of them end when one has enough.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
from collections.abc import Callable
from pathlib import Path

from ulpscope._capture.lifecycle import ranks
from ulpscope._capture.lifecycle.failures import Failures
from ulpscope._capture.lifecycle.overflow_files import OverflowFiles
from ulpscope._capture.npu_overflow_flag import overflow_flag
from ulpscope._capture.settings import Settings
from ulpscope._core import Recorder

_log = logging.getLogger("ulpscope")

# Overflows that are kept in memory, with their stacks. The files have all.
_MAX_KEPT = 1000

WOULD_OVERFLOW_CSV = "would_overflow.csv"
"""The file of a step with the calls whose values the dtype of ``would_overflow`` would lose."""


class OverflowLimitError(ValueError):
    """The number of overflows that ends the run was reached, here or on another rank."""

    # Tracebacks show the name under which users catch it.
    __module__ = "ulpscope"


@dataclasses.dataclass(frozen=True)
class Overflow:
    """A call that returned NaN or infinity that its inputs do not have."""

    step: int
    """The step it ran in."""
    rank: int
    """The rank that ran it; 0 for a single process."""
    call: str
    """Its name in the dump: ``Torch.div.0.forward``."""
    counted: bool
    """False if a loss scaler skips the step for it."""
    written: bool
    """False if it ran on a device, which showed it when the call had returned: its tensors were not kept."""
    stack: tuple[str, ...]
    """The frames of such a call, innermost first; those of the others are in the dump."""


class OverflowWatch:
    """Counts what the recorder reports."""

    def __init__(self, settings: Settings, folder: Callable[[], tuple[int, Path | None]]) -> None:
        """``folder`` returns the current step, and its folder."""
        self._settings = settings
        self._folder = folder
        self._count = 0
        self._held: list[Overflow] = []
        self._files = OverflowFiles(settings.dump_path)
        self._flag = overflow_flag()
        self.has_flag = self._flag is not None
        # The first ones; all are counted.
        self.found: list[Overflow] = []
        self._all = self._skipped = self._unwritten = 0
        self.is_done = False
        # Whether a loss scaler decides about the overflows of the backward pass.
        self.is_scaled = False

    def overflowed(self, call: str, kind: str, is_scaling: bool, frames: str | None) -> bool:
        """Counts a call; returns whether the check is over. Raises if the run is to end.

        ``is_scaling``: a loss scaler multiplied the loss with it. ``frames``: the stack of a call on a
        device, as a list in JSON.
        """
        step, _ = self._folder()
        stack = () if frames is None else tuple(json.loads(frames))
        overflow = Overflow(step, ranks.current_rank() or 0, call, True, frames is None, stack)
        if self.is_scaled and kind == "born" and (is_scaling or _is_backward(call)):
            self._held.append(overflow)
        else:
            self._add(overflow)
        return self.is_done

    def take_flag(self) -> bool:
        """Whether a calculation has set the overflow flag of an NPU since the last time; clears it."""
        is_set = self._flag is not None and self._flag.is_set()
        if is_set:
            self.clear_flag()
        return is_set

    def clear_flag(self) -> None:
        """Clears the flag: what overflowed so far is not for the next call."""
        if self._flag is not None:
            self._flag.clear()

    def set_scaling(self, is_scaling: bool) -> None:
        """A loss scaler multiplies the loss, or has done so."""
        self._recorder.set_scaling(is_scaling)

    def scaler_decided(self, skips: bool) -> None:
        """Counts the overflows that waited for the loss scaler, unless it skips the step."""
        # What overflowed on a device belongs to this decision. The scaler has waited for it, too.
        try:
            self._recorder.judge_devices()
        finally:
            self.is_scaled = False
        note = self._decided(skips)
        if note is not None:
            self._recorder.note(note)

    def watch(self, recorder: Recorder) -> None:
        """Sets the recorder that reports."""
        self._recorder = recorder
        self._failures = Failures(recorder.note, self._settings.strict)

    def _decided(self, skips: bool) -> str | None:
        """Counts what was held; returns a note."""
        held, self._held = self._held, []
        if not skips:
            for overflow in held:
                self._add(overflow)
            return None
        for overflow in held:
            self._write(dataclasses.replace(overflow, counted=False))
        if not held:
            return None
        return (
            f"overflow: {len(held)} calls of the scaled loss overflowed in a step that the loss scaler skips "
            f"(the first is {held[0].call}): expected, and not counted"
        )

    def look_at_other_ranks(self) -> None:
        """Raises if another rank has reached the number, and that ends the run."""
        if self.is_done or not ranks.is_one_of_several():
            return
        ended = self._files.ended_elsewhere()
        if ended is not None:
            self.is_done = True
            _log.warning("overflow_check: %s", ended)
            if self._settings.on_overflow == "raise":
                raise OverflowLimitError(ended)

    def write_would_overflow(self) -> None:
        """Writes the calls of a step whose values would be lost."""
        rows = self._recorder.take_would_overflow()
        _, folder = self._folder()
        if not rows or folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / WOULD_OVERFLOW_CSV).open("w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(
                ["call", "dtype", "values", "overflows", "underflows", "overflow share", "underflow share"]
            )
            for call, values, overflows, underflows in rows:
                shares = (f"{lost / max(values, 1):.6g}" for lost in (overflows, underflows))
                out.writerow([call, self._settings.would_overflow, values, overflows, underflows, *shares])

    def report(self) -> None:
        """Logs what was found, at the end."""
        if self._held:
            _log.warning("overflow_check: the loss scaler did not decide about %d overflows", len(self._held))
        self._report_all_ranks()
        if not self.found:
            _log.info("overflow_check: no call returned NaN or infinity that its inputs do not have")
            return
        first = self.found[0]
        if self._unwritten:
            _log.warning(
                "overflow_check: %d calls ran on a device and were found after they had returned: their "
                "tensors were not written, their stacks are in %s. To have the tensors, run again with "
                "device_statistics='host' (slower)",
                self._unwritten,
                self._files.file(first.rank),
            )
        _log.warning(
            "overflow_check: %d calls returned NaN or infinity that their inputs do not have (%d of them in "
            "steps that the loss scaler skipped); the first is %s in step %d: see ulpscope overflow %s",
            self._all,
            self._skipped,
            first.call,
            first.step,
            self._settings.dump_path,
        )

    def _report_all_ranks(self) -> None:
        """Logs the first step with an overflow on any rank, as far as the ranks have written."""
        if not ranks.is_one_of_several():
            return
        earliest: int | None = None
        firsts: dict[int, str] = {}
        for line in self._files.lines():
            step, rank = line.get("step"), line.get("rank", 0)
            if not isinstance(step, int) or not isinstance(rank, int):
                continue
            if earliest is None or step < earliest:
                earliest, firsts = step, {}
            if step == earliest:
                firsts.setdefault(rank, str(line.get("call")))
        if firsts:
            _log.warning(
                "overflow_check: over all ranks, the first overflow is in step %d: %s",
                earliest,
                ", ".join(f"{call} (rank {rank})" for rank, call in sorted(firsts.items())),
            )

    def _add(self, overflow: Overflow) -> None:
        self._count += 1
        limit = self._settings.overflow_nums
        is_last = not self.is_done and limit != -1 and self._count >= limit
        _, folder = self._folder()
        ended = f"[overflow {self._count} times]: dump file is saved in '{folder}'." if is_last else None
        self.is_done = self.is_done or is_last
        self._write(overflow, ended)
        if ended is not None:
            if self._settings.on_overflow == "raise":
                raise OverflowLimitError(ended)
            _log.warning("overflow_check: %s Nothing more is checked", ended)

    def _write(self, overflow: Overflow, ended: str | None = None) -> None:
        self._all += 1
        self._skipped += not overflow.counted
        self._unwritten += not overflow.written
        if len(self.found) < _MAX_KEPT:
            self.found.append(overflow)
        line = dataclasses.asdict(overflow) | ({"ended": ended} if ended else {})
        if overflow.written:
            del line["stack"]
        try:
            self._files.append(overflow.rank, line)
        except OSError as error:
            # It counts, even on a full disk.
            self._failures.hold_back(overflow.call, error)


def _is_backward(call: str) -> bool:
    return call.endswith(".backward") or ".backward." in call
