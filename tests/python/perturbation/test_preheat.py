"""Preheat: thresholds are learned in the first steps, with the CPU as the judge."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from ulpscope._perturbation.preheat import Preheat


def test_samples_of_a_step() -> None:
    """Step 0 counts; later ones take some calls of each API, others in each step, at most max_sample."""
    preheat = Preheat("bit_noise", steps=4, max_sample=2)
    taken: list[list[int]] = []
    for _ in range(4):
        found = [preheat.meet("Torch.exp") for _ in range(10)]
        taken.append([place for place, sample in enumerate(found) if sample is not None])
        assert [one for one in found if one] == [(number + 1, 2) for number in range(len(taken[-1]))]
        preheat.next_step()
    assert taken == [[], [1, 5], [2, 6], [3, 7]]
    assert preheat.is_over


def learned(*steps: list[tuple[float, bool]]) -> float:
    preheat = Preheat("bit_noise", steps=15, max_sample=20)
    preheat.next_step()
    for samples in steps:
        for change, agrees in samples:
            preheat.add("Torch.exp", torch.float32, change, agrees)
        preheat.next_step()
    return preheat.threshold("Torch.exp", torch.float32)


def test_how_a_threshold_is_learned() -> None:
    assert learned() == 0.0002, "an API without samples has the guide's"
    assert learned([(0.001, True)]) == 0.525
    assert learned([(0.001, True)], [(0.6, True)]) == 1.05
    assert learned(*[[(1e-5, True)]] * 14) == 0.0002, "never below the guide's"
    between = learned([(0.001, True), (0.1, False)])
    assert 0.001 < between < 0.1
    assert learned([(0.001, True), (0.1, False)], [(0.0001, True)]) == between, "it stays"
    assert learned([(0.2, True), (0.1, False)]) == 1.05, "these do not separate"


class Rough(torch.autograd.Function):
    """Moves by far more than the threshold of float32, and agrees with the CPU all the same."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x + 1e-7).frac() * 1e-3 + 1e-3


def test_a_call_that_agrees_with_the_cpu_is_not_reported_after_preheat(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.tensor([1.0, 2.0, 3.0])

    def found(**settings: Any) -> list[int]:
        with ulpscope.check.perturb(tmp_path, pert_mode="bit_noise", list=["Rough"], **settings) as check:
            for _ in range(5):
                Rough.apply(x)
                check.step()
        return [one.step for one in check.findings]

    x = torch.tensor([1.0 + 2**-23])
    assert found() == []
    x = torch.tensor([1.0])
    with caplog.at_level(logging.INFO, "ulpscope.check"):
        assert found(if_preheat=True, preheat_step=3) == []
    lines = [one.getMessage() for one in caplog.records if "preheat" in one.getMessage()]
    start = "[msprobe] Free benchmark: preheat sample in step"
    assert lines == [
        f"{start} 1 api_name Autograd.Rough.0.forward curr_called_seq: 1/1",
        f"{start} 2 api_name Autograd.Rough.0.forward curr_called_seq: 1/1",
    ]
