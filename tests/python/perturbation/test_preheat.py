"""Preheat: thresholds are learned in the first steps, with the CPU as the judge."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from watched_runs import watched


def test_samples_of_a_step(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Step 0 counts; later ones take some calls of each API, others in each step, at most max_sample."""
    caplog.set_level(logging.INFO, "ulpscope.check")
    same, lines = torch.ones(1), []
    with watched(tmp_path, pert_mode="bit_noise", if_preheat=True, preheat_step=4, max_sample=2) as function:
        for _ in range(5):
            caplog.clear()
            runs = 0
            for _ in range(10):
                function.call(itertools.repeat(same), torch.ones(1))
                runs += len(function.runs)
            function.check.step()
            lines.append((runs, [record.getMessage() for record in caplog.records]))
    for step, places in enumerate([[], [1, 5], [2, 6], [3, 7]]):
        expected = []
        for number, place in enumerate(places):
            name = f"Watched.watch.{place}.forward"
            expected += [
                f"[msprobe] Free benchmark: preheat sample in step {step} api_name {name} "
                f"curr_called_seq: {number + 1}/2",
                f"[msprobe] Free Benchmark: Perturbation is bit_noise of {name}.",
            ]
        # Each sample runs on changed inputs and on the CPU.
        assert lines[step] == (10 + 2 * len(places), expected)
    assert lines[4] == (
        20,
        [
            f"[msprobe] Free Benchmark: Perturbation is bit_noise of Watched.watch.{place}.forward."
            for place in range(10)
        ],
    ), "preheat is over: every call is checked"


def is_learned(folder: Path, threshold: float, *steps: list[tuple[float, bool]]) -> bool:
    """Whether steps with samples lead to a threshold: just below it is no finding, just above it is one.

    A sample is the change of an output, and whether the output agrees with the CPU. Each is an output of one
    call, so that all of them are taken.
    """
    one = torch.ones(1)
    with watched(folder, pert_mode="bit_noise", if_preheat=True, preheat_step=len(steps) + 1) as function:
        function.call([one], one)
        function.check.step()
        for samples in steps:
            second = [one.double() + change for change, _ in samples]
            on_cpu = [one if agrees else one * 2 for _, agrees in samples]
            function.call([[one] * len(samples), second, on_cpu], one)
            function.check.step()
        assert function.check.findings == []
        function.call([[one, one], [one.double() + threshold * side for side in (0.999, 1.001)]], one)
    return [finding.output_index for finding in function.check.findings] == [1]


def test_how_a_threshold_is_learned(tmp_path: Path) -> None:
    assert is_learned(tmp_path, 0.0002), "an API without samples has the guide's"
    assert is_learned(tmp_path, 0.525, [(0.001, True)])
    assert is_learned(tmp_path, 1.05, [(0.001, True)], [(0.6, True)])
    assert is_learned(tmp_path, 0.0002, *[[(1e-5, True)]] * 14), "never below the guide's"
    apart = [(0.001, True), (0.1, False)]
    assert is_learned(tmp_path, 0.01, apart), "in the middle of both, in proportion"
    assert is_learned(tmp_path, 0.01, apart, [(0.0001, True)]), "it stays"
    assert is_learned(tmp_path, 1.05, [(0.2, True), (0.1, False)]), "these do not separate"


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
