"""Views whose base was changed: their nodes are made when the program asks for them, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured


class Uses(nn.Module):
    """Takes a tensor twice before it takes a view of it."""

    def forward(self, base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        made = base.sin().sum() + base.cos().sum()
        return made + (view * 2).sum()


class Ignores(nn.Module):
    """Leaves a view to those who come after."""

    def forward(self, base: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        return base.sin().sum()


class Model(nn.Module):
    """Hands a view on after its base was changed."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.order: list[str] = []

    def forward(self, w: torch.Tensor) -> torch.Tensor:
        base = w * 1
        view = base[:3]
        base.mul_(2)
        made = self.inner(base, view)
        last = base.tan()
        self.watch("view", view * 3 if isinstance(self.inner, Ignores) else view)
        self.watch("tan", last)
        return made + last.sum() + view.sum()

    def watch(self, name: str, tensor: torch.Tensor) -> None:
        assert tensor.grad_fn is not None
        tensor.grad_fn.register_hook(lambda *_: self.order.append(name))


def sines(model: Model) -> tuple[list[str], list[str]]:
    """The order in which gradients come to the base."""
    order: list[str] = []
    w = torch.linspace(-1, 1, 6, requires_grad=True)
    model.order = []
    made = model(w)
    node = made.grad_fn
    waiting, met = [node], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        kind = type(node).__name__
        if kind in ("SinBackward0", "CosBackward0", "TanBackward0", "AsStridedBackward0"):
            node.register_hook(lambda *_, kind=kind: order.append(kind))
        waiting.extend(next_node for next_node, _ in node.next_functions)
    made.backward()
    return order, model.order


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
@pytest.mark.parametrize("inner", [Uses, Ignores])
def test_gradients_are_summed_in_the_same_order(tmp_path: Path, inner: type[nn.Module], level: str) -> None:
    model = Model(inner())
    wanted = sines(model)
    with ulpscope.capture(tmp_path, model=model, level=level):
        found = sines(model)
    assert found == wanted


def gradients_of(folder: Path, level: str) -> tuple[dict[str, list[float | None]], list[str]]:
    """The means of the gradients that modules give, and what the ledger notes."""
    model = Model(Uses())
    with ulpscope.capture(folder, model=model, level=level):
        sines(model)
    captured = Captured(folder)
    means = {
        name: [None if item is None else item["Mean"] for item in call["output"]]
        for name, call in captured.calls.items()
        if name.startswith("Module") and "backward" in name
    }
    return means, captured.ledger["notes"]


def test_the_gradient_is_there_where_a_call_within_has_asked(tmp_path: Path) -> None:
    means, notes = gradients_of(tmp_path, "mix")
    assert means["Module.inner.Uses.backward.0"][1] == 2
    assert not notes


def test_what_is_not_asked_is_noted(tmp_path: Path) -> None:
    means, notes = gradients_of(tmp_path, "L0")
    assert means["Module.inner.Uses.backward.0"][1] is None
    assert len(notes) == 1
    assert notes[0].startswith(
        "Module.inner.Uses was given a view of a tensor that may have been changed since"
    )


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("is_changed", [False, True])
def test_views_that_are_up_to_date_have_their_gradients(tmp_path: Path, level: str, is_changed: bool) -> None:
    """Made after the change, or changed themselves."""

    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            base = x * 1
            base.mul_(2)
            view = base.flatten(1)
            if is_changed:
                view += 1
            return self.layer(view).sum()

    model = Flat()
    with ulpscope.capture(tmp_path, model=model, level=level):
        model(torch.ones(2, 2, 2, requires_grad=True)).backward()
    captured = Captured(tmp_path)
    assert captured.calls["Module.layer.Linear.backward.0"]["output"][0] is not None
    assert not captured.ledger["notes"]


def test_a_function_that_takes_one_view_has_its_gradient(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path):
        base = torch.ones(4, requires_grad=True) * 1
        view = base[:2]
        base.mul_(3)
        torch.cos(view).sum().backward()
    captured = Captured(tmp_path)
    assert captured.calls["Torch.cos.0.backward"]["output"][0] is not None
    assert not captured.ledger["notes"]


def test_a_view_beside_one_that_was_changed_has_its_gradient(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path):
        base = torch.ones(2, 4, requires_grad=True) * 1
        first, second = base[:, :2], base[:, 2:]
        first.mul_(3)
        (first + second).sum().backward()
    captured = Captured(tmp_path)
    assert all(captured.calls["Tensor.__add__.0.backward"]["output"])
    assert not captured.ledger["notes"]
