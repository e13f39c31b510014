"""Activation checkpoints: what is computed again says so, and gradients stay those of the first time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

import ulpscope

WAYS = [
    pytest.param({"use_reentrant": True}, id="reentrant"),
    pytest.param({"use_reentrant": False}, id="not-reentrant"),
    pytest.param({"use_reentrant": False, "early_stop": False}, id="without-early-stop"),
]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    """Two blocks, of which the second is checkpointed; nested puts a checkpoint around a checkpoint."""

    def __init__(self, way: dict[str, bool], nested: bool = False) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()
        self.reentrant = way["use_reentrant"]
        self.early_stop = way.get("early_stop", True)
        self.nested = nested

    def forward(self, x: Tensor) -> Tensor:
        with set_checkpoint_early_stop(self.early_stop):
            return checkpoint(self.inner, self.first(x), use_reentrant=self.reentrant)

    def inner(self, x: Tensor) -> Tensor:
        if self.nested:
            return checkpoint(self.second, x * 2, use_reentrant=self.reentrant)
        return self.second(x * 2)


def dump(way: dict[str, bool], level: str, folder: Path, nested: bool = False) -> dict[str, Any]:
    """The calls of one step."""
    torch.manual_seed(1)
    model = Net(way, nested)
    with ulpscope.capture(folder, model=model, level=level, strict=True):
        model(torch.randn(2, 4)).sum().backward()
    return json.loads((folder / "step0/rank/dump.json").read_text())["data"]


def is_repeated(call: dict[str, Any]) -> bool:
    """Whether its tensors are marked; either all are, or none is."""
    marks = {bool(item.get("is_recompute")) for item in tensors(call)}
    assert len(marks) == 1, call
    return marks.pop()


def tensors(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [found for item in node for found in tensors(item)]
    if isinstance(node, dict):
        return [node] if "shape" in node else [found for item in node.values() for found in tensors(item)]
    return []


@pytest.mark.parametrize("level", ["L1", "mix"])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_computed_again_says_so(way: dict[str, bool], level: str, tmp_path: Path) -> None:
    data = dump(way, level, tmp_path)
    forward = {
        name: is_repeated(call) for name, call in data.items() if name.endswith(".forward") and tensors(call)
    }
    linears = {name: repeated for name, repeated in forward.items() if name.startswith("Functional.linear")}
    assert list(linears.items()) == [
        ("Functional.linear.0.forward", False),
        ("Functional.linear.1.forward", False),
        ("Functional.linear.2.forward", False),
        ("Functional.linear.3.forward", False),
        ("Functional.linear.4.forward", True),
        ("Functional.linear.5.forward", True),
    ]
    assert [forward[f"Torch.tanh.{number}.forward"] for number in range(3)] == [False, False, True]


@pytest.mark.parametrize("way", WAYS)
def test_the_last_one_may_be_cut_short(way: dict[str, bool], tmp_path: Path) -> None:
    """When all that was asked for is there again, torch stops in the middle of a call."""
    data = dump(way, "L1", tmp_path)
    last = data["Functional.linear.5.forward"]
    stops_early = not way["use_reentrant"] and way.get("early_stop", True)
    assert last["input_args"][0]["shape"] == [2, 8]
    assert ("output" in last) is not stops_early
    assert data["Functional.linear.4.forward"]["output"][0]["shape"] == [2, 8]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_backward_keeps_the_number_of_the_first_time(level: str, tmp_path: Path) -> None:
    """Without reentering, the graph is that of the first time; its calls have the gradients of a run without
    checkpoints."""
    data = dump({"use_reentrant": False}, level, tmp_path / "checkpoint")
    torch.manual_seed(1)
    model = nn.Sequential(Block(), Block())
    x = torch.randn(2, 4)
    backward = {name: call for name, call in data.items() if ".backward" in name}
    if level != "L0":
        assert "Functional.linear.3.backward" in backward
        assert not any(name.startswith(("Functional.linear.4", "Functional.linear.5")) for name in backward)
    if level != "L1":
        assert "Module.second.down.Linear.backward.0" in backward
        assert not any(name.endswith(".backward.1") for name in backward)
    hidden = torch.tanh(model[1].up(model[0](x) * 2))
    hidden.retain_grad()
    model[1].down(hidden).sum().backward()
    names = {"L0": "Module.second.down.Linear.backward.0"}
    given = backward[names.get(level, "Functional.linear.3.backward")]["output"][0]
    assert given["Max"] == hidden.grad.max().item()
    assert given["Min"] == hidden.grad.min().item()


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("way", WAYS)
def test_modules_that_run_again(way: dict[str, bool], level: str, tmp_path: Path) -> None:
    data = dump(way, level, tmp_path)
    assert not is_repeated(data["Module.second.up.Linear.forward.0"])
    assert is_repeated(data["Module.second.up.Linear.forward.1"])
    assert not any(name.startswith("Module.first") and name.endswith(".forward.1") for name in data)
    # A module that never came back does not become the parent of what follows.
    construct = json.loads((tmp_path / "step0/rank/construct.json").read_text())
    assert construct["Module.second.up.Linear.forward.1"] == "Module.second.Block.forward.1"


@pytest.mark.parametrize("way", WAYS)
def test_a_checkpoint_in_a_checkpoint(way: dict[str, bool], tmp_path: Path) -> None:
    data = dump(way, "L1", tmp_path, nested=True)
    linears = [
        call for name, call in data.items() if name.startswith("Functional.linear") and "forward" in name
    ]
    marks = [is_repeated(call) for call in linears]
    assert marks[:4] == [False] * 4
    assert len(marks) > 5
    assert all(marks[4:])


def test_nothing_is_marked_without_checkpoints(tmp_path: Path) -> None:
    """Calls within a backward pass that are not a repetition: those of a hook."""
    x = torch.ones(3, requires_grad=True)
    with ulpscope.capture(tmp_path, level="L1", strict=True):
        y = torch.exp(x)
        y.register_hook(lambda gradient: torch.cos(gradient))
        y.sum().backward()
    data = json.loads((tmp_path / "step0/rank/dump.json").read_text())["data"]
    assert not is_repeated(data["Torch.cos.0.forward"])


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_the_early_end_of_a_repeated_forward_is_no_error(level: str, tmp_path: Path) -> None:
    dump({"use_reentrant": False}, level, tmp_path)
    ledger = json.loads((tmp_path / "step0/rank/ledger.json").read_text())
    counted = ledger["recorded"] + sum(ledger["skipped"].values())
    assert (ledger["raised"], ledger["failed"], counted) == ({}, {}, ledger["seen"])


def test_an_error_in_a_repeated_forward_is_listed(tmp_path: Path) -> None:
    times = 0

    def failing(x: Tensor) -> Tensor:
        nonlocal times
        times += 1
        return torch.tanh(x @ torch.ones(4 if times == 1 else 3, 4))

    x = torch.ones(2, 4, requires_grad=True)
    with ulpscope.capture(tmp_path), pytest.raises(RuntimeError):
        checkpoint(failing, x, use_reentrant=False).sum().backward()
    ledger = json.loads((tmp_path / "step0/rank/ledger.json").read_text())
    assert ledger["raised"] == {"Tensor.__matmul__: RuntimeError": 1}
