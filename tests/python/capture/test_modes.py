"""Modes of the program's own: those that are on when capture starts, and what they see of capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import ulpscope
from captured import Captured


class Functions(TorchFunctionMode):
    """Sees functions of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    """Sees operators."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def stacks() -> tuple[int, int]:
    return torch._C._len_torch_function_stack(), len(_get_current_dispatch_mode_stack())


@pytest.mark.parametrize(("level", "kind"), [("L1", Functions), ("mix", Functions), ("L2", Operators)])
def test_capture_that_starts_within_a_mode(tmp_path: Path, level: str, kind: Any) -> None:
    before = stacks()
    mode = kind()
    run = ulpscope.capture(tmp_path, level=level)
    x = torch.ones(2)
    with mode:
        run.start()
        torch.sin(x)
    seen = len(mode.seen)
    torch.cos(x)
    assert len(mode.seen) == seen == 1
    run.close()
    assert stacks() == before
    names = [name.split(".")[1] for name in Captured(tmp_path).calls]
    assert names == ["sin", "cos"]


@pytest.mark.parametrize(("level", "kind"), [("L1", Functions), ("L2", Operators)])
def test_capture_that_stops_within_a_mode(tmp_path: Path, level: str, kind: Any) -> None:
    before = stacks()
    mode = kind()
    x = torch.ones(2)
    with ulpscope.capture(tmp_path, level=level) as run:
        with mode:
            torch.sin(x)
            run.stop()
            torch.cos(x)
        torch.tan(x)
        assert stacks() == before
    assert len(mode.seen) == 2
    assert [name.split(".")[1] for name in Captured(tmp_path).calls] == ["sin"]


def test_torch_does_not_take_ours_for_a_mode_of_the_program(tmp_path: Path) -> None:
    """A flag of the whole process, by which torch decides whether to compile."""
    flag = "_is_in_torch_dispatch_mode"
    module = torch.utils._python_dispatch
    if not hasattr(module, flag):
        pytest.skip("this torch has no such flag")
    assert getattr(module, flag) is False
    run = ulpscope.capture(tmp_path, level="L2")
    with Operators():
        run.start()
    assert getattr(module, flag) is False
    with Operators():
        run.close()
        assert getattr(module, flag) is True
    assert getattr(module, flag) is False


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_capture_that_starts_within_a_default_device(tmp_path: Path, level: str) -> None:
    before = stacks()
    run = ulpscope.capture(tmp_path, level=level)
    with torch.device("meta"):
        run.start()
        assert torch.ones(2).is_meta
    made = torch.ones(2)
    run.close()
    assert not made.is_meta
    assert stacks() == before
    assert level == "L2" or sum("ones" in name for name in Captured(tmp_path).calls) == 2


def test_capture_that_starts_after_a_default_device_was_set(tmp_path: Path) -> None:
    before = stacks()
    torch.set_default_device("meta")
    try:
        with ulpscope.capture(tmp_path):
            assert torch.ones(2).is_meta
            torch.set_default_device(None)
            assert not torch.ones(2).is_meta
    finally:
        torch.set_default_device(None)
    assert stacks() == before
    assert sum("ones" in name for name in Captured(tmp_path).calls) == 2


def test_a_default_device_that_comes_and_goes_meanwhile(tmp_path: Path) -> None:
    before = stacks()
    with ulpscope.capture(tmp_path):
        with torch.device("meta"):
            assert torch.ones(2).is_meta
        torch.set_default_device("cpu")
        torch.sin(torch.ones(2))
    torch.set_default_device(None)
    assert stacks() == before
    assert "Torch.sin.0.forward" in Captured(tmp_path).calls


class Twice(torch.nn.Module):
    """Gives its argument two gradients, and uses a result of its own."""

    def forward(self, x: torch.Tensor) -> Any:
        y = x.sin()
        return y, y * x[:1] + x


def test_a_dispatch_mode_around_the_backward_pass_sees_nothing_of_ours(tmp_path: Path) -> None:
    def train(mode: Operators) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), Twice())
        first, second = model(torch.randn(3, 4))
        with mode:
            (first.sum() + second.square().sum()).backward()
        return model[0].weight.grad

    plain, watched = Operators(), Operators()
    wanted = train(plain)
    with ulpscope.capture(tmp_path, level="mix"):
        found = train(watched)
    assert torch.equal(wanted, found)
    assert watched.seen == plain.seen
    backward = Captured(tmp_path).calls["Module.1.Twice.backward.0"]
    assert backward["input"][0]["Max"] is not None
    assert backward["output"][0]["Max"] is not None


class Doubling(TorchFunctionMode):
    """Makes something else of a call."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * 2 if func is torch.sin else made


def test_a_block_lies_between_the_modes_around_it_and_those_in_it(tmp_path: Path) -> None:
    """It records what the outer ones make of a call, and what the inner ones hand on."""
    x = torch.full((1,), torch.pi / 2)
    with Doubling(), ulpscope.capture(tmp_path / "outer"):
        torch.sin(x)
    with ulpscope.capture(tmp_path / "inner"), Doubling():
        torch.sin(x)
    made = [
        Captured(tmp_path / name).calls["Torch.sin.0.forward"]["output"][0] for name in ("outer", "inner")
    ]
    assert [item["Max"] for item in made] == [2.0, 1.0]


def test_an_outer_mode_that_is_left_within_the_block_takes_ours_away(tmp_path: Path) -> None:
    before = stacks()
    mode = Functions()
    mode.__enter__()
    try:
        with ulpscope.capture(tmp_path):
            torch.sin(torch.ones(2))
            mode.__exit__(None, None, None)
            torch.cos(torch.ones(2))
        assert list(Captured(tmp_path).calls) == ["Torch.ones.0.forward", "Torch.sin.0.forward"]
        assert stacks() == (before[0] + 1, before[1])
        assert mode.seen[-1] == "cos"
    finally:
        torch._C._pop_torch_function_stack()
    assert stacks() == before
