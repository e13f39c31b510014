"""Calls that add nothing to final results: unused random numbers, unchanged parameters, empty tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ulpscope

WIDTH = 16
X = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(5))


def recorded(path: Path, net: nn.Module, task: str, draws: int = 0) -> Path:
    """One forward and backward pass; numbers are drawn before it."""
    torch.manual_seed(1)
    torch.rand(draws + 1)
    with ulpscope.capture(path, model=net, level="mix", task=task):
        net(X).square().mean().backward()
    return path


class Encoder(nn.Module):
    """Draws a number for each layer, as models do that skip some in training."""

    def __init__(self, *, uses: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.uses = uses
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            drawn = torch.rand([])
            x = layer(x * (1 + drawn) if self.uses else x).tanh()
        return x


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_random_numbers_that_a_module_does_not_use_may_differ(task: str, tmp_path: Path) -> None:
    target = recorded(tmp_path / "target", Layers(uses=False), task, draws=3)
    compared = ulpscope.compare(target, recorded(tmp_path / "golden", Layers(uses=False), task))
    assert (compared.agreement, compared.divergences) == ("agree", [])


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_random_numbers_that_a_module_uses_are_named(task: str, tmp_path: Path) -> None:
    target = recorded(tmp_path / "target", Layers(uses=True), task, draws=3)
    compared = ulpscope.compare(target, recorded(tmp_path / "golden", Layers(uses=True), task))
    assert compared.agreement == "differ"
    assert compared.divergences[0].call == "Torch.rand.0.forward"


class Layers(nn.Module):
    def __init__(self, *, uses: bool) -> None:
        super().__init__()
        self.encoder = Encoder(uses=uses)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.encoder(x)
        return found


class Scaled(nn.Module):
    """Layers whose result is scaled by a parameter; one form of it moves that to a device first."""

    def __init__(self, *, moves: bool, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.moves, self.factor = moves, factor
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        empty = torch.tensor([])
        for number, layer in enumerate(self.layers):
            found = layer(x) if self.moves else x @ layer.weight.T + layer.bias
            found = found * (self.factor if number == 3 else 1.0)
            x = torch.cat([empty.reshape(0, WIDTH), found]).tanh()
        return x


def stepped(path: Path, net: Scaled, task: str) -> Path:
    """Records a training pass whose loss scales what the model returns by its parameter, in no module."""
    with ulpscope.capture(path, model=net, level="mix", task=task):
        found = net(X)
        scale = net.scale.to(X.device) if net.moves else net.scale
        (found * scale).square().mean().backward()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_parameter_that_a_call_returns_as_it_is_is_no_final_result(task: str, tmp_path: Path) -> None:
    target = stepped(tmp_path / "target", Scaled(moves=True), task)
    compared = ulpscope.compare(target, stepped(tmp_path / "golden", Scaled(moves=False), task))
    assert (compared.agreement, compared.divergences) == ("agree", [])


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_an_empty_tensor_is_not_blamed(task: str, tmp_path: Path) -> None:
    target = stepped(tmp_path / "target", Scaled(moves=True, factor=1.5), task)
    compared = ulpscope.compare(target, stepped(tmp_path / "golden", Scaled(moves=False), task))
    assert compared.agreement == "differ"
    assert compared.divergences[0].call == "Tensor.__mul__.3.forward"
