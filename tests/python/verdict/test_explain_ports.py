"""The first words of an explanation of two different programs."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import ulpscope


def run(path: Path, net: nn.Module, x: Tensor, task: str = "tensor") -> Path:
    with ulpscope.capture(path, model=net, level="mix", task=task):
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


class SmallRow(nn.Module):
    """A network whose first row is small beside the others, and of which the head sees this row alone."""

    def __init__(self, *, by_hand: bool, offset: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(6))
        self.head = nn.Linear(16, 4)
        self.by_hand, self.offset = by_hand, offset

    def forward(self, x: Tensor) -> Tensor:
        for number, layer in enumerate(self.layers):
            y = layer(x)
            if number == 2 and self.offset:
                y = y + self.offset
            # The same function in one call, or in three.
            x = x + (y / (1 + torch.exp(-y)) if self.by_hand else nn.functional.silu(y))
        return self.head(x[:, 0] * 1e4)


def test_elements_that_statistics_do_not_show_are_not_blamed_on_the_call_that_selects_them(
    tmp_path: Path,
) -> None:
    x = torch.randn(4, 64, 16, generator=torch.Generator().manual_seed(1))
    x[:, 0] *= 1e-4
    wrong = run(tmp_path / "wrong", SmallRow(by_hand=True, offset=1e-7), x, "statistics")
    golden = run(tmp_path / "golden", SmallRow(by_hand=False), x, "statistics")
    compared = ulpscope.compare(wrong, golden)
    assert (compared.agreement, compared.divergences[0].call) == ("differ", "Tensor.__getitem__.0.forward")
    assert compared.divergences[0].confidence < 0.3
    said = compared.explain()
    assert "so the difference may arise earlier" in said
    assert "very high" not in said
    right = run(tmp_path / "right", SmallRow(by_hand=True), x, "statistics")
    assert ulpscope.compare(right, golden).agreement == "agree"
