"""A training step under autocast is one in float32, except for rounding: the optimizer's state too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH = 32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.heads(self.norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(query, key, value)
        return x + self.down(F.gelu(self.up(self.norm(x))))


def step(
    path: Path, task: str, optimizer: str, foreach: bool, seed: int, is_coarse: bool, rate: float = 1e-3
) -> Path:
    torch.manual_seed(seed)
    blocks = [Block() for _ in range(3)]
    net = nn.Sequential(nn.Embedding(50, WIDTH), *blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 50))
    update = getattr(torch.optim, optimizer)(net.parameters(), lr=rate, foreach=foreach)
    x = torch.randint(0, 50, (4, 16))
    with ulpscope.capture(path, model=net, level="mix", task=task):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_coarse):
            loss = F.cross_entropy(net(x).flatten(0, 1).float(), x.roll(1, 1).flatten())
        loss.backward()
        update.step()
    return path


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "foreach"])
@pytest.mark.parametrize("optimizer", ["Adam", "NAdam", "Adagrad"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_step_under_autocast_agrees(
    task: str, optimizer: str, foreach: bool, seed: int, tmp_path: Path
) -> None:
    golden = step(tmp_path / "golden", task, optimizer, foreach, seed, is_coarse=False)
    target = step(tmp_path / "target", task, optimizer, foreach, seed, is_coarse=True)
    compared = ulpscope.compare(target, golden)
    assert (compared.divergences, compared.agreement) == ([], "agree"), compared.reason


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_different_learning_rate_is_named(task: str, tmp_path: Path) -> None:
    golden = step(tmp_path / "golden", task, "Adam", False, 0, is_coarse=False)
    target = step(tmp_path / "target", task, "Adam", False, 0, is_coarse=False, rate=1.2e-3)
    assert ulpscope.compare(target, golden).divergences[0].call.startswith("Tensor.addcdiv_.")


class Tied(nn.Module):
    """Embedding and head share the weight of a layer that nobody calls."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.shared, self.blocks = nn.Embedding(50, WIDTH), nn.Sequential(Block(), Block())

    def forward(self, ids: Tensor) -> Tensor:
        return F.linear(self.blocks(F.embedding(ids, self.shared.weight)), self.shared.weight)


def tied(path: Path, task: str, is_coarse: bool, factor: float = 1.0) -> Path:
    net, ids = Tied(), torch.arange(64).reshape(4, 16) * 7 % 50
    if factor != 1.0:
        net.shared.weight.register_hook(lambda gradient: gradient * factor)
    with ulpscope.capture(path, model=net, level="mix", task=task):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_coarse):
            loss = F.cross_entropy(net(ids).flatten(0, 1).float(), ids.roll(1, 1).flatten())
        loss.backward()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_gradients_of_a_shared_weight_are_as_far_off_as_their_portions(task: str, tmp_path: Path) -> None:
    golden = tied(tmp_path / "golden", task, is_coarse=False)
    compared = ulpscope.compare(tied(tmp_path / "coarse", task, is_coarse=True), golden)
    assert (compared.divergences, compared.agreement) == ([], "agree"), compared.reason
    wrong = ulpscope.compare(tied(tmp_path / "wrong", task, is_coarse=False, factor=1.001), golden)
    assert [one.call for one in wrong.divergences] == ["Module.shared.Embedding.parameters_grad.0"]
