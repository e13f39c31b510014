"""Which steps are dumped: ``schedule``, and the count of steps that it refers to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


class Schedule:
    """The steps ``begin``, ``begin + stride``, … up to and including ``end``."""

    def __init__(self, begin: int = 0, end: int = sys.maxsize, stride: int = 1) -> None:
        numbers = (begin, end, stride)
        if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
            raise RuntimeError(f"Illegal Argument: schedule{numbers} takes whole numbers")
        if begin < 0 or end < 0 or stride <= 0 or begin > end:
            raise RuntimeError(
                f"Illegal Argument: schedule{numbers} needs 0 <= begin <= end and a stride from 1 on"
            )
        self.begin, self.end, self.stride = numbers

    def is_enabled(self, step: int) -> bool:
        """Whether a step is one of them."""
        return self.begin <= step <= self.end and (step - self.begin) % self.stride == 0


class StepSchedule:
    """The number of the current step, counted by the script."""

    def __init__(self) -> None:
        self.step_num = 0
        self._listeners: list[Any] = []

    def listen(self, before: Callable[[int], None], after: Callable[[], None]) -> None:
        """Reports changes: ``before`` with the next number while the step is still the current one."""
        self._listeners.append((before, after))

    def step(self) -> None:
        """Ends a step."""
        self._change(self.step_num + 1)

    def reset_step(self) -> None:
        """Counts from 0 again, as at the start of an epoch."""
        self._change(0)

    def _change(self, number: int) -> None:
        for before, _ in self._listeners:
            before(number)
        self.step_num = number
        for _, after in self._listeners:
            after()


# The tool's names.
schedule = Schedule
step_schedule = StepSchedule()
