"""Uninitialised memory: its content is no result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import capture_of


def has_numbers(item: dict[str, Any]) -> bool:
    return item["Max"] is not None


def test_parameters_that_are_made_of_it(tmp_path: Path) -> None:
    """Every model is built like that."""
    captured = capture_of(tmp_path, lambda: (nn.Linear(4, 3), nn.Linear(3, 2)))
    for number in range(2):
        for function in ("Torch.kaiming_uniform_", "Torch.uniform_"):
            call = captured.calls[f"{function}.{number}.forward"]
            given = call["input_args"][0]
            assert given["source"].startswith("Torch.empty."), given
            assert not has_numbers(given)
            assert has_numbers(call["output"][0])


def test_two_runs_of_one_script_give_one_dump(tmp_path: Path) -> None:
    def program() -> None:
        torch.manual_seed(0)
        # What lies in freed memory differs.
        del_me = [torch.full((n,), float(len(numbers)), dtype=torch.float32) for n in (12, 3, 64)]
        del del_me
        numbers.append(0)
        net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(4, 3), nn.BatchNorm1d(3))
        nn.init.constant_(net[1].weight, 0.5)
        nn.init.normal_(net[1].bias)

    numbers: list[int] = []
    first = capture_of(tmp_path / "first", program).calls
    second = capture_of(tmp_path / "second", program).calls
    blank = ("Torch.full", "Torch.empty")
    strip = lambda calls: {name: call for name, call in calls.items() if not name.startswith(blank)}  # noqa: E731
    assert strip(first) == strip(second)


def test_a_parameter_that_was_written_to_has_its_numbers(tmp_path: Path) -> None:
    def program() -> None:
        written = nn.Parameter(torch.empty(3))
        with torch.no_grad():
            written.fill_(2)
            written.zero_()
            made = nn.Parameter(torch.ones(3))
            made.copy_(torch.zeros(3))

    calls = capture_of(tmp_path, program).calls
    assert not has_numbers(calls["Tensor.fill_.0.forward"]["input_args"][0])
    again = calls["Tensor.zero_.0.forward"]["input_args"][0]
    assert (again["Max"], again["source"]) == (2, "Tensor.fill_.0.forward.output.0")
    own = calls["Tensor.copy_.0.forward"]["input_args"][0]
    assert (own["Max"], own["source"]) == (1, "parameter")


def test_others_that_return_it(tmp_path: Path) -> None:
    def program() -> None:
        x = torch.ones(2)
        x.new(5).fill_(1)
        torch.ones(0).resize_(7).copy_(torch.ones(7))

    calls = capture_of(tmp_path, program).calls
    assert not has_numbers(calls["Tensor.new.0.forward"]["output"][0])
    assert not has_numbers(calls["Tensor.fill_.0.forward"]["input_args"][0])
    assert not has_numbers(calls["Tensor.resize_.0.forward"]["output"][0])
    assert not has_numbers(calls["Tensor.copy_.0.forward"]["input_args"][0])
    assert calls["Tensor.copy_.0.forward"]["output"][0]["Max"] == 1


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_it_is_no_gap_in_a_comparison(tmp_path: Path, task: str) -> None:
    """A run that builds its model agrees with itself, in full."""

    def program() -> None:
        torch.manual_seed(0)
        nn.Linear(4, 3)(torch.ones(2, 4)).sum().backward()
        torch.add(torch.ones(3), 1, out=torch.empty(3))

    for run in ("target", "golden"):
        calls = capture_of(tmp_path / run, program, task=task).calls
        assert calls["Torch.empty.0.forward"]["output"][0]["blank"] is True
    compared = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert compared.agreement == "agree"
    named = [row for row in compared.rows if row["target_name"] == "Torch.empty.0.forward.output.0"]
    assert [row["why"] for row in named] == ["uninitialised memory"]


def test_what_could_not_be_read_is_a_gap_beside_it(tmp_path: Path) -> None:
    captured = capture_of(tmp_path, lambda: torch.add(torch.ones(3), 1, out=torch.empty(3)))
    document = captured.document("dump.json")
    call = document["data"]["Torch.add.0.forward"]
    assert call["input_kwargs"]["out"]["blank"] is True
    for item in (call["input_args"][0], call["output"][0]):
        item.update(Max=None, Min=None, Mean=None, Norm=None)
    (captured.folder / "dump.json").write_text(json.dumps(document))
    compared = ulpscope.compare(tmp_path, tmp_path)
    assert compared.agreement == "inconclusive"
    assert compared.summary["classes"]["not comparable"] == 1
