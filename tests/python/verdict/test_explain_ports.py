"""The first words of an explanation of two different programs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import ulpscope


def run(path: Path, net: nn.Module, x: Tensor) -> Path:
    with ulpscope.capture(path, model=net, level="mix", task="tensor"):
        net(x)
    return path


class Mixer(nn.Module):
    """A program of its own, with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layers = nn.ParameterList(torch.randn(16, 16) / 4 for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.layers:
            x = x + torch.sigmoid(x @ weight) * torch.tanh(x - x.mean(-1, keepdim=True))
        return x


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU()) for _ in range(5)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def test_unrelated_programs_blame_no_call(tmp_path: Path) -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    compared = ulpscope.compare(run(tmp_path / "target", Mixer(), x), run(tmp_path / "golden", Chain(), x))
    assert (compared.divergences, compared.agreement, compared.ok) == ([], "inconclusive", False)
    first = compared.explain().splitlines()[1]
    assert "share almost nothing that could be matched (0 of 6 parameters of the target" in first


class Logarithms(nn.Module):
    """Norms by hand or by one call; a weight of the one by hand may be negative below its root."""

    def __init__(self, *, by_hand: bool, offset: float = 1e-5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
        self.scales = nn.ParameterList(torch.rand(16) + 0.5 for _ in range(6))
        self.by_hand, self.offset = by_hand, offset

    def forward(self, x: Tensor) -> Tensor:
        for number, (layer, scale) in enumerate(zip(self.layers, self.scales, strict=True)):
            x = layer(x).tanh()
            if self.by_hand:
                offset = self.offset if number == 3 else 1e-5
                x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + offset) * scale
            else:
                x = torch.nn.functional.rms_norm(x, (16,), scale, 1e-5)
        return x


def test_nan_on_one_side_is_in_the_first_lines(tmp_path: Path) -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    target = run(tmp_path / "target", Logarithms(by_hand=True, offset=-9.0), x)
    compared = ulpscope.compare(target, run(tmp_path / "golden", Logarithms(by_hand=False), x))
    assert compared.agreement != "agree"
    assert "NaN" in "".join(compared.explain().splitlines()[1:4])


def test_agreement_says_nothing_is_left_to_look_at(tmp_path: Path) -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    target = run(tmp_path / "target", Logarithms(by_hand=True), x)
    compared = ulpscope.compare(target, run(tmp_path / "golden", Logarithms(by_hand=False), x))
    assert compared.agreement == "agree"
    assert "to look at" not in compared.reason
