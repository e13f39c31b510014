"""The file and the error of ``wrap_checkoverflow_hook``."""

from __future__ import annotations

import datetime
import inspect
import json
import os
from typing import Any, NoReturn

import torch

from ulpscope._capture.overflow_check import Overflow


def report_overflow(overflow: Overflow) -> NoReturn:
    """Writes ``Overflow_info_{time}.pkl`` to the working directory, and raises."""
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d_%H%M%S")
    path = os.path.realpath(f"Overflow_info_{time}.pkl")
    name = overflow.name.replace(".", "_")
    with open(path, "a", encoding="utf-8", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
        # The program's frames: those of the check come first.
        for number, frame in enumerate(inspect.stack()[overflow.own_frames + 1 :]):
            file.write(json.dumps([f"{name}_stack_info.{number}", str(frame)]) + "\n")
        for part, value in (("input", overflow.inputs), ("output", overflow.outputs)):
            for entry in _lines(f"{name}_{part}", value):
                file.write(json.dumps(entry) + "\n")
    raise ValueError(
        f"[check overflow]: module name :'{name}' is overflow and dump file is saved in '{path}'."
    )


def _lines(name: str, value: Any) -> list[list[Any]]:
    if isinstance(value, tuple | list):
        return [line for index, item in enumerate(value) for line in _lines(f"{name}.{index}", item)]
    if isinstance(value, torch.Tensor):
        values = value.detach().cpu().float().flatten().tolist()
        return [[name, values, str(value.dtype), list(value.shape)]]
    if isinstance(value, bool | int | float | str):
        return [[name, value]]
    return []
