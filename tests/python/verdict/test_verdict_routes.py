"""Programs that compute the same in different ways raise nothing; those that only look alike do."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import ulpscope

WIDTH, HEADS, LENGTH, BATCH, WORDS = 32, 4, 12, 3, 20


class Block(nn.Module):
    """A layer of a transformer that is written in one way or another."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        attended = self.out(self.attend(*self.project(self.normalise(x))))
        x = attended + x if self.way == "summands swapped" else x + attended
        return x + self.expand(self.between(x))

    def expand(self, x: Tensor) -> Tensor:
        match self.way:
            case "in chunks":
                return torch.cat(
                    [self.down(self.activate(self.up(part))) for part in x.split(LENGTH // 2, 1)], 1
                )
            case "doubled and halved":
                return self.down(self.activate(self.up(x)) * 2) * 0.5 + self.down.bias * 0.5
            case "doubled and halved wrongly":
                return self.down(self.activate(self.up(x)) * 2) * 0.5
        return self.down(self.activate(self.up(x)))

    def normalise(self, x: Tensor) -> Tensor:
        if self.way != "layer norm by hand":
            return self.before(x)
        spread = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)
        return (x - x.mean(-1, keepdim=True)) * spread * self.before.weight + self.before.bias

    def project(self, x: Tensor) -> list[Tensor]:
        parts = [self.query, self.key, self.value]
        if self.way == "one projection":
            weight = torch.cat([part.weight for part in parts])
            projected = F.linear(x, weight, torch.cat([part.bias for part in parts])).chunk(3, -1)
        elif self.way == "linear by matmul":
            projected = tuple(x @ part.weight.t() + part.bias for part in parts)
        else:
            projected = tuple(part(x) for part in parts)
        return [one.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for one in projected]

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        if self.way == "fused attention":
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=~hidden)
        else:
            mixed = self.weigh(self.hide(self.score(query, key), hidden)) @ value
        return mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        scale = 1 / math.sqrt(WIDTH // HEADS)
        match self.way:
            case "query scaled":
                return (query * scale) @ key.transpose(-1, -2)
            case "query scaled wrongly":
                return (query * (1.05 * scale)) @ key.transpose(-1, -2)
            case "key scaled":
                return query @ (key * scale).transpose(-1, -2)
            case "both scaled":
                return (query * math.sqrt(scale)) @ (key * math.sqrt(scale)).transpose(-1, -2)
            case "reordered":
                order = torch.arange(WIDTH // HEADS).flip(0)
                return query[..., order] @ key[..., order].transpose(-1, -2) * scale
            case "einsum":
                return torch.einsum("bhqd,bhkd->bhqk", query, key) * scale
            case "divided":
                return (query @ key.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS)
        return (query @ key.transpose(-1, -2)) * scale

    def hide(self, scores: Tensor, hidden: Tensor) -> Tensor:
        match self.way:
            case "hidden by -1e4":
                return scores.masked_fill(hidden, -1e4)
            case "hidden by the smallest":
                return scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
            case "mask added":
                return scores + torch.zeros(LENGTH, LENGTH).masked_fill(hidden, -math.inf)
            case "hidden by where":
                return torch.where(hidden, torch.tensor(-math.inf), scores)
            case "not hidden":
                return scores
        return scores.masked_fill(hidden, -math.inf)

    def weigh(self, scores: Tensor) -> Tensor:
        match self.way:
            case "softmax by hand":
                powers = (scores - scores.amax(-1, keepdim=True)).exp()
                return powers / powers.sum(-1, keepdim=True)
            case "shifted":
                return (scores - scores.amax(-1, keepdim=True).detach()).softmax(-1)
        return scores.softmax(-1)

    def activate(self, x: Tensor) -> Tensor:
        match self.way:
            case "GELU by hand":
                return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))
            case "GELU by tanh":
                return F.gelu(x, approximate="tanh")
        return F.gelu(x)


def loss(way: str, scores: Tensor, words: Tensor) -> Tensor:
    match way:
        case "loss in two calls":
            return F.nll_loss(F.log_softmax(scores, -1), words)
        case "loss summed and divided":
            return F.cross_entropy(scores, words, reduction="sum") / len(words)
        case "loss by hand":
            return -(F.one_hot(words, WORDS) * scores.log_softmax(-1)).sum(-1).mean()
        case "loss summed":
            return F.cross_entropy(scores, words, reduction="sum")
    return F.cross_entropy(scores, words)


def trained(path: Path, way: str, task: str, dtype: torch.dtype = torch.float32) -> Path:
    torch.manual_seed(0)
    blocks = [Block(""), Block(way), Block("")]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))
    model = model.to(dtype)
    text, words = torch.randint(0, WORDS, (2, BATCH, LENGTH))
    with ulpscope.capture(path, model=model, level="mix", task=task):
        loss(way, model(text).flatten(0, 1), words.flatten()).backward()
    return path


SAME = [
    "summands swapped",
    "layer norm by hand",
    "one projection",
    "linear by matmul",
    "fused attention",
    "query scaled",
    "key scaled",
    "both scaled",
    "reordered",
    "einsum",
    "divided",
    "hidden by -1e4",
    "hidden by the smallest",
    "mask added",
    "hidden by where",
    "softmax by hand",
    "shifted",
    "GELU by hand",
    "in chunks",
    "doubled and halved",
    "loss in two calls",
    "loss summed and divided",
    "loss by hand",
]
# The call that is to be named, and a word of why.
OTHER = {
    "query scaled wrongly": ("Tensor.__mul__.1.forward", "only one side"),
    "doubled and halved wrongly": ("Tensor.__mul__.2.forward", "only one side"),
    "not hidden": ("Tensor.masked_fill.1.forward", "only one side"),
    "GELU by tanh": ("Functional.gelu.1.forward", 'called with approximate="tanh" in the target only'),
    "loss summed": ("Functional.cross_entropy.0.forward", 'called with reduction="sum" in the target only'),
}


@pytest.fixture(scope="module", params=["tensor", pytest.param("statistics", marks=pytest.mark.slow)])
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    return trained(tmp_path_factory.mktemp("golden") / "dump", "", request.param), request.param


@pytest.mark.parametrize("way", SAME)
def test_a_different_way_to_the_same_results_raises_nothing(
    golden: tuple[Path, str], way: str, tmp_path: Path
) -> None:
    path, task = golden
    compared = ulpscope.compare(trained(tmp_path / "target", way, task), path)
    assert compared.divergences == []
    assert compared.ok


@pytest.mark.parametrize("way", ["query scaled", "one projection", "hidden by -1e4", "loss by hand"])
def test_a_different_way_in_a_different_precision_raises_nothing(way: str, tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", "", "tensor", torch.bfloat16)
    compared = ulpscope.compare(trained(tmp_path / "target", way, "tensor"), golden)
    assert compared.divergences == []


@pytest.mark.parametrize("way", OTHER)
def test_a_different_program_is_named(golden: tuple[Path, str], way: str, tmp_path: Path) -> None:
    path, task = golden
    call, why = OTHER[way]
    found = ulpscope.compare(trained(tmp_path / "target", way, task), path).divergences
    assert found[0].call == call
    assert found[0].kind == "different program"
    assert why in found[0].why


class Changed(TorchDispatchMode):
    """A kernel whose result is scaled by a wrong factor."""

    def __init__(self, operator: Any, factor: float) -> None:
        super().__init__()
        self._operator, self._factor = operator, factor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.mul(self._factor) if func is self._operator else result


def products(path: Path, is_target: bool, operator: Any = None, factor: float = 1.0) -> Path:
    """Products of two projections, scaled before or after."""
    torch.manual_seed(0)
    one, other, x = torch.randn(3, 24, 24).unbind()
    with Changed(operator, factor), ulpscope.capture(path, level="L1", task="tensor"):
        query, key = torch.tanh(x @ one), torch.tanh(x @ other)
        for _ in range(4):
            scores = (query * 0.3) @ key.t() if is_target else (query @ key.t()) * 0.3
            query = torch.sin(scores)
        torch.square(query).sum()
    return path


@pytest.mark.parametrize(
    ("operator", "factor", "calls"),
    [
        (None, 1.0, []),
        # Directly after a route, and at its beginning.
        (torch.ops.aten.sin.default, 1.01, ["Torch.sin.0.forward"]),
        (torch.ops.aten.sin.default, 1.5, ["Torch.sin.0.forward"]),
        (torch.ops.aten.tanh.default, 1.01, ["Torch.tanh.0.forward", "Torch.tanh.1.forward"]),
    ],
)
def test_a_fault_beside_a_route_is_named(
    operator: Any, factor: float, calls: list[str], tmp_path: Path
) -> None:
    golden = products(tmp_path / "golden", is_target=False)
    target = products(tmp_path / "target", True, operator, factor)
    found = [one.call for one in ulpscope.compare(target, golden).divergences]
    assert found[: len(calls)] == calls
    assert len(found) <= len(calls) + 3


def branches(path: Path, count: int, factor: float | None, last: Any) -> Path:
    """Many branches that are concatenated, each with a factor or not."""
    torch.manual_seed(0)
    parts = torch.randn(count, 8, 8).unbind()
    with ulpscope.capture(path, level="L1", task="tensor"):
        made = [last(torch.tanh(part if factor is None else part * factor)) for part in parts]
        torch.cat(made).square().mean()
    return path


@pytest.mark.parametrize("count", [2, 300])
def test_wrong_branches_do_not_vouch_for_each_other(count: int, tmp_path: Path) -> None:
    golden = branches(tmp_path / "golden", count, None, torch.sigmoid)
    compared = ulpscope.compare(branches(tmp_path / "target", count, 1.3, torch.sigmoid), golden)
    assert compared.divergences[0].call == "Tensor.__mul__.0.forward"
    assert compared.agreement == "differ"


@pytest.mark.parametrize(
    "hide",
    [
        lambda x: torch.maximum(x, torch.full_like(x, 2.0)),
        lambda x: x.clip(2.0, 3.0),
        lambda x: x.clamp_min(2.0),
        lambda x: x.clamp(2.0, 3.0),
        lambda x: F.relu(x - 2),
        lambda x: torch.round(x / 9),
    ],
    ids=["maximum", "clip", "clamp_min", "clamp", "relu", "round"],
)
def test_what_hides_an_error_proves_nothing(hide: Any, tmp_path: Path) -> None:
    golden = branches(tmp_path / "golden", 2, None, hide)
    found = ulpscope.compare(branches(tmp_path / "target", 2, 1.3, hide), golden).divergences
    assert found[0].call == "Tensor.__mul__.0.forward"


def test_where_two_ways_part_and_meet_is_said(tmp_path: Path) -> None:
    dumps = [trained(tmp_path / name, way, "tensor") for name, way in (("a", "hidden by -1e4"), ("b", ""))]
    notes = ulpscope.compare(*dumps).notes
    assert any(
        "from Tensor.masked_fill.1.forward on, and agree again at Tensor.softmax.1.forward" in note
        for note in notes
    ), notes


def test_a_fault_beside_nan_of_both_sides_is_named(tmp_path: Path) -> None:
    def run(name: str, factor: float) -> Path:
        torch.manual_seed(0)
        x = torch.randn(8, 16)
        x[0] = -1
        with Changed(torch.ops.aten.sin.default, factor), ulpscope.capture(tmp_path / name, task="tensor"):
            rows = torch.where(torch.arange(8)[:, None] == 0, torch.log(x), x)
            torch.sin(torch.tanh(rows) @ torch.randn(16, 16))
        return tmp_path / name

    calls = [one.call for one in ulpscope.compare(run("target", 1.01), run("golden", 1.0)).divergences]
    assert "Torch.log.0.forward" in calls
    assert "Torch.sin.0.forward" in calls
