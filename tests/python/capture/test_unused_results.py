"""Backward calls of which not every result is used: they are written when the pass is over."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured, capture_of
from places import SUPPORT


def journal_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of a journal that is being written."""
    text = (folder / "step0" / "rank" / "journal.jsonl").read_bytes().rstrip(b"\0")
    return [json.loads(line) for line in text.splitlines()]


def backward_calls(folder: Path) -> list[str]:
    return [line["call"] for line in journal_of(folder) if "backward" in line.get("call", "")]


class Recurrent(nn.Module):
    """Attention weights and last states that are unused."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.lstm = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, x, x)
        made, _ = self.lstm(attended)
        return made.sum()


WITH_UNUSED = {
    "VF.lstm.0.backward",
    "Module.lstm.LSTM.backward.0",
    "Functional.multi_head_attention_forward.0.backward",
    "Module.attention.MultiheadAttention.backward.0",
}


VICTIM = """
import sys, time
sys.path[:0] = sys.argv[2:]
import torch, ulpscope
from test_unused_results import Recurrent
model = Recurrent()
with ulpscope.capture(sys.argv[1], model=model, level="mix"):
    model(torch.randn(2, 3, 8)).backward()
    print("done", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_kill_after_the_pass_loses_none(tmp_path: Path) -> None:
    words = [sys.executable, "-c", VICTIM, str(tmp_path), str(Path(__file__).parent), str(SUPPORT)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "done\n"
        victim.kill()
    assert set(backward_calls(tmp_path)) >= WITH_UNUSED


def test_they_stand_before_what_is_called_next(tmp_path: Path) -> None:
    model = Recurrent()

    def program() -> None:
        for _ in range(2):
            model(torch.randn(2, 3, 8)).backward()

    names = list(capture_of(tmp_path, program, model=model, level="mix").calls)
    second = names.index("Functional.multi_head_attention_forward.1.forward")
    assert all(names.index(name) < second for name in WITH_UNUSED)


def test_the_gradients_are_the_same(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    outside = x.sin()
    wanted = torch.autograd.grad(torch.var_mean(outside, dim=0)[0].sum(), outside)[0]

    def program() -> None:
        torch.var_mean(x.sin(), dim=0)[0].sum().backward()

    captured = capture_of(tmp_path, program, task="tensor")
    call = captured.calls["Torch.var_mean.0.backward"]
    assert call["input"][1] is None
    assert torch.equal(captured.tensor(call["output"][0]), wanted)


def test_gradients_are_let_go_of_when_the_pass_is_over(tmp_path: Path) -> None:
    """Parts of a sum wait for others that never come."""

    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sin(), x.cos()

    model = nn.Sequential(Twice())
    with ulpscope.capture(tmp_path, model=model, level="mix"):
        x = torch.randn(3, requires_grad=True).exp()
        used, _ = model(x)
        held: list[weakref.ref[torch.Tensor]] = []
        used.grad_fn.register_hook(lambda given, _: held.append(weakref.ref(given[0])))
        used.sum().backward()
        del used, _
        gc.collect()
        assert held[0]() is None
        assert "Module.0.Twice.backward.0" in backward_calls(tmp_path)


def test_passes_over_different_results_are_distinguished(tmp_path: Path) -> None:
    def program() -> None:
        x = torch.randn(4, requires_grad=True).exp()
        first, second = torch.nn.Module.__call__(pair, x)
        torch.autograd.grad(first.sum(), x, retain_graph=True)
        torch.autograd.grad(second.sum(), x)

    class Pair(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.sin(), x.cos()

    pair = Pair()
    model = nn.Sequential(pair)
    calls = capture_of(tmp_path, program, model=model, level="L0").calls
    first, second = calls["Module.0.Pair.backward.0"], calls["Module.0.Pair@2.backward.0"]
    assert [item is None for item in first["input"]] == [False, True]
    assert [item is None for item in second["input"]] == [True, False]


def test_a_pass_within_a_pass_ends_on_its_own(tmp_path: Path) -> None:
    """What the outer one has begun goes on after the inner one is over."""

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                torch.var_mean(x)[0].backward()
            return grad * 2

    class Both(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = Inner.apply(x.exp())
            return y.sin(), y.cos()

    model = nn.Sequential(Both())

    def program() -> None:
        first, _ = model(torch.randn(4, requires_grad=True).sigmoid())
        first.sum().backward()

    captured = capture_of(tmp_path, program, model=model, level="mix")
    calls, ledger = captured.calls, captured.ledger
    assert not [name for name in calls if "@" in name]
    assert [item is None for item in calls["Module.0.Both.backward.0"]["output"]] == [False]
    names = list(calls)
    assert names.index("Torch.var_mean.0.backward") < names.index("Module.0.Both.backward.0")
    assert ledger["seen"] == ledger["recorded"] + sum(ledger["skipped"].values())


def test_many_of_them_in_one_pass(tmp_path: Path) -> None:
    """More than are kept before those that are complete are looked for."""
    count = 5000

    def program() -> None:
        x = torch.randn(2, requires_grad=True)
        total = x.sum()
        for _ in range(count):
            total = total + torch.var_mean(x)[0]
        total.backward()

    captured = capture_of(tmp_path, program, stacks=False)
    found = [name for name in captured.calls if name.startswith("Torch.var_mean.") and "backward" in name]
    assert len(found) == count
    assert captured.ledger["failed"] == {}


@pytest.mark.parametrize("strict", [False, True])
def test_a_pass_that_raises(tmp_path: Path, strict: bool) -> None:
    """What had arrived is there at the end of the step."""

    def program() -> None:
        x = torch.randn(4, requires_grad=True)
        y = x.exp()
        y.register_hook(fail)
        with pytest.raises(RuntimeError, match="on purpose"):
            torch.var_mean(y)[0].backward()

    def fail(_: torch.Tensor) -> None:
        raise RuntimeError("on purpose")

    with ulpscope.capture(tmp_path, strict=strict):
        program()
    assert "Torch.var_mean.0.backward" in Captured(tmp_path).calls
