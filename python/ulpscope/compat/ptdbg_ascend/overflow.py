"""The files and the error of ``overflow_check``: one pkl and one folder of arrays per call that overflows."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import ulpscope
from ulpscope._capture.lifecycle import ranks
from ulpscope._capture.overflow_check import Overflow, OverflowCheck
from ulpscope.compat.ptdbg_ascend.place import Place
from ulpscope.compat.ptdbg_ascend.replay_files import ReplayFiles

# The tool's number of the lines of an overflow.
_DUMP_STEP = 101


def check_overflow_nums(number: object) -> int:
    """How many overflows end training; -1: none does."""
    if isinstance(number, bool) or not isinstance(number, int) or (number != -1 and number <= 0):
        raise ValueError(f"overflow_nums is {number!r}; expected a number above 0, or -1 for no end")
    return number


class Overflows:
    """Counts the overflows of this process, and saves each."""

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
        self._step = 0
        self._is_filtered = is_filtered
        self._replay = ReplayFiles() if need_replicate else None
        self._check: OverflowCheck | None = None

    def begin(self) -> None:
        """Checks from now on, if this is the wanted rank."""
        if self._rank not in (None, ranks.current_rank() or 0):
            return
        if self._check is None:
            self._check = OverflowCheck(self._report, keeps_arguments=self._replay is not None)
            self._check.start()
            self._check.clear()
        elif self._check.is_paused:
            # What overflowed meanwhile is not for the next call.
            self._check.clear()
        self._check.is_paused = False

    def pause(self) -> None:
        """Checks nothing until ``begin``."""
        if self._check is not None:
            self._check.is_paused = True

    def close(self) -> None:
        """Checks nothing any more."""
        if self._check is not None:
            self._check.stop()
            self._check = None

    def begin_step(self, step: int) -> None:
        """Counts calls from 0 again, for the files of this step."""
        self._step = step
        if self._check is not None:
            self._check.restart()

    def switch(self, is_on: bool, is_filtered: bool) -> None:
        """Checks or pauses; ``is_filtered`` leaves out numbers and tensors of integers."""
        self._is_filtered = is_filtered
        if is_on:
            self.begin()
        else:
            self.pause()

    def _report(self, overflow: Overflow) -> None:
        self._count += 1
        base, _, direction = overflow.name.rpartition(".")
        name = f"{base.replace('.', '_', 1)}_{overflow.number}_{direction}"
        folder = self._place.rank(ranks.current_rank() or 0, self._step)
        pkl = folder / f"{name}_{self._count}.pkl"
        if pkl.exists():
            raise FileExistsError(
                f"{pkl} exists: it is of an earlier overflow check; delete it, or use another dump path"
            )
        arrays = pkl.with_suffix("")
        arrays.mkdir(mode=0o750, parents=True, exist_ok=True)
        with open(pkl, "w", encoding="utf-8", opener=_restricted) as file:
            # The program's frames: those of the check come first.
            frames = [
                [
                    frame.filename,
                    str(frame.lineno),
                    frame.function,
                    frame.code_context and frame.code_context[0].strip(),
                ]
                for frame in inspect.stack()[overflow.own_frames + 1 :]
            ]
            file.write(json.dumps([f"{name}_stack_info", frames]) + "\n")
            if self._replay is not None:
                self._replay.add(overflow, ranks.current_rank() or 0, frames)
            # The tool calls what a backward call is given its inputs.
            sides = (overflow.inputs, overflow.outputs)
            inputs, outputs = sides if direction == "forward" else sides[::-1]
            for side, value in (("input", inputs), ("output", outputs)):
                for line in self._lines(f"{name}_{side}", value, arrays):
                    file.write(json.dumps(line) + "\n")
        if self._count == self._limit:
            if self._replay is not None:
                self._replay.write()
            raise ValueError(
                f"[overflow {self._count} times]: dump file is saved in '{os.path.realpath(pkl)}'."
            )

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
