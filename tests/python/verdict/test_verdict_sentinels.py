"""Masks that are added to scores as large numbers hide neither an error nor agreement."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ulpscope

WIDTH = 16

MASKS = {
    "smallest of float32": (torch.float32, torch.finfo(torch.float32).min),
    "smallest of bfloat16": (torch.bfloat16, torch.finfo(torch.bfloat16).min),
    "smallest of float16": (torch.float16, torch.finfo(torch.float16).min),
    "-1e9": (torch.float32, -1e9),
    "-1e4": (torch.float32, -1e4),
    "-1e4 in float16": (torch.float16, -1e4),
    "infinity": (torch.float32, -torch.inf),
}


class Attention(nn.Module):
    def __init__(self, fill: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.fill = fill
        self.early: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        query, key = self.query(x), self.key(x).transpose(0, 1)
        # The scale may be applied before the product, where only one program has a call for it.
        scores = query @ key * 2.0 if self.early is None else (query * self.early) @ key
        hidden = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        mask = torch.zeros(len(x), len(x), dtype=x.dtype).masked_fill(hidden, self.fill)
        return x + (scores + mask).softmax(-1) @ self.value(x)


def run(path: Path, mask: str, task: str, scale: float = 1.0, early: list[float] | None = None) -> Path:
    """One forward pass of three layers.

    ``scale`` is a wrong factor on the keys of the second; ``early`` has the scales of all layers, if they are
    applied before the product.
    """
    dtype, fill = MASKS[mask]
    torch.manual_seed(0)
    net = nn.Sequential(*(Attention(fill) for _ in range(3)), nn.Linear(WIDTH, 4))
    x = torch.randn(24, WIDTH)
    net, x = net.to(dtype), x.to(dtype)
    if scale != 1.0:
        right = net[1].key.forward
        net[1].key.forward = lambda x: right(x) * scale
    for layer, factor in zip(net, early or [], strict=False):
        layer.early = factor
    with torch.no_grad(), ulpscope.capture(path, model=net, level="mix", task=task):
        net(x)
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("mask", MASKS)
def test_an_error_before_a_mask_is_named_there(mask: str, task: str, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", mask, task)
    compared = ulpscope.compare(run(tmp_path / "target", mask, task, scale=1.3), golden)
    assert compared.agreement == "differ", compared.reason
    assert compared.divergences[0].call == "Tensor.__mul__.1.forward", compared.explain()


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_proves_no_agreement(mask: str, task: str, tmp_path: Path) -> None:
    """After the mask, wrong scores differ by next to nothing relative to it."""
    golden = run(tmp_path / "golden", mask, task)
    right = ulpscope.compare(run(tmp_path / "right", mask, task, early=[2.0, 2.0, 2.0]), golden)
    assert right.divergences == [], right.explain()
    wrong = ulpscope.compare(run(tmp_path / "wrong", mask, task, early=[2.0, 6.0, 2.0]), golden)
    assert wrong.agreement != "agree", wrong.reason
    blamed = [found.call for found in wrong.divergences[:1]]
    assert not any("softmax" in call or "__add__" in call for call in blamed), wrong.explain()
