"""Hooks on the nodes of the graph: those of the program beside those of capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope
from captured import Captured


class Hooked(nn.Module):
    """Puts hooks on the node of its result: between that of the call in it, and that of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.fired: list[str] = []
        self.handles: list[Any] = []

    def forward(self, x: Tensor) -> Tensor:
        y = torch.mul(x, 3)
        for name in ("first", "second"):
            self.handles.append(
                y.grad_fn.register_hook(lambda given, taken, name=name: self.fired.append(name))
            )
        return y


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_the_programs_stay_and_captures_go(tmp_path: Path, level: str) -> None:
    model = nn.Sequential(Hooked())
    hooked = model[0]
    x = torch.ones(2, requires_grad=True)
    run = ulpscope.capture(tmp_path, level=level, model=model)
    run.start()
    y = model(x)
    first, second = hooked.handles
    # While recording, ours are among them.
    assert len(first.hooks_dict_ref()) == 2 + (2 if level == "mix" else 1)
    second.remove()
    y.sum().backward(retain_graph=True)
    run.stop()
    assert hooked.fired == ["first"]
    assert list(first.hooks_dict_ref()) == [first.id]
    y.sum().backward()
    assert hooked.fired == ["first", "first"]
    names = {"L0": ["Module.0.Hooked.backward.0"], "L1": ["Torch.mul.0.backward"]}
    expected = names.get(level, names["L0"] + names["L1"])
    calls = Captured(tmp_path).calls
    for name in expected:
        assert [item["Max"] for item in calls[name]["output"]] == [3.0], name


def test_graphs_that_are_gone_are_let_go(tmp_path: Path) -> None:
    """With many small graphs in one step and no backward pass, hooks and what they hold do not pile up."""
    x = torch.ones(4, requires_grad=True)
    with ulpscope.capture(tmp_path, level="L1", task="structure"):
        for _ in range(3):
            y = torch.mul(x, 2)
        node = y.grad_fn
        hooks = node.register_hook(lambda given, taken: None).hooks_dict_ref
        del y, node
        for _ in range(40_000):
            torch.mul(x, 2)
        assert hooks() is None
