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


# Changes, each 5 % above the one before.
PROBES = [1.5e-4 * 1.05**power for power in range(200)]


def learned(folder: Path, *steps: list[tuple[float, bool]]) -> float:
    """The threshold after steps with samples: the change of an output, and whether it agrees with the CPU.

    It is found by changes of all sizes: the largest that is no finding.
    """
    one = torch.ones(1)

    def moved(changes: list[float]) -> list[torch.Tensor]:
        return [one.double() + change for change in changes]

    with watched(folder, pert_mode="bit_noise", if_preheat=True, preheat_step=len(steps) + 1) as function:
        function.call([one], one)
        function.check.step()
        for samples in steps:
            second = moved([change for change, _ in samples])
            on_cpu = [one if agrees else one * 2 for _, agrees in samples]
            function.call([[one] * len(samples), second, on_cpu], one)
            function.check.step()
        function.call([[one] * len(PROBES), moved(PROBES)], one)
    places = [finding.output_index for finding in function.check.findings]
    assert 0 < len(places) < len(PROBES)
    assert places == list(range(len(PROBES) - len(places), len(PROBES)))
    return PROBES[-len(places) - 1]


def about(threshold: float) -> Any:
    """The next probe below."""
    return pytest.approx(threshold / 1.025, rel=0.0251)


def test_how_a_threshold_is_learned(tmp_path: Path) -> None:
    assert learned(tmp_path) == about(0.0002), "an API without samples has the guide's"
    assert learned(tmp_path, [(0.001, True)]) == about(0.525)
    assert learned(tmp_path, [(0.001, True)], [(0.6, True)]) == about(1.05)
    assert learned(tmp_path, *[[(1e-5, True)]] * 14) == about(0.0002), "never below the guide's"
    between = learned(tmp_path, [(0.001, True), (0.1, False)])
    assert between == about(0.01), "in the middle of both, in proportion"
    assert learned(tmp_path, [(0.001, True), (0.1, False)], [(0.0001, True)]) == between, "it stays"
    assert learned(tmp_path, [(0.2, True), (0.1, False)]) == about(1.05), "these do not separate"


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
