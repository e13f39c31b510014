"""Two programs of which each is given constants that the other is not: a mask here, positions there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, HEADS, LENGTH, WORDS = 16, 2, 6, 30
IDS = torch.arange(3 * LENGTH).reshape(3, LENGTH) * 7 % WORDS
SCALE = (WIDTH // HEADS) ** -0.5

TASKS = pytest.mark.parametrize("task", ["tensor", "statistics"])
SIDES = pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])
FORMS = pytest.mark.parametrize("form", ["queries", "scores", "fused"])
RECORDED = pytest.mark.parametrize("model", [True, False], ids=["with its model", "functions only"])


class Attention(nn.Module):
    """One layer by modules; positions are given to it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.words(ids) + self.places(positions)
        split = (*ids.shape, HEADS, -1)
        query, key, value = (layer(x).view(split).transpose(1, 2) for layer in (self.q, self.k, self.v))
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        weights = (query @ key.transpose(-1, -2) * SCALE).masked_fill(hidden, float("-inf")).softmax(-1)
        x = x + self.o((weights @ value).transpose(1, 2).reshape(x.shape))
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def by_functions(net: Attention, ids: Tensor, mask: Tensor, form: str, scale: float) -> Tensor:
    """The same by functions; a mask is given to it."""
    x = functional.embedding(ids, net.words.weight) + net.places.weight
    split = (*ids.shape, HEADS, -1)
    query, key, value = (
        (torch.einsum("bli,oi->blo", x, layer.weight) + layer.bias).reshape(split).permute(0, 2, 1, 3)
        for layer in (net.q, net.k, net.v)
    )
    if form == "fused":
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)
    else:
        product = "bhid,bhjd->bhij"
        scores = (
            torch.einsum(product, query * scale, key)
            if form == "queries"
            else torch.einsum(product, query, key) / (1 / scale)
        )
        scores = scores + mask
        weights = torch.exp(scores - scores.amax(-1, keepdim=True))
        mixed = torch.einsum("bhij,bhjd->bhid", weights / weights.sum(-1, keepdim=True), value)
    x = x + torch.einsum("bli,oi->blo", mixed.permute(0, 2, 1, 3).reshape(x.shape), net.o.weight) + net.o.bias
    spread = torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + net.norm.eps)
    x = (x - x.mean(-1, keepdim=True)) * spread * net.norm.weight + net.norm.bias
    return torch.einsum("bli,oi->blo", x, net.head.weight) + net.head.bias


def run(path: Path, task: str, form: str | None = None, scale: float = SCALE, *, model: bool = True) -> Path:
    net = Attention()
    mask, positions = torch.full((LENGTH, LENGTH), -1e9).triu(1), torch.arange(LENGTH)[None]
    with ulpscope.capture(path, model=net if model else None, level="mix", task=task):
        result = net(IDS, positions) if form is None else by_functions(net, IDS, mask, form, scale)
        functional.cross_entropy(result[:, :-1].flatten(0, 1), IDS[:, 1:].flatten()).backward()
    return path


def compared(tmp_path: Path, is_target: bool) -> Any:
    sides = (tmp_path / "functions", tmp_path / "modules")
    return ulpscope.compare(*(sides if is_target else sides[::-1]))


# The call of either side that scales scores.
SCALING = {
    "queries": "Tensor.__mul__.0",
    "scores": "Tensor.__truediv__.0",
    "fused": "scaled_dot_product_attention",
}


@TASKS
@SIDES
@FORMS
@RECORDED
def test_a_wrong_scale_is_named(model: bool, form: str, is_target: bool, task: str, tmp_path: Path) -> None:
    run(tmp_path / "modules", task)
    run(tmp_path / "functions", task, form, SCALE**2, model=model)
    comparison = compared(tmp_path, is_target)
    assert comparison.agreement == "differ", comparison.reason
    region = json.loads(comparison.to_json())["first_divergence"]["region"]
    sides = [[call["name"] for call in region[side]["computing"]] for side in ("target", "golden")]
    functions, modules = sides if is_target else sides[::-1]
    assert SCALING[form] in functions[0], functions
    assert any(name.startswith("Tensor.__mul__.") for name in modules), modules


@TASKS
@FORMS
@RECORDED
def test_other_constants_alone_are_no_difference(model: bool, form: str, task: str, tmp_path: Path) -> None:
    run(tmp_path / "modules", task)
    run(tmp_path / "functions", task, form, model=model)
    for is_target in (True, False):
        comparison = compared(tmp_path, is_target)
        assert comparison.agreement == "agree", comparison.reason


def test_other_data_are_no_wrong_scale(tmp_path: Path) -> None:
    """Other words enter at the first call, together with a parameter: no call after that is named."""
    net = Attention()
    run(tmp_path / "modules", "tensor")
    with ulpscope.capture(tmp_path / "functions", model=net, level="mix", task="tensor"):
        mask = torch.full((LENGTH, LENGTH), -1e9).triu(1)
        result = by_functions(net, (IDS + 1) % WORDS, mask, "queries", SCALE**2)
        functional.cross_entropy(result[:, :-1].flatten(0, 1), IDS[:, 1:].flatten()).backward()
    comparison = compared(tmp_path, True)
    assert comparison.agreement != "agree"
    first = json.loads(comparison.to_json())["first_divergence"]
    assert first is None or first["call"] == "Functional.embedding.0.forward", first


@TASKS
@SIDES
@FORMS
def test_a_model_that_returns_a_part_of_its_result(
    form: str, is_target: bool, task: str, tmp_path: Path
) -> None:
    """Other constants do not cut a batch: results of different sizes are different results."""

    class Functions(Attention):
        def forward(self, ids: Tensor, mask: Tensor) -> Any:
            result = by_functions(self, ids, mask, form, SCALE)
            return result[:, :-1], result.relu()

    class Modules(Attention):
        def forward(self, ids: Tensor, positions: Tensor) -> Any:
            result = super().forward(ids, positions)
            return result, result.relu()

    mask, positions = torch.full((LENGTH, LENGTH), -1e9).triu(1), torch.arange(LENGTH)[None]
    for name, net, constant in (("modules", Modules(), positions), ("functions", Functions(), mask)):
        with torch.no_grad(), ulpscope.capture(tmp_path / name, model=net, level="mix", task=task):
            net(IDS, constant)
    comparison = compared(tmp_path, is_target)
    assert comparison.agreement != "agree", comparison.reason
