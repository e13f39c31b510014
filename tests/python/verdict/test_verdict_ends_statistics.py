"""Final results of which only statistics were recorded: what these show, and what they cannot."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, HEADS, LENGTH, BATCH, WORDS = 32, 4, 64, 2, 64


class Attention(nn.Module):
    """Attention with rotary positions, by single calls or by the fused one."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: Tensor, rates: Tensor, scale: float, *, fused: bool) -> Tensor:
        query, key, value = (
            layer(x).view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        angles = torch.outer(torch.arange(LENGTH, dtype=rates.dtype), rates).float()
        turn = torch.cat([angles, angles], -1)
        cos, sin = turn.cos().to(x.dtype), turn.sin().to(x.dtype)
        query, key = (part * cos + half_turned(part) * sin for part in (query, key))
        if fused:
            mixed = functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, scale=1 / scale
            )
        else:
            scores = query @ key.transpose(2, 3) / scale
            mask = torch.full((LENGTH, LENGTH), -torch.inf, dtype=x.dtype).triu(1)
            mixed = (scores + mask).float().softmax(-1).to(x.dtype) @ value
        return self.out(mixed.transpose(1, 2).flatten(2))


def half_turned(x: Tensor) -> Tensor:
    one, other = x.chunk(2, -1)
    return torch.cat([-other, one], -1)


class Llama(nn.Module):
    def __init__(self, *, fused: bool, rates: torch.dtype, scale: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleList(Attention() for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        half = WIDTH // HEADS // 2
        self.rates = (10000.0 ** (-torch.arange(half) / half)).to(rates)
        self.scale, self.fused = scale, fused

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + layer(norm(x), self.rates, self.scale, fused=self.fused)
        return self.head(x)


def llama(
    path: Path,
    *,
    fused: bool,
    dtype: torch.dtype,
    rates: torch.dtype = torch.float32,
    scale: float = math.sqrt(WIDTH // HEADS),
) -> Path:
    net = Llama(fused=fused, rates=rates, scale=scale).to(dtype)
    ids = torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) * 7 % WORDS
    with torch.no_grad(), ulpscope.capture(path, model=net, level="mix", task="statistics"):
        net(ids)
    return path


@pytest.mark.parametrize("fused", [True, False], ids=["port", "same program"])
def test_rates_in_a_coarser_dtype(fused: bool, tmp_path: Path) -> None:
    """Rotary rates in bfloat16: elements differ by some 0.01 %, means and norms by far less."""
    golden = llama(tmp_path / "golden", fused=fused, dtype=torch.float32)
    right = ulpscope.compare(llama(tmp_path / "right", fused=False, dtype=torch.float32), golden)
    assert right.ok, right.reason
    wrong = llama(tmp_path / "wrong", fused=False, dtype=torch.float32, rates=torch.bfloat16)
    compared = ulpscope.compare(wrong, golden)
    assert compared.agreement != "agree", compared.reason


def test_what_statistics_do_not_show_is_said(tmp_path: Path) -> None:
    """A wrong scale in bfloat16 moves means and norms by less than rounding may: the verdict says so."""
    golden = llama(tmp_path / "golden", fused=True, dtype=torch.bfloat16)
    scale = 1.3 * math.sqrt(WIDTH // HEADS)
    wrong = ulpscope.compare(
        llama(tmp_path / "wrong", fused=False, dtype=torch.bfloat16, scale=scale), golden
    )
    if wrong.agreement == "agree":
        said = r"only statistics were compared, in which an error of ([0-9.]+) % of their norm may not show"
        hidden = re.search(said, wrong.reason)
        assert hidden is not None, wrong.reason
        assert 1 < float(hidden[1]) < 50


def test_equal_statistics_need_no_reservation(tmp_path: Path) -> None:
    one, other = (llama(tmp_path / name, fused=True, dtype=torch.float32) for name in ("one", "other"))
    compared = ulpscope.compare(one, other)
    assert compared.reason == "everything was compared, nothing differs"


def adam(path: Path, *, inside: bool, other_calls: bool) -> Path:
    """A step of Adam by hand, with its epsilon beside the root or inside of it."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(6)))
    x = torch.linspace(-1, 1, 8 * WIDTH).reshape(8, WIDTH)
    with ulpscope.capture(path, model=net, level="mix", task="statistics"):
        net(x).square().mean().backward()
        with torch.no_grad():
            for weight in net.parameters():
                assert weight.grad is not None
                square = weight.grad.pow(2) if other_calls else weight.grad * weight.grad
                root = (square + 1e-8).sqrt() if inside else square.sqrt() + 1e-8
                if other_calls:
                    weight.add_(torch.div(weight.grad, root), alpha=-0.01)
                else:
                    weight.sub_(0.01 * (weight.grad / root))
    return path


@pytest.mark.parametrize("other_calls", [True, False], ids=["port", "same program"])
def test_an_epsilon_inside_the_root_of_an_optimizer(other_calls: bool, tmp_path: Path) -> None:
    golden = adam(tmp_path / "golden", inside=False, other_calls=other_calls)
    right = ulpscope.compare(adam(tmp_path / "right", inside=False, other_calls=False), golden)
    assert right.ok, right.reason
    wrong = ulpscope.compare(adam(tmp_path / "wrong", inside=True, other_calls=False), golden)
    assert wrong.agreement != "agree", wrong.reason
