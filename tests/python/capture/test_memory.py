"""What is in the memory of a tensor, whoever put it there, and where it is said to come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from captured import capture_of

FILLINGS: dict[str, Callable[[torch.Tensor], object]] = {
    "numpy over the same memory": lambda buffer: buffer.numpy().fill(5.0),
    "data": lambda buffer: buffer.data.fill_(5.0),
    "detach": lambda buffer: buffer.detach().fill_(5.0),
    "another tensor over the same memory": lambda buffer: torch.from_numpy(buffer.numpy()).fill_(5.0),
}


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("make", ["empty", "empty_like"])
def test_empty_memory_that_was_written_without_torch(tmp_path: Path, filling: str, make: str) -> None:
    def program() -> None:
        buffer = torch.empty(3) if make == "empty" else torch.empty_like(torch.ones(3))
        FILLINGS[filling](buffer)
        torch.cos(buffer)

    found = capture_of(tmp_path, program, task="tensor")
    item = found.calls["Torch.cos.0.forward"]["input_args"][0]
    assert (item["Max"], item["Min"]) == (5.0, 5.0)
    assert torch.equal(found.tensor(item), torch.full((3,), 5.0))
    # What numpy does torch does not show.
    is_seen = filling in ("data", "detach", "another tensor over the same memory")
    wanted = "Tensor.fill_.0.forward.input.0" if is_seen else f"Torch.{make}.0.forward.output.0"
    assert item["source"] == wanted


def test_empty_memory_that_is_only_written_to(tmp_path: Path) -> None:
    """Its content is no result, and would differ from run to run."""

    def program() -> None:
        torch.empty(3).fill_(1.0)
        torch.empty(3).copy_(torch.ones(3))
        torch.empty(3)[0] = 1.0
        torch.sin(torch.ones(3), out=torch.empty(3))
        torch.empty(3).mul_(0.0)

    calls = capture_of(tmp_path, program).calls
    for name in ("fill_", "copy_", "__setitem__"):
        assert calls[f"Tensor.{name}.0.forward"]["input_args"][0]["Max"] is None, name
    assert calls["Torch.sin.0.forward"]["input_kwargs"]["out"]["Max"] is None
    assert calls["Tensor.fill_.0.forward"]["output"][0]["Max"] == 1.0
    # This one reads it.
    assert calls["Tensor.mul_.0.forward"]["input_args"][0]["Max"] is not None


def test_data_that_is_assigned(tmp_path: Path) -> None:
    """The tensor is then what was assigned; nothing is missed in silence."""
    others = torch.full((2,), 7.0)

    def program() -> None:
        made = torch.exp(torch.zeros(2))
        changed, replaced = torch.sin(torch.ones(2)), torch.sin(torch.ones(2))
        changed.data = made
        replaced.data = others
        torch.cos(changed)
        torch.cos(replaced)
        with_gradient = torch.tanh(torch.ones(2))
        with_gradient.grad = others
        torch.cos(with_gradient)

    found = capture_of(tmp_path, program)
    items = [found.calls[f"Torch.cos.{number}.forward"]["input_args"][0] for number in range(3)]
    assert [item["source"] for item in items] == [
        "Torch.exp.0.forward.output.0",
        "outside",
        "Torch.tanh.0.forward.output.0",
    ]
    assert items[1]["Max"] == 7.0
    assert found.ledger["skipped"]["assigned to a property"] == 3


def test_properties_that_are_read_are_no_assignments(tmp_path: Path) -> None:
    def program() -> None:
        x = torch.ones(2, 2)
        assert (x.shape, x.T.shape, x.grad, x.requires_grad) == (x.size(), x.size(), None, False)

    assert "assigned to a property" not in capture_of(tmp_path, program).ledger["skipped"]
