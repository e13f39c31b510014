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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ulpscope._capture.lifecycle import ranks
from ulpscope._capture.settings import Settings
from ulpscope._core import Recorder

_log = logging.getLogger("ulpscope")

WOULD_OVERFLOW_CSV = "would_overflow.csv"
"""The file of a step with the calls whose values the dtype of ``would_overflow`` would lose."""

# A line is short; a file of another program with this name is not read on.
_MAX_BYTES = 1 << 24


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
        self._earlier = dict(self._ended_ranks())
        self.found: list[Overflow] = []
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

    def scaler_decided(self, skips: bool) -> str | None:
        """Counts the overflows that waited for the loss scaler, unless it skips the step; returns a note."""
        held, self._held, self.is_scaled = self._held, [], False
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
        own = self._file(ranks.current_rank() or 0)
        for file, ended in self._ended_ranks():
            if file != own and self._earlier.get(file) != ended:
                self.is_done = True
                _log.warning("overflow_check: %s", ended)
                if self._settings.on_overflow == "raise":
                    raise OverflowLimitError(ended)

    def write_would_overflow(self, rows: list[tuple[str, int, int, int]]) -> None:
        """Writes the calls of a step whose values would be lost."""
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
        if not self.found:
            _log.info("overflow_check: no call returned NaN or infinity that its inputs do not have")
            return
        first, skipped = self.found[0], sum(not one.counted for one in self.found)
        unwritten = sum(not one.written for one in self.found)
        if unwritten:
            _log.warning(
                "overflow_check: %d calls ran on a device and were found after they had returned: their "
                "tensors were not written, their stacks are in %s. To have the tensors, run again with "
                "device_statistics='host' (slower)",
                unwritten,
                self._file(first.rank),
            )
        _log.warning(
            "overflow_check: %d calls returned NaN or infinity that their inputs do not have (%d of them in "
            "steps that the loss scaler skipped); the first is %s in step %d: see ulpscope overflow %s",
            len(self.found),
            skipped,
            first.call,
            first.step,
            self._settings.dump_path,
        )

    def _add(self, overflow: Overflow) -> None:
        self._count += 1
        limit = self._settings.overflow_nums
        is_last = not self.is_done and limit != -1 and self._count >= limit
        _, folder = self._folder()
        ended = f"[overflow {self._count} times]: dump file is saved in '{folder}'." if is_last else None
        self._write(overflow, ended)
        if ended is not None:
            self.is_done = True
            if self._settings.on_overflow == "raise":
                raise OverflowLimitError(ended)
            _log.warning("overflow_check: %s Nothing more is checked", ended)

    def _write(self, overflow: Overflow, ended: str | None = None) -> None:
        self.found.append(overflow)
        line = dataclasses.asdict(overflow) | ({"ended": ended} if ended else {})
        if overflow.written:
            del line["stack"]
        with self._file(overflow.rank).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _file(self, rank: int) -> Path:
        return self._settings.dump_path / f"overflow_rank{rank}.jsonl"

    def _ended_ranks(self) -> Iterator[tuple[Path, str]]:
        """The files of ranks that have ended, with their message."""
        for file in sorted(self._settings.dump_path.glob("overflow_rank*.jsonl")):
            try:
                with file.open(encoding="utf-8") as lines:
                    text = lines.read(_MAX_BYTES)
                found = [json.loads(line) for line in text.splitlines() if '"ended"' in line]
            except (OSError, ValueError):
                continue
            if found and isinstance(found[-1], dict):
                yield file, f"{found[-1].get('ended')} (rank {found[-1].get('rank')})"


def _is_backward(call: str) -> bool:
    return call.endswith(".backward") or ".backward." in call


class LossScaling:
    """Asks torch's GradScaler whether it skips a step."""

    def __init__(self, watch: OverflowWatch, recorder: Recorder) -> None:
        self._watch = watch
        self._recorder = recorder

    def add(self, patches: Any) -> None:
        """Wraps ``scale`` and ``update`` of the class."""
        import torch

        kind = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        scale, update = kind.scale, kind.update

        def scale_noted(scaler: Any, outputs: Any) -> Any:
            if not scaler.is_enabled():
                return scale(scaler, outputs)
            self._watch.is_scaled = True
            self._recorder.set_scaling(True)
            try:
                return scale(scaler, outputs)
            finally:
                self._recorder.set_scaling(False)

        def update_noted(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            skips = self._watch.is_scaled and _found_inf(scaler)
            if self._watch.is_scaled:
                # What overflowed on a device belongs to this decision. The scaler has waited for it, too.
                self._recorder.judge_devices()
            result = update(scaler, *args, **kwargs)
            if self._watch.is_scaled:
                note = self._watch.scaler_decided(skips)
                if note is not None:
                    self._recorder.note(note)
            return result

        patches.add(kind, "scale", scale_noted)
        patches.add(kind, "update", update_noted)


def _found_inf(scaler: Any) -> bool:
    """Whether the scaler has found NaN or infinity in gradients since its last update."""
    import torch

    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        states = scaler._per_optimizer_states.values()
        return any(bool(found.item()) for state in states for found in state["found_inf_per_device"].values())
