"""Calls that ran well and could not be recorded well: what the journal and the ledger say of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured, capture_of
from dumps import run as command
from places import SUPPORT


class RefusesIteration(dict[str, Any]):
    """A result that cannot be recorded."""

    def items(self) -> Any:
        raise RuntimeError("no items")

    def keys(self) -> Any:
        raise RuntimeError("no keys")

    def __iter__(self) -> Any:
        raise RuntimeError("no keys")


class Awkward(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return RefusesIteration(x=x * 2)


def parts_of(ledger: dict[str, Any]) -> int:
    return ledger["recorded"] + sum(sum(ledger[kind].values()) for kind in ("raised", "skipped", "failed"))


VICTIM = """
import sys, time
sys.path[:0] = sys.argv[2:]
import torch, ulpscope
from test_failing_ends import Awkward
model = torch.nn.Sequential(Awkward())
with ulpscope.capture(sys.argv[1], model=model, level="mix"):
    model(torch.ones(2))
    torch.ones(3).cos()
    print("done", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_call_without_results_is_not_running_any_more(tmp_path: Path) -> None:
    """The run is killed later: it did not end inside."""
    words = [sys.executable, "-c", VICTIM, str(tmp_path), str(Path(__file__).parent), str(SUPPORT)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "done\n"
        victim.kill()
    said = command("ls", tmp_path)
    assert "ended inside" not in said.stdout + said.stderr
    lines = (tmp_path / "step0" / "rank" / "journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    lines = [json.loads(line) for line in lines]
    begun = next(line["id"] for line in lines if line.get("call") == "Module.0.Awkward.forward.0")
    assert {"end": begun, "last": True} in lines


def test_a_call_without_results_counts_as_failed(tmp_path: Path) -> None:
    model = nn.Sequential(Awkward())
    captured = capture_of(tmp_path, lambda: model(torch.ones(2)), model=model, level="mix")
    call = captured.calls["Module.0.Awkward.forward.0"]
    assert "input_args" in call
    assert "output" not in call
    (why,) = captured.ledger["failed"]
    assert why.startswith("Module.0.Awkward.forward.0: RuntimeError")
    assert parts_of(captured.ledger) == captured.ledger["seen"]


class Slotted:
    """The container of a module's parameters: listing them fails."""

    def __init__(self) -> None:
        self.is_asked = False

    def items(self) -> Any:
        raise RuntimeError("no parameters")


@pytest.mark.parametrize("raises", [False, True])
def test_a_module_whose_parameters_are_unknown(tmp_path: Path, raises: bool) -> None:
    class Hides(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.__dict__["_parameters"] = Slotted()
            if raises:
                raise ValueError("on purpose")
            return x * 2

    model = nn.Sequential(Hides())

    def program() -> None:
        if raises:
            with pytest.raises(ValueError, match="on purpose"):
                model(torch.ones(2))
        else:
            assert model(torch.ones(2)).tolist() == [2, 2]

    with ulpscope.capture(tmp_path, model=model, level="mix"):
        program()
        model[0].__dict__["_parameters"] = {}
    captured = Captured(tmp_path)
    assert ("output" in captured.calls["Module.0.Hides.forward.0"]) is not raises
    assert [note for note in captured.ledger["notes"] if "no parameters" in note]
    assert captured.ledger["failed"] == {}
    assert captured.ledger["recorded"] + sum(captured.ledger["raised"].values()) == len(captured.calls)


class Placeless(torch.Tensor):
    """A result whose place in the graph is unknown."""

    @property
    def output_nr(self) -> int:
        raise RuntimeError("no number")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).as_subclass(Placeless)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


def test_a_call_that_is_whole_is_not_counted_as_failed(tmp_path: Path) -> None:
    """Its gradients will not be recorded, which is noted."""
    captured = capture_of(tmp_path, lambda: Doubled.apply(torch.ones(2, requires_grad=True)))
    ledger = captured.ledger
    assert "output" in captured.calls["Autograd.Doubled.0.forward"]
    assert ledger["recorded"] == ledger["seen"] == len(captured.calls)
    assert ledger["notes"] == ["Autograd.Doubled.0.forward: RuntimeError: no number"]


@pytest.mark.slow
def test_where_no_threads_are_to_be_had(tmp_path: Path) -> None:
    """A large tensor is measured by the thread that is there."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import resource, sys
            import torch, ulpscope
            x = torch.ones(4 << 20)
            y = torch.empty(4 << 20)
            with ulpscope.capture(sys.argv[1]):
                torch.ones(2).sin()
                pages = int(open("/proc/self/statm").read().split()[0])
                limit = pages * resource.getpagesize() + (48 << 20)
                resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
                torch.neg(x, out=y)
            """
        )
    )
    environment = dict(os.environ, RAYON_NUM_THREADS="100", OMP_NUM_THREADS="1")
    ended = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "dump")], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    assert "panicked" not in ended.stderr
    call = Captured(tmp_path / "dump").calls["Torch.neg.0.forward"]
    assert (call["input_args"][0]["Mean"], call["output"][0]["Mean"]) == (1, -1)
