"""Graphs that several threads have a part in: torch numbers the nodes of each thread by themselves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from captured import Captured, capture_of


def on_a_thread(what: Any) -> Any:
    """What something returns that runs on a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(what).result()


def gradients_of(captured: Captured, call: str) -> list[float | None]:
    return [None if item is None else item["Mean"] for item in captured.calls[call]["output"]]


class Helped(nn.Module):
    """Has a part of its work done on another thread."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = x.sin()
        return on_a_thread(lambda: (made * 2).cos()) + 1


def test_what_another_thread_may_have_made_is_noted(tmp_path: Path) -> None:
    model = nn.Sequential(Helped())
    x = torch.ones(3, requires_grad=True)
    for _ in range(10):
        x.sin()
    captured = capture_of(tmp_path, lambda: model(x * 1).sum().backward(), model=model, level="mix")
    assert gradients_of(captured, "Module.0.Helped.backward.0") == [None]
    found = [note for note in captured.ledger["notes"] if note.startswith("Module.0.Helped led to parts")]
    assert len(found) == 1


def test_one_thread_has_nothing_noted(tmp_path: Path) -> None:
    """Tensors from outside that are older than a call, and an argument that it does not use."""
    older = torch.ones(3, requires_grad=True).exp()

    class Closes(nn.Module):
        def forward(self, x: torch.Tensor, unused: torch.Tensor) -> torch.Tensor:
            return x * older

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Closes()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x * 2, x * 3).sum()

    model = Model()
    x = torch.ones(3, requires_grad=True)
    captured = capture_of(tmp_path, lambda: model(x).backward(), model=model, level="mix")
    assert gradients_of(captured, "Module.inner.Closes.backward.0")[1] is None
    assert not captured.ledger["notes"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 1,
        lambda x: torch.floor_divide(x, 2),
        torch.aminmax,
        lambda x: torch.heaviside(x, x),
    ],
    ids=["//", "floor_divide", "aminmax", "heaviside"],
)
def test_functions_without_a_derivative_have_nothing_noted(tmp_path: Path, function: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    captured = capture_of(tmp_path, lambda: function(x * 2))
    assert captured.ledger["recorded"] == 2
    # The graph of the first is still there.
    assert not [note for note in captured.ledger["notes"] if "another thread" in note]


def test_a_new_thread_does_not_walk_into_what_another_has_made(tmp_path: Path) -> None:
    """The numbers of the thread begin at 0: all that there is has higher ones."""
    x = torch.ones(3, requires_grad=True)
    shared = x * 1
    older = shared
    for _ in range(50):
        older = older * 2

    class Closes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * older

    model = nn.Sequential(Closes())
    made: list[torch.Tensor] = []

    def program() -> None:
        thread = threading.Thread(target=lambda: made.append(model(shared)))
        thread.start()
        thread.join()
        made[0].sum().backward()

    captured = capture_of(tmp_path, program, model=model, level="mix")
    # What comes to `shared` by way of `older` is no contribution of this call.
    assert gradients_of(captured, "Module.0.Closes.backward.0") == [2.0**50]


def test_modules_of_several_threads_are_not_mixed_up(tmp_path: Path) -> None:
    """Numbers also show which module a repeated call belongs to."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inside, x, use_reentrant=False)

        def inside(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x * self.linear.weight).sum()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Block(), Block()

    model = Model()
    x = torch.ones(2, 2, requires_grad=True)

    def program() -> None:
        made = [on_a_thread(lambda part=part: part(x)) for part in (model.first, model.second)]
        sum(made).backward()

    captured = capture_of(tmp_path, program, model=model, level="mix")
    parents = captured.document("construct.json")
    repeated = [
        name
        for name, call in captured.calls.items()
        if name.startswith("Torch.tanh") and "forward" in name and "is_recompute" in call["input_args"][0]
    ]
    # The nodes of both have the same numbers.
    assert len(repeated) == 2
    assert [parents[name] for name in repeated] == [None, None]
    assert any("the modules of some cannot be told" in note for note in captured.ledger["notes"])
