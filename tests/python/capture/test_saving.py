"""Values saved by hand: what they are called, and how deep they are looked into."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

import ulpscope
from captured import Captured


def saved(folder: Path, step: int = 0) -> dict[str, Any]:
    return Captured(folder, step).document("debug.json")["data"]


def test_names_that_the_user_and_gradients_share(tmp_path: Path) -> None:
    """Neither is lost, and gradients have the number of their value where that is free."""
    with ulpscope.capture(tmp_path, level="debug") as run:
        x = torch.ones(2, requires_grad=True)
        run.save(x, "x")
        (x * 3).sum().backward()
        assert x.grad is not None
        run.save(x.grad * 7, "x_grad")
        run.save(torch.full((2,), 5.0), "y_grad")
        y = torch.ones(2, requires_grad=True)
        run.save(y, "y")
        (y * 11).sum().backward()
        run.step()
        run.save(torch.zeros(2), "x_grad")
    found = {name: item["Max"] for name, item in saved(tmp_path).items()}
    assert found == {
        "x.0.debug": 1.0,
        "x_grad.0.debug": 3.0,
        "x_grad.1.debug": 21.0,
        "y_grad.0.debug": 5.0,
        "y.0.debug": 1.0,
        "y_grad.1.debug": 11.0,
    }
    assert list(saved(tmp_path, 1)) == ["x_grad.0.debug"]
    assert Captured(tmp_path).ledger["notes"] == []


def test_gradients_keep_the_number_of_their_value(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path, level="debug") as run:
        x = torch.ones(2, requires_grad=True)
        run.save(x, "x", save_backward=False)
        y = x * 2
        run.save(y, "x")
        z = x * 3
        run.save(z, "x")
        z.sum().backward()
        y.sum().backward()
    names = ["x.0.debug", "x.1.debug", "x.2.debug", "x_grad.2.debug", "x_grad.1.debug"]
    assert list(saved(tmp_path)) == names


def test_a_value_that_contains_itself(tmp_path: Path) -> None:
    x = torch.ones(2, requires_grad=True)
    value: list[Any] = [x * 1]
    value.append(value)
    with ulpscope.capture(tmp_path, level="debug", strict=True) as run:
        run.save(value, "value")
        value[0].sum().backward()
    assert saved(tmp_path)["value.0.debug"][0]["Max"] == 1.0
    assert saved(tmp_path)["value_grad.0.debug"][0]["Max"] == 1.0


def test_a_program_that_is_deep_itself(tmp_path: Path) -> None:
    """There is no room for as many levels as else."""
    x = torch.ones(2, requires_grad=True)
    value: Any = x
    for _ in range(300):
        value = [value]

    def deep(levels: int) -> None:
        if levels:
            deep(levels - 1)
        else:
            run.save(value, "value")

    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    with ulpscope.capture(tmp_path, level="debug") as run:
        deep(sys.getrecursionlimit() - depth - 150)
    assert list(saved(tmp_path)) == ["value.0.debug"]
    notes = Captured(tmp_path).ledger["notes"]
    assert notes == ["value is nested too deeply: its gradients are not recorded"]
    assert not x._backward_hooks
