"""The file and the error of ``wrap_checkoverflow_hook``."""

from __future__ import annotations

import datetime
import inspect
import json
import logging
import os
from typing import Any, NamedTuple, NoReturn

import torch

from ulpscope._capture.overflow_check import Frame, Overflow

_log = logging.getLogger("ulpscope")


class _Found(NamedTuple):
    """An overflow as its file shows it."""

    name: str
    lines: list[list[Any]]


class OverflowReport:
    """Ends the run at the first overflow, unless a loss scaler skips the step for it."""

    def __init__(self) -> None:
        self._held: _Found | None = None

    def report(self, overflow: Overflow) -> None:
        """Writes ``Overflow_info_{time}.pkl`` to the working directory, and raises."""
        if not overflow.is_scaled:
            _end(_found(overflow))
        if self._held is None:
            self._held = _found(overflow)

    def decide(self, skips: bool) -> None:
        """A loss scaler has decided about the overflows of the scaled loss."""
        held, self._held = self._held, None
        if held is None:
            return
        if not skips:
            _end(held)
        _log.warning(
            "[check overflow]: module name :'%s' is overflow in a step that the loss scaler skips: expected",
            held.name,
        )


def _found(overflow: Overflow) -> _Found:
    name = overflow.name.replace(".", "_")
    lines: list[list[Any]] = [
        [f"{name}_stack_info.{number}", _as_text(frame)] for number, frame in enumerate(overflow.frames)
    ]
    for part, value in (("input", overflow.inputs), ("output", overflow.outputs)):
        lines += _lines(f"{name}_{part}", value)
    return _Found(name, lines)


def _end(found: _Found) -> NoReturn:
    time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d_%H%M%S")
    path = os.path.realpath(f"Overflow_info_{time}.pkl")
    with open(path, "a", encoding="utf-8", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
        file.writelines(json.dumps(line) + "\n" for line in found.lines)
    raise ValueError(
        f"[check overflow]: module name :'{found.name}' is overflow and dump file is saved in '{path}'."
    )


def _as_text(frame: Frame) -> str:
    code = None if frame.code is None else [frame.code]
    where = (frame.filename, frame.lineno, frame.function, code, None if code is None else 0)
    return str(inspect.FrameInfo(None, *where))  # type: ignore[arg-type]


def _lines(name: str, value: Any) -> list[list[Any]]:
    if isinstance(value, tuple | list):
        return [line for index, item in enumerate(value) for line in _lines(f"{name}.{index}", item)]
    if isinstance(value, torch.Tensor):
        values = value.detach().cpu().float().flatten().tolist()
        return [[name, values, str(value.dtype), list(value.shape)]]
    if isinstance(value, bool | int | float | str):
        return [[name, value]]
    return []
