"""A few calls in a coarser dtype are named; a run in a coarser dtype is not."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH = 16


class Attention(nn.Module):
    """An attention that rounds on its way, or not."""

    def __init__(self, way: str = "") -> None:
        super().__init__()
        self.query, self.key, self.way = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), way

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.query(x), self.key(x)
        if self.way == "attention":
            parts = [part.bfloat16()[None] for part in (query, key, x)]
            return x + F.scaled_dot_product_attention(*parts, scale=1.0)[0].float()
        if self.way == "autocast":
            with torch.autocast("cpu", torch.bfloat16):
                return x + (query @ key.T).softmax(-1).float() @ x
        scores = query @ key.T
        weights = scores.bfloat16().softmax(-1).float() if self.way == "softmax" else scores.softmax(-1)
        return x + weights @ x


def run(path: Path, way: str, task: str, dtype: torch.dtype | None = None) -> Path:
    torch.manual_seed(0)
    net = nn.Sequential(Attention(), Attention(way), Attention(), nn.Linear(WIDTH, 4))
    x = torch.randn(32, WIDTH)
    with (
        ulpscope.capture(path, model=net, level="mix", task=task),
        torch.autocast("cpu", dtype, enabled=dtype is not None),
    ):
        net(x).square().mean().backward()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    ("way", "calls"),
    [
        ("softmax", ["Tensor.bfloat16.0.forward"]),
        ("attention", ["Tensor.bfloat16.0.forward", "Tensor.__matmul__.1.forward"]),
        ("autocast", ["Tensor.__matmul__.2.forward"]),
    ],
)
def test_a_coarser_dtype_in_one_place_is_named(way: str, calls: list[str], task: str, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", "", task)
    compared = ulpscope.compare(run(tmp_path / "target", way, task), golden)
    first = compared.divergences[0]
    assert first.kind == "different program"
    assert first.call in calls


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_run_in_a_coarser_dtype_raises_nothing(task: str, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", "", task)
    assert ulpscope.compare(run(tmp_path / "target", "", task, torch.bfloat16), golden).divergences == []


def test_the_two_dtypes_are_reported(tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", "", "tensor")
    told = ulpscope.compare(run(tmp_path / "target", "autocast", "tensor"), golden).explain()
    assert "computes in bfloat16 in the target and in float32 in the golden" in told
