"""Calls of one side that nothing else depends on: a logged norm, an accuracy, ``loss.item()``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope
from twin_programs import GPT

Logs = Callable[[nn.Module, Tensor, Tensor, Tensor], Any]
TOKENS = torch.arange(16).reshape(2, 8) * 7 % 32


def train(folder: Path, task: str, before: Logs | None = None, after: Logs | None = None) -> Path:
    """A step that may look at its own numbers, before and after the backward pass."""
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(folder, model=model, level="mix", task=task):
        logits = model(TOKENS[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 32), TOKENS[:, 1:].reshape(-1))
        if before is not None:
            before(model, logits, TOKENS[:, 1:], loss)
        loss.backward()
        if after is not None:
            after(model, logits, TOKENS[:, 1:], loss)
        optimizer.step()
    return folder


def item(model: nn.Module, logits: Tensor, labels: Tensor, loss: Tensor) -> Any:
    return loss.item()


def accuracy(model: nn.Module, logits: Tensor, labels: Tensor, loss: Tensor) -> Any:
    return (logits.argmax(-1) == labels).float().mean().item()


def spread(model: nn.Module, logits: Tensor, labels: Tensor, loss: Tensor) -> Any:
    return logits.std()


def hashed(model: nn.Module, logits: Tensor, labels: Tensor, loss: Tensor) -> Any:
    """Each call takes the result of the one before twice: there are 2^60 ways back to the first."""
    choice = logits.argmax(-1)
    for _ in range(60):
        choice = choice + choice
    return (choice == 0).sum().item()


def norm(model: nn.Module, logits: Tensor, labels: Tensor, loss: Tensor) -> Any:
    return torch.stack([one.grad.norm() for one in model.parameters() if one.grad is not None]).norm()


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(item, None), (accuracy, None), (spread, None), (hashed, None), (None, norm)],
    ids=["item", "accuracy", "spread", "hashed", "norm"],
)
def test_runs_that_differ_only_in_them_agree(
    before: Logs | None, after: Logs | None, task: str, tmp_path: Path
) -> None:
    looks, plain = train(tmp_path / "looks", task, before, after), train(tmp_path / "plain", task)
    for target, golden, side in [(looks, plain, "target"), (plain, looks, "golden")]:
        found = ulpscope.compare(target, golden)
        assert found.agreement == "agree"
        assert any(f"the {side} alone makes" in note for note in found.notes)


def test_a_difference_beside_them_is_named(tmp_path: Path) -> None:
    def wrong(model: nn.Module, logits: Tensor, labels: Tensor, loss: Tensor) -> None:
        norm(model, logits, labels, loss)
        next(iter(model.parameters())).grad.mul_(1.5)

    target, golden = train(tmp_path / "target", "tensor", after=wrong), train(tmp_path / "golden", "tensor")
    assert ulpscope.compare(target, golden).agreement == "differ"


def test_a_term_of_the_loss_is_none(tmp_path: Path) -> None:
    """A gradient goes back through it."""

    def record(name: str, has_term: bool) -> Path:
        torch.manual_seed(0)
        layer, x = nn.Linear(8, 8), torch.randn(4, 8)
        with ulpscope.capture(tmp_path / name, level="L1", task="tensor"):
            y = layer(x)
            y.square().mean().backward(retain_graph=True)
            if has_term:
                y.abs().mean().backward()
        return tmp_path / name

    assert ulpscope.compare(record("target", True), record("golden", False)).agreement != "agree"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_one_more_call_after_the_last_result_is_none(task: str, tmp_path: Path) -> None:
    """The target may end in what it returns, which nothing was compared with."""

    def record(name: str, last: Callable[[Tensor], Tensor]) -> Path:
        torch.manual_seed(0)
        layer, x = nn.Linear(8, 8), torch.randn(4, 8)
        with ulpscope.capture(tmp_path / name, level="mix", task=task), torch.no_grad():
            last(layer(x))
        return tmp_path / name

    plain = record("plain", lambda y: y)
    assert ulpscope.compare(record("scaled", lambda y: y * 1.5), plain).agreement == "inconclusive"
    assert ulpscope.compare(record("chosen", lambda y: y.argmax(-1)), plain).agreement == "agree"


def test_two_forms_of_the_last_computation_are_none(tmp_path: Path) -> None:
    """Both sides end in calls without a counterpart."""

    def record(name: str, last: Callable[[Tensor], Tensor]) -> Path:
        torch.manual_seed(0)
        layer, x = nn.Linear(8, 8), torch.randn(4, 8)
        with ulpscope.capture(tmp_path / name, level="mix", task="tensor"), torch.no_grad():
            last(layer(x))
        return tmp_path / name

    target = record("target", lambda y: y.exp() / y.exp().sum(0, keepdim=True))
    golden = record("golden", lambda y: F.softmax(y, -1))
    assert ulpscope.compare(target, golden).agreement == "inconclusive"


def test_a_result_of_the_inputs_alone_is_none(tmp_path: Path) -> None:
    x = torch.ones(4, 8)
    for name, has_more in (("target", True), ("golden", False)):
        with ulpscope.capture(tmp_path / name, level="L1", task="tensor"):
            x.sin()
            if has_more:
                x.cos()
    assert ulpscope.compare(tmp_path / "target", tmp_path / "golden").agreement == "inconclusive"
