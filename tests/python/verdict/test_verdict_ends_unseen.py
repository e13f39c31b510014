"""What no loss sees: results of a port that differ although the loss and all gradients agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, WORDS, LENGTH = 24, 40, 8
IDS = torch.arange(2 * LENGTH).reshape(2, LENGTH) * 7 % WORDS

TASKS = pytest.mark.parametrize("task", ["tensor", "statistics"])
SIDES = pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Net(nn.Module):
    """A model with a layer for each thing that it does."""

    def __init__(self, last: Callable[[Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers, self.last = nn.ModuleList(Layer() for _ in range(3)), last

    def forward(self, ids: Tensor) -> Any:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.last(self.head(x))


class OtherNet(Net):
    """The same as somebody else writes it: no layers, and other calls."""

    def forward(self, ids: Tensor) -> Any:
        x = functional.embedding(ids, self.words.weight)
        for layer in self.layers:
            mean = x.mean(-1, keepdim=True)
            spread = (x - mean).square().mean(-1, keepdim=True)
            normed = (x - mean) / torch.sqrt(spread + layer.norm.eps) * layer.norm.weight + layer.norm.bias
            inner = torch.einsum("bli,oi->blo", normed, layer.up.weight) + layer.up.bias
            inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
            x = torch.add(torch.einsum("bli,oi->blo", inner, layer.down.weight) + layer.down.bias, x)
        return self.last(torch.matmul(x, self.head.weight.t()))


def run(path: Path, net: nn.Module, task: str, labels: Tensor = IDS) -> Path:
    with ulpscope.capture(path, model=net, level="mix", task=task):
        found = net(IDS)
        logits = found[0] if isinstance(found, tuple) else found
        functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    return path


def never_agree(wrong: Path, golden: Path, is_target: bool) -> ulpscope.Comparison:
    compared = ulpscope.compare(*((wrong, golden) if is_target else (golden, wrong)))
    assert compared.agreement != "agree", compared.reason
    assert not compared.ok
    return compared


def as_it_is(logits: Tensor) -> Tensor:
    return logits


def shifted(logits: Tensor) -> Tensor:
    return logits + 0.5


def shifted_in_place(logits: Tensor) -> Tensor:
    return logits.add_(0.5)


@TASKS
@SIDES
@pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])
@pytest.mark.parametrize("last", [shifted, shifted_in_place])
def test_what_all_classes_share(
    last: Callable[[Tensor], Tensor], other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    """A cross entropy is the same for predictions that are shifted."""
    golden = run(tmp_path / "golden", other(as_it_is), task)
    right = ulpscope.compare(run(tmp_path / "right", Net(as_it_is), task), golden)
    assert right.ok, right.reason
    never_agree(run(tmp_path / "wrong", Net(last), task), golden, is_target)


def last_row_wrong(logits: Tensor) -> Tensor:
    return torch.cat([logits[:, :-1], 2 * logits[:, -1:]], 1)


@TASKS
@SIDES
@pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])
def test_what_labels_leave_out(other: type[Net], is_target: bool, task: str, tmp_path: Path) -> None:
    labels = IDS.clone()
    labels[:, -1] = -100
    golden = run(tmp_path / "golden", other(as_it_is), task, labels)
    wrong = run(tmp_path / "wrong", Net(last_row_wrong), task, labels)
    never_agree(wrong, golden, is_target)


DECISIONS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any]]] = {
    "argmax": (lambda x: (x, x.argmax(-1)), lambda x: (x, x.argmin(-1))),
    "ge": (lambda x: (x, x.ge(0.0)), lambda x: (x, x.ge(0.1))),
    "topk": (lambda x: (x, x.topk(3).indices), lambda x: (x, x.topk(3, largest=False).indices)),
}


@TASKS
@SIDES
@pytest.mark.parametrize("decision", DECISIONS)
def test_decisions_beside_a_loss(decision: str, is_target: bool, task: str, tmp_path: Path) -> None:
    decide, wrongly = DECISIONS[decision]
    golden = run(tmp_path / "golden", OtherNet(decide), task)
    right = ulpscope.compare(run(tmp_path / "right", Net(decide), task), golden)
    assert right.ok, right.reason
    never_agree(run(tmp_path / "wrong", Net(wrongly), task), golden, is_target)


@TASKS
@SIDES
def test_nan_of_one_side_is_said_first(is_target: bool, task: str, tmp_path: Path) -> None:
    def spoiled(logits: Tensor) -> Tensor:
        logits = logits.clone()
        logits[0, 0, 0] = float("nan")
        return logits

    def forward(path: Path, last: Callable[[Tensor], Tensor]) -> Path:
        net = Net(last)
        with torch.no_grad(), ulpscope.capture(path, model=net, level="mix", task=task):
            net(IDS)
        return path

    golden = forward(tmp_path / "golden", as_it_is)
    compared = never_agree(forward(tmp_path / "wrong", spoiled), golden, is_target)
    side = "target" if is_target else "golden"
    assert f"The {side} alone has NaN or infinite values" in compared.explain().splitlines()[1]


def test_nan_that_stays_for_several_steps_is_said_once(tmp_path: Path) -> None:
    def train(path: Path, factor: float) -> Path:
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with ulpscope.capture(path, model=net, level="mix", task="tensor") as run_:
            for _ in range(3):
                optimizer.zero_grad()
                (net(torch.ones(2, 4)) * factor).square().mean().backward()
                optimizer.step()
                run_.step()
        return path

    said = ulpscope.compare(
        train(tmp_path / "wrong", float("nan")), train(tmp_path / "golden", 1.0)
    ).explain()
    assert said.count("alone has NaN or infinite values") == 1, said
    # The first step is the one that says where they begin.
    assert "the first are in Tensor.__mul__.0.forward" in said, said
