"""Calls without a counterpart, or whose counterpart has different inputs: their effect is seen."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope


def heads(x: Tensor) -> Tensor:
    return x.view(4, 12, 4, 8).transpose(1, 2)


@pytest.mark.parametrize(
    ("target", "golden", "call"),
    [
        (
            lambda x: heads(x).reshape(4, 12, 32),
            lambda x: heads(x).transpose(1, 2).reshape(4, 12, 32),
            "Tensor.reshape.0.forward",
        ),
        (
            lambda x: x / x.std(1, keepdim=True),
            lambda x: x / x.std(-1, keepdim=True),
            "Tensor.std.0.forward",
        ),
        (
            lambda x: torch.cat([F.silu(x[..., 16:]) * x[..., :16]] * 2, -1),
            lambda x: torch.cat([F.silu(x[..., :16]) * x[..., 16:]] * 2, -1),
            "Tensor.__getitem__.0.forward",
        ),
    ],
    ids=["transpose forgotten", "wrong dimension", "halves swapped"],
)
def test_different_shapes_hide_nothing(target: Any, golden: Any, call: str, tmp_path: Path) -> None:
    def run(name: str, inner: Any) -> Path:
        torch.manual_seed(0)
        before, after, x = nn.Linear(32, 32), nn.Linear(32, 32), torch.randn(4, 12, 32)
        with ulpscope.capture(tmp_path / name, level="mix", task="tensor"):
            after(inner(before(x))).square().mean().backward()
        return tmp_path / name

    found = ulpscope.compare(run("target", target), run("golden", golden)).divergences
    assert (found[0].call, found[0].kind) == (call, "different program")


class Between(nn.Module):
    """Two linear layers, and something in between that uses weights of its own."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.before, self.after, self.inside = nn.Linear(32, 32), nn.Linear(32, 8), Weights()
        self.norm, self.inner = nn.LayerNorm(32), inner

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.inner(self.inside, self.before(self.norm(x))))


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(32, 64), nn.Linear(64, 32)
        self.drop = nn.Dropout(0.0)

    def expand(self, x: Tensor) -> Tensor:
        return self.drop(self.narrow(F.gelu(self.wide(x))))


def product(inner: Weights, x: Tensor) -> Tensor:
    return x @ inner.wide.weight[:32].t()


def product_in_two(inner: Weights, x: Tensor, off: int = 0) -> Tensor:
    weight = inner.wide.weight
    return x[..., :16] @ weight[:32, :16].t() + x[..., 16:] @ weight[off : 32 + off, 16:].t()


def experts_by_mask(inner: Weights, x: Tensor) -> Tensor:
    chance, chosen = x[..., :4].softmax(-1).max(-1)
    given = torch.zeros_like(x)
    for expert in range(4):
        part = slice(8 * expert, 8 * expert + 8)
        own = x @ inner.wide.weight[part].t() @ inner.narrow.weight[:, part].t()
        given = given + (chosen == expert)[..., None] * chance[..., None] * torch.tanh(own)
    return given


def experts_by_index(inner: Weights, x: Tensor, factor: float = 1.0) -> Tensor:
    rows = x.reshape(-1, 32)
    chance, chosen = rows[:, :4].softmax(-1).max(-1)
    given = torch.zeros_like(rows)
    for expert in range(4):
        part = slice(8 * expert, 8 * expert + 8)
        at = (chosen == expert).nonzero().squeeze(-1)
        own = torch.tanh(rows[at] @ inner.wide.weight[part].t() @ inner.narrow.weight[:, part].t())
        given = given.index_add(0, at, chance[at, None] * own * (factor if expert == 3 else 1.0))
    return given.view_as(x)


def normalised(inner: Weights, x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0)


def normalised_at_once(inner: Weights, x: Tensor) -> Tensor:
    return F.instance_norm(x.transpose(1, 2), eps=0).transpose(1, 2)


def expanded(inner: Weights, x: Tensor) -> Tensor:
    return inner.expand(x)


def expanded_in_parts(inner: Weights, x: Tensor) -> Tensor:
    return torch.cat([inner.expand(part) for part in x.split(3, 1)], 1)


def through(path: Path, inner: Any, task: str = "tensor") -> Path:
    torch.manual_seed(0)
    model, x = Between(inner), torch.randn(4, 12, 32)
    with ulpscope.capture(path, model=model, level="mix", task=task):
        model(x).square().mean().backward()
    return path


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (product_in_two, product),
        (experts_by_index, experts_by_mask),
        (normalised_at_once, normalised),
        (expanded_in_parts, expanded),
    ],
    ids=["product in two", "experts by index", "normalised at once", "expanded in parts"],
)
def test_calls_that_do_not_belong_together_raise_nothing(target: Any, golden: Any, tmp_path: Path) -> None:
    """Slices of an input are paired with slices of a weight, and portions of a gradient with all of it."""
    compared = ulpscope.compare(through(tmp_path / "target", target), through(tmp_path / "golden", golden))
    assert compared.divergences == []
    assert compared.ok


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (lambda inner, x: product_in_two(inner, x, off=1), product),
        (lambda inner, x: experts_by_index(inner, x, 1.01), experts_by_mask),
    ],
    ids=["slice off by one", "one expert off"],
)
def test_faults_among_calls_that_do_not_belong_together(target: Any, golden: Any, tmp_path: Path) -> None:
    compared = ulpscope.compare(through(tmp_path / "target", target), through(tmp_path / "golden", golden))
    assert compared.divergences[0].kind == "different program"
    assert compared.agreement == "differ"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_batch_in_two_halves_raises_nothing(task: str, tmp_path: Path) -> None:
    def run(name: str, parts: int) -> Path:
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)), torch.randn(8, 32)
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task=task):
            losses = [model(part).square().sum() for part in x.split(8 // parts)]
            (torch.stack(losses).sum() / 64).backward()
        return tmp_path / name

    assert ulpscope.compare(run("target", 2), run("golden", 1)).divergences == []


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (lambda x: heads(x).reshape(4, 12, 32), lambda x: heads(x).transpose(1, 2).reshape(4, 12, 32)),
        (
            lambda x: x.view(4, 12, 8, 4).transpose(2, 3).reshape(4, 12, 32),
            lambda x: x.view(4, 12, 4, 8).reshape(4, 12, 32),
        ),
    ],
    ids=["transpose forgotten", "heads and widths swapped"],
)
def test_elements_that_change_places_show_in_later_statistics(
    target: Any, golden: Any, tmp_path: Path
) -> None:
    """All statistics of the reordered tensor agree, those of a later product do not."""
    paths = [
        through(tmp_path / name, lambda _, x, way=way: way(x), "statistics")
        for name, way in [("target", target), ("golden", golden)]
    ]
    found = ulpscope.compare(*paths).divergences
    assert found[0].kind == "different program"
    assert found[0].call in (
        "Tensor.reshape.0.forward",
        "Tensor.view.0.forward",
        "Tensor.transpose.0.forward",
    )


@pytest.mark.parametrize("swapped", [False, True])
def test_results_of_one_call_that_were_swapped_are_named(swapped: bool, tmp_path: Path) -> None:
    def halves(inner: Weights, x: Tensor, swapped: bool = False) -> Tensor:
        gate, up = inner.wide(x).chunk(2, -1)
        if swapped:
            gate, up = up, gate
        return F.silu(gate) * up

    golden = through(tmp_path / "golden", halves)
    found = ulpscope.compare(
        through(tmp_path / "target", lambda inner, x: halves(inner, x, swapped)), golden
    ).divergences
    assert [(one.call, one.kind) for one in found[:1]] == (
        [("Functional.silu.0.forward", "different program")] if swapped else []
    )


def test_a_mask_that_one_side_makes_otherwise_is_named(tmp_path: Path) -> None:
    golden = through(tmp_path / "golden", lambda _, x: x * (x > 0))
    found = ulpscope.compare(through(tmp_path / "target", lambda _, x: x * (x >= -0.1)), golden).divergences
    assert (found[0].call, found[0].kind) == ("Tensor.__ge__.0.forward", "different program")


@pytest.mark.parametrize(
    ("target", "golden", "call"),
    [
        (
            lambda x: F.layer_norm(F.relu(x), (32,)),
            lambda x: F.relu(F.layer_norm(x, (32,))),
            "Functional.relu.0.forward",
        ),
        (lambda x: torch.tanh(x) * 3, lambda x: torch.tanh(x * 3), "Torch.tanh.0.forward"),
        (lambda x: x.softmax(-1) * 0.25, lambda x: (x * 0.25).softmax(-1), "Tensor.softmax.0.forward"),
    ],
    ids=["norm and ReLU", "tanh and scale", "softmax and scale"],
)
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_calls_that_changed_places_are_named(
    target: Any, golden: Any, call: str, task: str, tmp_path: Path
) -> None:
    """Each is as far off as the other, which explains neither."""
    paths = [
        through(tmp_path / name, lambda _, x, way=way: way(x), task)
        for name, way in [("target", target), ("golden", golden)]
    ]
    found = ulpscope.compare(*paths).divergences
    assert (found[0].call, found[0].kind) == (call, "different program")


def test_adding_in_place_raises_nothing(tmp_path: Path) -> None:
    def added(inner: Weights, x: Tensor, *, in_place: bool) -> Tensor:
        y = inner.expand(x)
        if not in_place:
            return x + y
        y += x
        return y

    golden = through(tmp_path / "golden", lambda inner, x: added(inner, x, in_place=False))
    compared = ulpscope.compare(
        through(tmp_path / "target", lambda inner, x: added(inner, x, in_place=True)), golden
    )
    assert compared.divergences == []
    assert compared.ok


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    ("last", "agreement"),
    [
        (lambda x: x.flip(0), "inconclusive"),
        (lambda x: x.roll(1, 0), "inconclusive"),
        (lambda x: x + 0, "inconclusive"),
        (lambda x: x.clone(), "agree"),
        (lambda x: F.dropout(x, 0.0), "agree"),
    ],
    ids=["flip", "roll", "nothing added", "clone", "nothing dropped"],
)
def test_a_last_call_of_one_side_may_only_keep_what_there_is(
    last: Any, agreement: str, task: str, tmp_path: Path
) -> None:
    """All statistics of what changed places are those of what was there."""

    def run(name: str, last: Any) -> Path:
        torch.manual_seed(0)
        x, weight = torch.randn(4, 8), torch.randn(8, 8)
        with ulpscope.capture(tmp_path / name, level="L1", task=task):
            last(torch.tanh(x @ weight))
        return tmp_path / name

    assert ulpscope.compare(run("target", last), run("golden", lambda x: x)).agreement == agreement


class Last(nn.Module):
    """A module that ends with a call of its own."""

    def __init__(self, last: Any) -> None:
        super().__init__()
        self.layer, self.last = nn.Linear(8, 8), last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x))


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_statistics_of_a_module_do_not_answer_for_places(task: str, tmp_path: Path) -> None:
    def run(name: str, last: Any) -> Path:
        torch.manual_seed(0)
        model, x = nn.Sequential(Last(last)), torch.randn(4, 8)
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task=task):
            model(x)
        return tmp_path / name

    flipped = ulpscope.compare(run("target", lambda x: x.flip(0)), run("golden", lambda x: x))
    # By statistics nothing is seen, and by elements the module is to blame.
    assert flipped.agreement == ("differ" if task == "tensor" else "inconclusive")
