"""Gradients are final results: of parameters that one side joins, and of those of the model itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, HEADS, LENGTH, BATCH = 32, 4, 6, 2

TASKS = pytest.mark.parametrize("task", ["tensor", "statistics"])


class Split(nn.Module):
    """Attention by hand, with three projections."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, *, detached: bool = False) -> Tensor:
        query, key, value = (
            layer(x).view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        if detached:
            key = key.detach()
        scores = query @ key.transpose(2, 3) / (WIDTH // HEADS) ** 0.5
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


class Fused(nn.Module):
    """The same with one projection and one call."""

    def __init__(self) -> None:
        super().__init__()
        split = Split()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), split.out
        with torch.no_grad():
            self.qkv.weight.copy_(torch.cat([split.q.weight, split.k.weight, split.v.weight]))
            self.qkv.bias.copy_(torch.cat([split.q.bias, split.k.bias, split.v.bias]))

    def forward(self, x: Tensor, *, detached: bool = False) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        return self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class Net(nn.Module):
    def __init__(self, kind: type[Split] | type[Fused]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind() for _ in range(3))

    def forward(self, x: Tensor, *, detached: bool = False) -> Tensor:
        for number, layer in enumerate(self.layers):
            x = x + layer(x, detached=detached and number == 0)
        return x


def attention(path: Path, kind: type[Split] | type[Fused], task: str, *, detached: bool = False) -> Path:
    net = Net(kind)
    x = torch.sin(torch.arange(BATCH * LENGTH * WIDTH, dtype=torch.float32)).reshape(BATCH, LENGTH, WIDTH)
    with ulpscope.capture(path, model=net, level="mix", task=task):
        net(x, detached=detached).square().mean().backward()
    return path


@TASKS
def test_gradients_of_a_fused_projection(task: str, tmp_path: Path) -> None:
    """The keys are cut off from the graph: forward passes agree, and the gradients of keys are missing."""
    golden = attention(tmp_path / "golden", Fused, task)
    right = ulpscope.compare(attention(tmp_path / "right", Split, task), golden)
    assert right.ok, right.reason
    wrong = attention(tmp_path / "wrong", Split, task, detached=True)
    for pair in ((wrong, golden), (golden, wrong)):
        compared = ulpscope.compare(*pair)
        assert compared.agreement != "agree", compared.reason


class Scaled(nn.Module):
    """A model with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.scale = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor, *, detached: bool = False) -> Tensor:
        return self.first(x) * (self.scale.detach() if detached else self.scale)


class ScaledElsewhere(nn.Module):
    """The same in a library that has the parameter in a layer."""

    def __init__(self) -> None:
        super().__init__()
        scaled = Scaled()
        self.weight, self.bias = nn.Parameter(scaled.first.weight.t().detach().clone()), scaled.first.bias
        self.layer = nn.Module()
        self.layer.gain = scaled.scale

    def forward(self, x: Tensor, *, detached: bool = False) -> Tensor:
        for part in range(1, 5):
            x = torch.cat([x[:part], x[part:]])
        return torch.einsum("ni,io->no", x, self.weight).add(self.bias).mul(self.layer.gain)


def scaled(path: Path, net: nn.Module, task: str, *, detached: bool = False) -> Path:
    x = torch.linspace(-1, 1, 8 * WIDTH).reshape(8, WIDTH)
    with ulpscope.capture(path, model=net, level="mix", task=task):
        net(x, detached=detached).square().mean().backward()
    return path


@TASKS
@pytest.mark.parametrize("other", [Scaled, ScaledElsewhere], ids=["same program", "port"])
@pytest.mark.parametrize("way", ["detached", "frozen"])
def test_gradients_of_the_models_own_parameters(
    way: str, other: type[nn.Module], task: str, tmp_path: Path
) -> None:
    golden = scaled(tmp_path / "golden", other(), task)
    right = ulpscope.compare(scaled(tmp_path / "right", Scaled(), task), golden)
    assert right.ok, right.reason
    net = Scaled()
    net.scale.requires_grad_(way != "frozen")
    wrong = scaled(tmp_path / "wrong", net, task, detached=way == "detached")
    for pair in ((wrong, golden), (golden, wrong)):
        compared = ulpscope.compare(*pair)
        assert compared.agreement != "agree", compared.reason
