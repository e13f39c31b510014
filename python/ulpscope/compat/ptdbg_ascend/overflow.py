"""The files and the error of ``overflow_check``: one pkl and one folder of arrays per call that overflows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import ulpscope
from ulpscope._capture.lifecycle import ranks
from ulpscope._capture.lifecycle.overflow_files import OverflowFiles
from ulpscope._capture.overflow_check import Overflow, OverflowCheck
from ulpscope.compat.ptdbg_ascend.place import Place
from ulpscope.compat.ptdbg_ascend.recording import log
from ulpscope.compat.ptdbg_ascend.replay_files import ReplayFiles

# The tool's number of the lines of an overflow.
_DUMP_STEP = 101


def check_overflow_nums(number: object) -> int:
    """How many overflows end training; -1: none does."""
    if isinstance(number, bool) or not isinstance(number, int) or (number != -1 and number <= 0):
        raise ValueError(f"overflow_nums is {number!r}; expected a number above 0, or -1 for no end")
    return number


class Overflows:
    """Counts the overflows of this process, and saves each. All ranks end when one has enough."""

    def __init__(
        self,
        place: Place,
        limit: int,
        rank: int | None,
        is_filtered: bool = False,
        need_replicate: bool = False,
    ) -> None:
        self._place = place
        self._limit = limit
        self._rank = rank
        self._count = 0
        # Those that a loss scaler skips are saved, and not counted.
        self._saved = 0
        self._held: list[Path] = []
        self._step = 0
        self._files = OverflowFiles(place.folder)
        self._is_filtered = is_filtered
        self._replay = ReplayFiles() if need_replicate else None
        self._check: OverflowCheck | None = None

    def begin(self) -> None:
        """Checks from now on, if this is the wanted rank."""
        if self._rank not in (None, ranks.current_rank() or 0):
            return
        if self._check is None:
            others = self._look_at_others if ranks.is_one_of_several() else None
            self._check = OverflowCheck(self._report, self._decide, self._replay is not None, others)
            self._check.start()
            self._check.clear()
        elif self._check.is_paused:
            # What overflowed meanwhile is not for the next call.
            self._check.clear()
        self._check.is_paused = False

    def pause(self) -> None:
        """Checks nothing until ``begin``."""
        if self._check is not None:
            self._judge_devices()
            self._check.is_paused = True

    def close(self) -> None:
        """Checks nothing any more."""
        check, self._check = self._check, None
        if check is not None:
            try:
                if not check.is_paused:
                    check.judge_all()
            finally:
                check.stop()
                self._write_replay_files()

    def begin_step(self, step: int) -> None:
        """Counts calls from 0 again, for the files of this step."""
        self._judge_devices()
        self._step = step
        if self._check is not None:
            self._check.restart()
            if not self._check.is_paused and ranks.is_one_of_several():
                self._look_at_others()

    def switch(self, is_on: bool, is_filtered: bool) -> None:
        """Checks or pauses; ``is_filtered`` leaves out numbers and tensors of integers."""
        self._is_filtered = is_filtered
        if is_on:
            self.begin()
        else:
            self.pause()

    def _judge_devices(self) -> None:
        """The calls of a step are reported before its end, also those that ran on a device."""
        if self._check is not None and not self._check.is_paused:
            self._check.judge_all()
        self._write_replay_files()

    def _write_replay_files(self) -> None:
        if self._replay is not None:
            self._replay.write()

    def _report(self, overflow: Overflow) -> None:
        pkl = self._save(overflow)
        if overflow.is_scaled:
            self._held.append(pkl)
        else:
            self._add(pkl)

    def _decide(self, skips: bool) -> None:
        """A loss scaler has decided about the overflows of the scaled loss."""
        held, self._held = self._held, []
        if skips and held:
            log.warning(
                "the loss scaler skips this step: %d overflows of the scaled loss are expected, and not "
                "counted; the first is saved in '%s'",
                len(held),
                held[0],
            )
        elif not skips:
            for pkl in held:
                self._add(pkl)

    def _add(self, pkl: Path) -> None:
        self._count += 1
        if self._count != self._limit:
            return
        self._write_replay_files()
        ended = f"[overflow {self._count} times]: dump file is saved in '{os.path.realpath(pkl)}'."
        if ranks.is_one_of_several():
            rank = ranks.current_rank() or 0
            self._files.append(rank, {"rank": rank, "ended": ended})
        raise ValueError(ended)

    def _look_at_others(self) -> None:
        ended = self._files.ended_elsewhere() if self._limit != -1 else None
        if ended is not None:
            self._write_replay_files()
            raise ValueError(ended)

    def _save(self, overflow: Overflow) -> Path:
        """Saves a call; returns its pkl."""
        self._saved += 1
        base, _, direction = overflow.name.rpartition(".")
        name = f"{base.replace('.', '_', 1)}_{overflow.number}_{direction}"
        folder = self._place.rank(ranks.current_rank() or 0, self._step)
        pkl = folder / f"{name}_{self._saved}.pkl"
        if pkl.exists():
            raise FileExistsError(
                f"{pkl} exists: it is of an earlier overflow check; delete it, or use another dump path"
            )
        arrays = pkl.with_suffix("")
        arrays.mkdir(mode=0o750, parents=True, exist_ok=True)
        with open(pkl, "w", encoding="utf-8", opener=_restricted) as file:
            frames = [
                [frame.filename, str(frame.lineno), frame.function, frame.code] for frame in overflow.frames
            ]
            file.write(json.dumps([f"{name}_stack_info", frames]) + "\n")
            if not overflow.is_kept:
                log.warning(
                    "%s ran on a device, and its tensors were freed or changed before it was found: only its "
                    "stack is in '%s'",
                    name,
                    pkl,
                )
            elif self._replay is not None:
                self._replay.add(overflow, ranks.current_rank() or 0, frames)
            # The tool calls what a backward call is given its inputs.
            sides = (overflow.inputs, overflow.outputs)
            inputs, outputs = sides if direction == "forward" else sides[::-1]
            for side, value in (("input", inputs), ("output", outputs)):
                for line in self._lines(f"{name}_{side}", value, arrays):
                    file.write(json.dumps(line) + "\n")
        return pkl

    def _lines(self, name: str, value: Any, folder: Path) -> Iterator[list[Any]]:
        if isinstance(value, tuple | list):
            for index, item in enumerate(value):
                yield from self._lines(f"{name}.{index}", item, folder)
        elif isinstance(value, torch.Tensor) and value.device.type != "meta":
            if self._is_filtered and (not value.dim() or not value.is_floating_point()):
                return
            kept = value.detach().cpu()
            ulpscope.save(folder / f"{name}.npy", kept.float() if kept.dtype == torch.bfloat16 else kept)
            yield [name, _DUMP_STEP, [], str(value.dtype), list(value.shape), _statistics(kept)]
        elif isinstance(value, bool | int | float) and not self._is_filtered:
            dtype = next(dtype for kind, dtype in _DTYPES.items() if isinstance(value, kind))
            # An integer that no array has stays a line.
            if dtype is not torch.int64 or -(2**63) <= value < 2**63:
                ulpscope.save(folder / f"{name}.npy", torch.tensor(value, dtype=dtype))
            yield [name, _DUMP_STEP, [], str(type(value)), "[]", [value] * 3]


# A bool is an int, too.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}


def _statistics(tensor: torch.Tensor) -> list[Any]:
    if tensor.dtype == torch.bool or not tensor.numel():
        return [[], [], []]
    stats = ulpscope.stats(tensor)
    return [None if value is None else float(value) for value in (stats.max, stats.min, stats.mean)]


def _restricted(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o640)
