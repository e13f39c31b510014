"""Finite numbers whose squares are infinite are compared by their extremes."""

from pathlib import Path

import pytest
import torch
from torch import nn

import ulpscope


class Huge(nn.Module):
    """Returns numbers of float64 near the end of its range."""

    def __init__(self, largest: float, relative: float) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(largest * (1 + relative), dtype=torch.float64))
        self.scale: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.tanh() * self.scale


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("largest", [1e160, 1e300])
@pytest.mark.parametrize("relative", [0.0, 0.5])
def test_squares_that_overflow_hide_no_difference(
    tmp_path: Path, task: str, largest: float, relative: float
) -> None:
    x = torch.randn(4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name, apart in (("target", relative), ("golden", 0.0)):
        model = Huge(largest, apart)
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task=task):
            model(x)
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert bool(result) == (relative == 0.0), result.explain()


def test_tensors_alone(tmp_path: Path) -> None:
    x = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tanh()
    for name, scale in (("target", 1.5e300), ("golden", 1e300)):
        (tmp_path / name).mkdir()
        torch.save(x * scale, tmp_path / name / "weight.pt")
    assert not ulpscope.compare(tmp_path / "target", tmp_path / "golden")
