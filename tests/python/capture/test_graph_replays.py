"""Replays of captured graphs are counted. There is no GPU here: a class of the same form poses as torch's."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import ulpscope  # noqa: E402

NOTE = "a captured graph was replayed: what runs inside it is not seen"


class FakeGraph:
    """As torch.cuda.CUDAGraph: what was captured is run again without calls."""

    def __init__(self, static: torch.Tensor) -> None:
        self.static = static

    def capture_begin(self) -> None:
        """Begins."""

    def capture_end(self) -> None:
        """Ends."""

    def replay(self) -> str:
        """Runs it."""
        self.static.numpy()[:] += 1
        return "replayed"


class OtherGraph(FakeGraph):
    """With a replay that it inherits."""


def notes(folder: Path, step: int) -> list[str]:
    return json.loads((folder / f"step{step}" / "rank" / "ledger.json").read_text())["notes"]


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_replays_are_counted_and_left_as_they_are(tmp_path, monkeypatch, level):
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph, raising=False)
    monkeypatch.setattr(torch, "npu", SimpleNamespace(NPUGraph=OtherGraph), raising=False)
    original = FakeGraph.replay
    static = torch.zeros(3)
    one, other = FakeGraph(static), OtherGraph(static)
    one.replay()
    with ulpscope.capture(tmp_path, torch.nn.Sequential(torch.nn.Identity()), level=level) as run:
        torch.sin(static)
        assert one.replay() == "replayed"
        assert other.replay() == "replayed"
        run.step()
        torch.sin(static)
        run.step()
        one.replay()
        torch.sin(static)
    one.replay()
    assert FakeGraph.replay is original
    assert "replay" not in vars(OtherGraph)
    assert static.tolist() == [5.0] * 3
    assert [notes(tmp_path, step) for step in range(3)] == [[f"{NOTE} (2 times)"], [], [NOTE]]


def test_torch_has_a_class_of_this_form(tmp_path):
    original = torch.cuda.CUDAGraph.replay
    with ulpscope.capture(tmp_path):
        assert torch.cuda.CUDAGraph.replay is not original
        torch.sin(torch.ones(2))
    assert torch.cuda.CUDAGraph.replay is original
