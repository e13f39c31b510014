"""What models return: two runs whose models return different variables never agree, whatever both compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, ROWS, CLASSES = 16, 8, 12

TASKS = pytest.mark.parametrize("task", ["tensor", "statistics"])
SIDES = pytest.mark.parametrize("is_target", [True, False], ids=["target", "golden"])

Last = Callable[[Tensor, Tensor], Any]
After = Callable[[Any], Any]


def given() -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """A classifier that computes logits and hidden states, and returns whatever `last` makes of them."""

    def __init__(self, last: Last) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.norm, self.head, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES), last

    def forward(self, x: Tensor) -> Any:
        hidden = self.norm(x + self.down(functional.gelu(self.up(x))))
        return self.last(self.head(hidden), hidden)


class OtherNet(Net):
    """The same as somebody else writes it."""

    def forward(self, x: Tensor) -> Any:
        inner = x @ self.up.weight.t() + self.up.bias
        inner = inner * 0.5 * (1 + torch.erf(inner / 2**0.5))
        x = torch.einsum("ni,oi->no", inner, self.down.weight) + self.down.bias + x
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).pow(2).mean(-1, keepdim=True)
        hidden = (x - mean) / torch.sqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias
        return self.last(torch.addmm(self.head.bias, hidden, self.head.weight.t()), hidden)


PROGRAMS = pytest.mark.parametrize("other", [Net, OtherNet], ids=["same program", "port"])


def run(
    path: Path,
    net: Net,
    task: str,
    after: After = lambda _: None,
    loss: Callable[[Any], Tensor] | None = None,
) -> Path:
    with ulpscope.capture(path, model=net, level="mix", task=task):
        with torch.set_grad_enabled(loss is not None):
            result = net(given())
            after(result)
        if loss is not None:
            loss(result).backward()
    return path


def compared(tmp_path: Path, golden: Path, target: Path, is_target: bool = True) -> ulpscope.Comparison:
    return ulpscope.compare(*((target, golden) if is_target else (golden, target)))


# What each side returns of the logits and the hidden states.
OTHER_VARIABLES: dict[str, tuple[Last, Last]] = {
    "hidden states": (lambda x, h: x, lambda x, h: h),
    "one of two": (lambda x, h: (x.exp(), x.sin())[0], lambda x, h: (x.exp(), x.sin())[1]),
    "swapped": (lambda x, h: (x.exp(), x.sin()), lambda x, h: (x.sin(), x.exp())),
    "swapped keys": (lambda x, h: {"a": x.exp(), "b": x.sin()}, lambda x, h: {"a": x.sin(), "b": x.exp()}),
    "reversed": (lambda x, h: [x, x.relu(), x.tanh()], lambda x, h: [x.tanh(), x.relu(), x]),
}

# Likewise, where one side computes something else at last.
OTHER_RESULTS: dict[str, tuple[Last, Last]] = {
    "inside": (lambda x, h: {"all": (x, h)}, lambda x, h: {"all": (x, h.tanh())}),
    "argmax + 1": (lambda x, h: x.argmax(-1), lambda x, h: x.argmax(-1) + 1),
    "argmax + 1 beside": (lambda x, h: (x, x.argmax(-1)), lambda x, h: (x, x.argmax(-1) + 1)),
    "second of topk": (lambda x, h: x.argmax(-1), lambda x, h: x.topk(2).indices[:, 1]),
    "threshold": (lambda x, h: x.softmax(-1) > 0.05, lambda x, h: x.softmax(-1) > 0.06),
    "some classes": (lambda x, h: x, lambda x, h: x[:, :-1]),
    "some rows": (lambda x, h: x, lambda x, h: x[: ROWS // 2]),
    "flipped": (lambda x, h: x, lambda x, h: x.flip(-1)),
    "rolled": (lambda x, h: x, lambda x, h: x.roll(1, 0)),
}


@TASKS
@SIDES
@PROGRAMS
@pytest.mark.parametrize("case", [*OTHER_VARIABLES, *OTHER_RESULTS])
def test_a_model_that_returns_something_else(
    case: str, other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    right, wrong = {**OTHER_VARIABLES, **OTHER_RESULTS}[case]
    golden = run(tmp_path / "golden", Net(right), task)
    target = run(tmp_path / "target", other(wrong), task)
    comparison = compared(tmp_path, golden, target, is_target)
    assert comparison.agreement != "agree", comparison.reason
    assert not comparison.ok


@PROGRAMS
def test_both_variables_are_named(other: type[Net], tmp_path: Path) -> None:
    """The calls in between are not to blame: what is returned is said, and from where."""
    golden = run(tmp_path / "golden", Net(lambda x, h: (x, x.sin())), "tensor")
    target = run(tmp_path / "target", other(lambda x, h: (x.sin(), x)), "tensor")
    comparison = compared(tmp_path, golden, target)
    assert comparison.divergences == []
    said = comparison.reason
    assert said.startswith(
        "the models return different results at place 0: Tensor.sin.0.forward in the target, "
    ), said
    assert said.endswith(".forward in the golden")
    assert "no call explains" not in said
    assert "--noise" not in comparison.explain()


@SIDES
@PROGRAMS
@pytest.mark.parametrize("case", OTHER_VARIABLES)
def test_replay_does_not_hide_other_variables(
    case: str, other: type[Net], is_target: bool, tmp_path: Path
) -> None:
    """That calls compute the same when repeated does not say which of their results are returned."""
    right, wrong = OTHER_VARIABLES[case]
    golden = run(tmp_path / "golden", Net(right), "tensor")
    target = run(tmp_path / "target", other(wrong), "tensor")
    pair = (target, golden) if is_target else (golden, target)
    comparison = ulpscope.compare(*pair, prove=True)
    assert comparison.agreement != "agree", comparison.reason


@TASKS
@SIDES
@PROGRAMS
def test_calls_of_a_model_that_return_at_different_places(
    other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    """A call is compared with one that returns at the same places; one at other places shows nothing."""

    def called_twice(path: Path, net: Net, last: tuple[Last, Last]) -> Path:
        with torch.no_grad(), ulpscope.capture(path, model=net, level="mix", task=task):
            for net.last in last:
                net(given())
        return path

    right: Last = lambda x, h: {"a": x.sin()}  # noqa: E731
    wrong: Last = lambda x, h: {"a": x.cos()}  # noqa: E731
    second: Last = lambda x, h: {"b": x.exp()}  # noqa: E731
    wrong_second: Last = lambda x, h: {"b": x.sinh()}  # noqa: E731
    golden = called_twice(tmp_path / "golden", Net(right), (right, second))
    target = called_twice(tmp_path / "target", other(wrong), (wrong, wrong_second))
    comparison = compared(tmp_path, golden, target, is_target)
    assert comparison.agreement != "agree", comparison.reason


def test_two_runs_that_return_different_parameters(tmp_path: Path) -> None:
    net, other = Net(lambda x, h: x), Net(lambda x, h: x)
    net.last = lambda x, h: (x, net.up.weight)
    other.last = lambda x, h: (x, other.down.weight)
    golden = run(tmp_path / "first", net, "tensor")
    target = run(tmp_path / "second", other, "tensor")
    comparison = compared(tmp_path, golden, target)
    assert comparison.agreement != "agree", comparison.reason


def test_the_order_of_keys_is_no_difference(tmp_path: Path) -> None:
    """What each call returns is found by its key, also where only statistics would tell."""
    golden = run(tmp_path / "golden", Net(lambda x, h: {"a": x, "b": x.flip(0)}), "statistics")
    target = run(tmp_path / "target", Net(lambda x, h: {"b": x.flip(0), "a": x}), "statistics")
    comparison = compared(tmp_path, golden, target)
    assert comparison.agreement == "agree", comparison.reason


@TASKS
def test_statistics_do_not_show_places(task: str, tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", Net(lambda x, h: x), task)
    target = run(tmp_path / "target", Net(lambda x, h: x.flip(0)), task)
    reason = compared(tmp_path, golden, target).reason
    assert ("may have its elements" in reason or "different places" in reason) == (task == "statistics"), (
        reason
    )


# Healthy: what each side returns, and does with it afterwards.
HEALTHY: dict[str, tuple[tuple[Last, After], tuple[Last, After]]] = {
    "the same": ((lambda x, h: (x, h), lambda r: None), (lambda x, h: (x, h), lambda r: None)),
    "a dictionary or a tuple": (
        (lambda x, h: {"logits": x, "hidden": h}, lambda r: None),
        (lambda x, h: (x, h), lambda r: None),
    ),
    "more": ((lambda x, h: x, lambda r: None), (lambda x, h: {"logits": x, "hidden": h}, lambda r: None)),
    "more that is unused": (
        (lambda x, h: x, lambda r: None),
        (lambda x, h: (x, h.norm())[0], lambda r: None),
    ),
    "zero added": ((lambda x, h: x, lambda r: None), (lambda x, h: x + 0, lambda r: None)),
    "choices by another call": (
        (lambda x, h: x.argmax(-1), lambda r: None),
        (lambda x, h: x.max(-1).indices, lambda r: None),
    ),
    "choices by another call, afterwards": (
        (lambda x, h: x, lambda r: r.argmax(-1)),
        (lambda x, h: x, lambda r: r.topk(1).indices[:, 0]),
    ),
    "choices that one side looks at": (
        (lambda x, h: x, lambda r: None),
        (lambda x, h: x, lambda r: r.argmax(-1)),
    ),
    "probabilities inside or outside": (
        (lambda x, h: x.softmax(-1), lambda r: None),
        (lambda x, h: x, lambda r: r.softmax(-1)),
    ),
}


@TASKS
@SIDES
@PROGRAMS
@pytest.mark.parametrize("case", HEALTHY)
def test_models_that_return_the_same(
    case: str, other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    (right, after), (same, same_after) = HEALTHY[case]
    golden = run(tmp_path / "golden", Net(right), task, after)
    target = run(tmp_path / "target", other(same), task, same_after)
    comparison = compared(tmp_path, golden, target, is_target)
    assert (comparison.divergences, comparison.agreement) == ([], "agree"), comparison.reason


# What one side does to its results after the model returned.
AFTERWARDS: dict[str, tuple[After, After]] = {
    "argmax + 1": (lambda x: x.argmax(-1), lambda x: x.argmax(-1) + 1),
    "other dimension": (lambda x: x.mean(0), lambda x: x.mean(1)),
    "sum": (lambda x: x.square().mean(), lambda x: x.square().sum()),
    "scaled by one": (lambda x: x * 2 * 1.0, lambda x: x * 3 * 1.0),
    "not at all": (lambda x: x * 1.0, lambda x: x * torch.linspace(1, 2, CLASSES) * 1.0),
}


@TASKS
@SIDES
@PROGRAMS
@pytest.mark.parametrize("case", AFTERWARDS)
def test_what_follows_the_model(
    case: str, other: type[Net], is_target: bool, task: str, tmp_path: Path
) -> None:
    right, wrong = AFTERWARDS[case]
    golden = run(tmp_path / "golden", Net(lambda x, h: x), task, right)
    target = run(tmp_path / "target", other(lambda x, h: x), task, wrong)
    comparison = compared(tmp_path, golden, target, is_target)
    assert comparison.agreement != "agree", comparison.reason


@PROGRAMS
def test_choices_that_were_moved(other: type[Net], tmp_path: Path) -> None:
    golden = run(tmp_path / "golden", Net(lambda x, h: x), "tensor", lambda x: x.argmax(-1))
    target = run(tmp_path / "target", other(lambda x, h: x), "tensor", lambda x: x.argmax(-1).flip(0))
    for is_target in (True, False):
        comparison = compared(tmp_path, golden, target, is_target)
        assert comparison.agreement != "agree", comparison.reason
