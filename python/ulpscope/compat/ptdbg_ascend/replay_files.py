"""The files of ``need_replicate``, for a replay: ``ulpscope check -forward forward_info_{pid}.json``.

    forward_info_{pid}.json    the arguments of each call that overflowed, forward or backward
    backward_info_{pid}.json   the gradients that its backward call was given
    stack_info_{pid}.json      where it was made
    forward_real_data/, backward_real_data/    the tensors themselves

They are made in the working directory, as by the tool: the tensors with each overflow, the three files when
the number of overflows is reached, and (other than by the tool) when a step or the check ends before that.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

import ulpscope
from ulpscope._capture.overflow_check import Overflow
from ulpscope.compat.ptdbg_ascend.recording import log

_FILES = {"forward": "forward_info", "backward": "backward_info", "stack": "stack_info"}


# Calls that are described in memory until the files are made. A replay needs the first ones.
_MAX_CALLS = 1000


class ReplayFiles:
    """Collects what a replay needs."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {kind: {} for kind in _FILES}
        self._is_changed = False
        self._is_full = False

    def add(self, overflow: Overflow, rank: int, frames: list[list[Any]]) -> None:
        """Adds a call; saves its tensors now, before the program changes them."""
        if len(self._found["stack"]) >= _MAX_CALLS:
            if not self._is_full:
                self._is_full = True
                log.warning("the files for a replay have the first %d overflows, and no more", _MAX_CALLS)
            return
        self._is_changed = True
        base, _, direction = overflow.name.rpartition(".")
        name = f"{base.replace('.', '_', 1)}_{overflow.number}"
        forward = f"{name}_forward"
        if forward not in self._found["forward"]:
            tensors = _Tensors(Path("forward_real_data") / f"rank{rank}", forward)
            self._found["forward"][forward] = {
                "args": [tensors.describe(value) for value in overflow.args],
                "kwargs": {key: tensors.describe(value) for key, value in overflow.kwargs.items()},
            }
        if direction == "backward":
            backward = f"{name}_backward"
            tensors = _Tensors(Path("backward_real_data") / f"rank{rank}", backward)
            self._found["backward"][backward] = [tensors.describe(value) for value in overflow.outputs]
        self._found["stack"][f"{name}_{direction}"] = [
            f"File {file}, line {line}, in {function}, \n {code}" for file, line, function, code in frames
        ]

    def write(self) -> None:
        """Makes the files in the working directory, unless they are up to date."""
        if not self._is_changed:
            return
        self._is_changed = False
        for kind, name in _FILES.items():
            if self._found[kind]:
                path = Path(f"{name}_{os.getpid()}.json")
                path.write_text(json.dumps(self._found[kind], indent=1), encoding="utf-8")


class _Tensors:
    """Describes the values of one call; its tensors are numbered."""

    def __init__(self, folder: Path, call: str) -> None:
        self._folder = folder
        self._call = call
        self._count = 0

    def describe(self, value: Any) -> Any:
        """A value as the replay reads it."""
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, tuple | list):
            return [self.describe(item) for item in value]
        if isinstance(value, slice):
            return {"type": "slice", "value": [value.start, value.stop, value.step]}
        if isinstance(value, torch.dtype | torch.device):
            return {"type": f"torch.{type(value).__name__}", "value": str(value)}
        if value is None:
            return None
        kind = type(value).__name__
        return {"type": kind, "value": value if isinstance(value, bool | int | float | str) else None}

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "torch.Tensor", "requires_grad": tensor.requires_grad}
        if tensor.device.type == "meta":
            return found
        kept = tensor.detach().cpu()
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        # An array has no bfloat16, and in float32 the replay would not overflow.
        suffix = "pt" if kept.dtype == torch.bfloat16 else "npy"
        path = (self._folder / f"{self._call}.{self._count}.{suffix}").absolute()
        self._count += 1
        ulpscope.save(path, kept)
        stats = ulpscope.stats(kept) if kept.numel() else None
        extremes = {
            "Max": None if stats is None else _number(stats.max),
            "Min": None if stats is None else _number(stats.min),
        }
        return found | {
            "datapath": str(path),
            "dtype": str(tensor.dtype),
            "shape": list(tensor.shape),
            **extremes,
        }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
