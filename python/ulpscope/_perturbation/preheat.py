"""Preheat: in the first steps the thresholds are learned, with the CPU as the judge.

    step 0                     counts the calls of every API
    steps 1 .. preheat_step-1  samples some calls of each: how far did the change move the output, and does
                               the output agree with the CPU?
    later                      checks, with the thresholds that separate the one from the other

A threshold starts high. While all samples agree with the CPU it is halved, or doubled if a sample that agrees
exceeds it. If samples disagree and all of them moved further than those that agree, the threshold is put
between the two groups and stays. It is never below that of the guide's table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from ulpscope._perturbation.thresholds import threshold

_START = 1.05


class _Sample(NamedTuple):
    change: float
    agrees: bool


class _Learned:
    """The threshold of one API and dtype."""

    def __init__(self, lowest: float) -> None:
        self._lowest = lowest
        self.value = max(_START, lowest)
        self._is_final = False

    def learn(self, samples: list[_Sample]) -> None:
        if self._is_final or not samples:
            return
        agreeing = [one.change for one in samples if one.agrees]
        others = [one.change for one in samples if not one.agrees]
        if not others:
            is_exceeded = max(agreeing) > self.value
            self.value = max(self._lowest, self.value * 2 if is_exceeded else self.value / 2)
        elif max(agreeing, default=0.0) < min(others):
            # Between the two groups, in proportion: thresholds differ by powers of ten.
            below = max(self._lowest, max(agreeing, default=0.0))
            self.value = max(self._lowest, math.sqrt(below * min(others)))
            self._is_final = True


class Preheat:
    """The thresholds of a run, while they are learned and afterwards."""

    def __init__(self, mode: str, steps: int, max_sample: int) -> None:
        self._mode = mode
        self._steps = steps
        self._max_sample = max_sample
        self._step = 0
        self._calls: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._learned: dict[tuple[str, torch.dtype], _Learned] = {}
        self._samples: dict[tuple[str, torch.dtype], list[_Sample]] = {}

    @property
    def is_over(self) -> bool:
        """Whether the thresholds are final."""
        return self._step >= self._steps

    def meet(self, base: str) -> tuple[int, int] | None:
        """Counts a call; its number among this step's samples of the API and their total, if it is one."""
        seen = self._seen[base] = self._seen.get(base, 0) + 1
        places = self._places(base)
        return (places.index(seen - 1) + 1, len(places)) if seen - 1 in places else None

    def _places(self, base: str) -> list[int]:
        calls = self._calls.get(base, 0)
        if self._step == 0 or calls == 0:
            return []
        wanted = min(math.ceil(calls / self._steps), self._max_sample)
        return sorted({(self._steps * number + self._step) % calls for number in range(wanted)})

    def add(self, base: str, dtype: torch.dtype, change: float, agrees: bool) -> None:
        """Adds a sample: the relative change of an output, and whether it agrees with the CPU."""
        if not math.isnan(change):
            self._samples.setdefault((base, dtype), []).append(_Sample(change, agrees))

    def threshold(self, base: str, dtype: torch.dtype) -> float:
        """The threshold of an API for outputs of a dtype. An API that was not sampled has the guide's."""
        learned = self._learned.get((base, dtype))
        return threshold(dtype, self._mode) if learned is None else learned.value

    def next_step(self) -> None:
        """Ends a step."""
        if self._step == 0:
            self._calls = self._seen
        for key, samples in self._samples.items():
            if key not in self._learned:
                self._learned[key] = _Learned(threshold(key[1], self._mode))
            self._learned[key].learn(samples)
        self._samples, self._seen = {}, {}
        self._step += 1
