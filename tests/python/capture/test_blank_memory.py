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


def garbage(shape: tuple[int, ...], values: list[float]) -> None:
    """Leaves different numbers in freed memory in each run, NaN among them."""
    value = values.pop()
    left = [torch.ones(shape).numpy() for _ in range(8)]
    for array in left:
        array[:] = value
    del left, array


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_views_of_it_are_no_results(tmp_path: Path, task: str) -> None:
    """Heads of two parts are filled part by part, through views and by assignment."""
    values = [float("nan"), 3e30, float("inf"), 7.0]

    def program() -> None:
        torch.manual_seed(0)
        x = torch.randn(8, 4)
        garbage((8, 6), values)
        through_views = x.new_empty(8, 6)
        flat = through_views.view(48).reshape(6, 8).view(8, 6)
        flat[:, :4].copy_(x)
        through_views[:, 4:].fill_(1)
        garbage((8, 6), values)
        assigned = x.new_empty(8, 6)
        assigned[:, :4] = x
        assigned[:, 4:] = x[:, :2]
        torch.matmul(through_views, assigned.transpose(0, 1)).sum()

    for run in ("target", "golden"):
        captured = capture_of(tmp_path / run, program, task=task)
    calls = captured.calls
    assert calls["Tensor.view.0.forward"]["input_args"][0]["blank"] is True
    assert calls["Tensor.view.0.forward"]["output"][0]["blank"] is True
    assert calls["Tensor.copy_.0.forward"]["input_args"][0]["blank"] is True
    assert has_numbers(calls["Tensor.copy_.0.forward"]["output"][0])
    # Half of it is written to when the second half is assigned.
    assert calls["Tensor.__setitem__.1.forward"]["input_args"][0]["blank"] is True
    assert has_numbers(calls["Tensor.transpose.0.forward"]["input_args"][0])
    compared = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert (compared.agreement, compared.divergences) == ("agree", [])
    named = [row for row in compared.rows if row["why"] == "uninitialised memory"]
    assert len(named) == 16


def test_what_is_computed_of_it_has_its_numbers(tmp_path: Path) -> None:
    """A program that reads it is wrong, and shows it."""

    def program() -> None:
        found = torch.empty(4)
        found.view(2, 2) * 2
        found.view(2, 2)
        # Filled in a way that torch does not report.
        shared = torch.empty(4)
        shared.numpy()[:] = 3
        shared.view(2, 2)
        # A copy of it, in a different arrangement, and memory that is used again.
        torch.empty(3, 2).t().reshape(6)
        for _ in range(4):
            torch.ones(4).view(2, 2)

    calls = capture_of(tmp_path, program).calls
    assert not has_numbers(calls["Tensor.view.0.forward"]["output"][0])
    assert has_numbers(calls["Tensor.__mul__.0.forward"]["input_args"][0])
    assert calls["Tensor.view.2.forward"]["input_args"][0]["Max"] == 3
    assert not has_numbers(calls["Tensor.reshape.0.forward"]["output"][0])
    for number in range(3, 7):
        assert calls[f"Tensor.view.{number}.forward"]["input_args"][0]["Max"] == 1
