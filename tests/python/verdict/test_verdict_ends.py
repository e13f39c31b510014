"""What a run leaves behind: two runs whose ends differ never agree, whatever their calls have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope

WIDTH, ROWS = 8, 4

TASKS = pytest.mark.parametrize("task", ["tensor", "statistics"])
SIDES = pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])


def given() -> Tensor:
    return torch.linspace(-1, 1, ROWS * WIDTH).reshape(ROWS, WIDTH)


class Net(nn.Module):
    """A model that ends in a layer, and in whatever `last` does to its result."""

    def __init__(self, last: Callable[[Tensor], Any] = lambda x: x) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()), nn.Linear(WIDTH, WIDTH)
        self.last = last

    def forward(self, x: Tensor) -> Any:
        return self.last(self.head(self.body(x)))


class OtherNet(Net):
    """The same by other calls: a port."""

    def forward(self, x: Tensor) -> Any:
        first = self.body[0]
        for part in range(3):  # Calls that the other program does not make, and that change nothing.
            x = torch.cat([x[:part], x[part:]]) if part else x.reshape(x.shape)
        x = torch.addmm(first.bias, x, first.weight.t())  # type: ignore[arg-type, operator]
        x = (x.exp() - x.neg().exp()) / (x.exp() + x.neg().exp())
        return self.last(torch.einsum("ni,oi->no", x, self.head.weight) + self.head.bias)


def run(
    path: Path,
    net: nn.Module,
    task: str,
    after: Callable[[Any], Any] = lambda _: None,
    backward: bool = False,
) -> Path:
    with ulpscope.capture(path, model=net, level="mix", task=task):
        with torch.set_grad_enabled(backward):
            result = net(given())
        if backward:
            result.square().mean().backward()
        with torch.no_grad():
            after(result)
    return path


def cut_in_place(x: Tensor) -> Tensor:
    x[:, 4:] = 0
    return x


def cut_through_a_view(x: Tensor) -> Tensor:
    x[:, 4:].zero_()
    return x


def doubled(x: Tensor) -> Tensor:
    return x.mul_(2)


WRITES = {"assigned": cut_in_place, "view": cut_through_a_view, "doubled": doubled}


@TASKS
@SIDES
@pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])
@pytest.mark.parametrize("inside", [True, False], ids=["in forward", "after"])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_into_a_result_at_last(
    write: str, inside: bool, other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    """One side alone writes into what its model returns, in its last line or after it returned."""
    last = WRITES[write]
    changed = Net(last) if inside else Net()
    target = run(tmp_path / "target", changed, task, (lambda _: None) if inside else last)
    golden = run(tmp_path / "golden", other(), task)
    pair = (target, golden) if is_target else (golden, target)
    compared = ulpscope.compare(*pair)
    assert compared.agreement != "agree", compared.reason
    assert not compared.ok


@TASKS
@pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])
@pytest.mark.parametrize("inside", [True, False], ids=["in forward", "after"])
@pytest.mark.parametrize("write", WRITES)
def test_what_both_sides_write_at_last(
    write: str, inside: bool, other: type[Net], task: str, tmp_path: Path
) -> None:
    """Healthy: both sides end in the same numbers."""
    last = WRITES[write]
    after = (lambda _: None) if inside else last
    nets = (Net(last), other(last)) if inside else (Net(), other())
    target, golden = (run(tmp_path / name, net, task, after) for name, net in zip("tg", nets, strict=True))
    compared = ulpscope.compare(target, golden)
    assert compared.ok, compared.reason


def cut_out_of_place(x: Tensor) -> Tensor:
    return torch.cat([x[:, :4], torch.zeros_like(x[:, 4:])], dim=1)


@TASKS
@pytest.mark.parametrize("write", ["assigned", "view"])
def test_written_in_place_or_not_is_the_same(write: str, task: str, tmp_path: Path) -> None:
    """Healthy: one side writes zeros into its result, the other makes a new one."""
    target = run(tmp_path / "target", Net(WRITES[write]), task)
    golden = run(tmp_path / "golden", OtherNet(cut_out_of_place), task)
    compared = ulpscope.compare(target, golden)
    assert compared.ok, compared.reason


DECISIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "argmax": lambda x: x.argmax(-1),
    "ge": lambda x: x.ge(0.0),
    "topk": lambda x: x.topk(2).indices,
}
WRONG_DECISIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "argmax": lambda x: x.argmin(-1),
    "ge": lambda x: x.ge(0.3),
    "topk": lambda x: x.topk(2, largest=False).indices,
}


@TASKS
@pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])
@pytest.mark.parametrize("inside", [True, False], ids=["in forward", "after"])
@pytest.mark.parametrize("decision", DECISIONS)
def test_decisions_that_differ(
    decision: str, inside: bool, other: type[Net], task: str, tmp_path: Path
) -> None:
    """The floats agree, and the integers or truth values that were decided from them do not."""

    def decided(net: type[Net], name: str, decide: Callable[[Tensor], Tensor]) -> Path:
        last: Callable[[Tensor], Any] = lambda x: (x, decide(x))  # noqa: E731
        if inside:
            return run(tmp_path / name, net(last), task)
        return run(tmp_path / name, net(), task, decide)

    wrong = decided(Net, "wrong", WRONG_DECISIONS[decision])
    golden = decided(other, "golden", DECISIONS[decision])
    for pair in ((wrong, golden), (golden, wrong)):
        compared = ulpscope.compare(*pair)
        assert compared.agreement != "agree", compared.reason
    right = decided(Net, "right", DECISIONS[decision])
    compared = ulpscope.compare(right, golden)
    assert compared.ok, compared.reason


def test_a_decision_between_nearly_equal_values_may_go_either_way(tmp_path: Path) -> None:
    """Healthy: of many decisions between values that rounding to bfloat16 makes nearly equal, some differ."""

    def predicted(path: Path, net: Net) -> tuple[Path, Tensor]:
        x = torch.sin(torch.arange(256.0 * WIDTH)).reshape(256, WIDTH).bfloat16()
        with torch.no_grad(), ulpscope.capture(path, model=net, level="mix", task="tensor"):
            prediction = net.bfloat16()(x).argmax(-1)
        return path, prediction

    (target, one), (golden, other) = (
        predicted(tmp_path / name, net) for name, net in (("target", Net()), ("golden", OtherNet()))
    )
    assert 0 < (one != other).sum() < 16, "a few differ"
    compared = ulpscope.compare(target, golden)
    assert compared.ok, compared.reason


class Normed(nn.Module):
    """A model with running statistics, which only later steps use."""

    def __init__(self, momentum: float, *, by_hand: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm = nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH, momentum=momentum)
        self.head, self.by_hand = nn.Linear(WIDTH, WIDTH), by_hand

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if not self.by_hand:
            return self.head(self.norm(x))
        norm, mean = self.norm, x.sum(0) / ROWS
        variance = (x - mean).pow(2).sum(0) / ROWS
        with torch.no_grad():
            rate = norm.momentum or 0.0
            norm.running_mean.mul_(1 - rate).add_(mean, alpha=rate)  # type: ignore[union-attr]
            norm.running_var.mul_(1 - rate).add_(variance, alpha=rate * ROWS / (ROWS - 1))  # type: ignore[union-attr]
            norm.num_batches_tracked.add_(1)  # type: ignore[union-attr]
        return self.head((x - mean) * torch.rsqrt(variance + norm.eps) * norm.weight + norm.bias)


@TASKS
@pytest.mark.parametrize(
    ("by_hand", "backward"),
    [(False, False), (False, True), (True, False)],
    ids=["same program, forward", "same program, backward", "port, forward"],
)
def test_buffers_that_a_step_leaves(by_hand: bool, backward: bool, task: str, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", Normed(0.1, by_hand=by_hand), task, backward=backward)
    right = run(tmp_path / "right", Normed(0.1), task, backward=backward)
    compared = ulpscope.compare(right, golden)
    assert compared.ok, compared.reason
    wrong = run(tmp_path / "wrong", Normed(0.2), task, backward=backward)
    for pair in ((wrong, golden), (golden, wrong)):
        compared = ulpscope.compare(*pair)
        assert compared.agreement != "agree", compared.reason


@TASKS
@SIDES
@pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])
def test_a_backward_pass_of_one_side_is_the_first_thing_said(
    other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    both = run(tmp_path / "both", Net(), task, backward=True)
    forward = run(tmp_path / "forward", other(), task, lambda result: result.square().mean())
    compared = ulpscope.compare(*((both, forward) if is_target else (forward, both)))
    side = "golden" if is_target else "target"
    assert f"the {side} has no backward pass" in compared.reason
    assert "gradients were not compared" in compared.reason
    said = compared.explain()
    assert said.startswith(f"What broke:\n  The {side} has no backward pass: gradients")
    assert "Nothing in the forward pass" in said
    assert compared.ok
