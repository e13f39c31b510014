"""Inputs that are drawn from statistics, and gradients that are drawn because none was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import ulpscope

Drawn = Callable[..., Tensor]


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """The tensor that a replay draws in the place of one, of which only statistics were recorded."""

    def draw(tensor: Tensor, seed: int = 1234) -> Tensor:
        if not (tmp_path / "step0").exists():
            with ulpscope.capture(tmp_path, level="L1", task="statistics"):
                torch.flatten(tensor)
        seen: list[Tensor] = []
        right = torch.flatten

        def flatten(x: Tensor) -> Tensor:
            seen.append(x.clone())
            return right(x)

        with monkeypatch.context() as patched:
            patched.setattr(torch, "flatten", flatten)
            ulpscope.check(tmp_path, seed=seed)
        # The reference has raised precision.
        return next(one for one in seen if one.dtype == tensor.dtype)

    return draw


def test_range_mean_and_norm_are_those_that_were_recorded(drawn: Drawn) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(128, 64) * 0.7 + 3
    made = drawn(tensor)
    assert made.shape == tensor.shape
    assert (made.min(), made.max()) == (tensor.min(), tensor.max())
    assert made.mean() == pytest.approx(float(tensor.mean()), rel=0.02)
    assert made.norm() == pytest.approx(float(tensor.norm()), rel=0.02)
    assert not torch.equal(made, tensor)


def test_the_same_seed_gives_the_same_tensor_and_another_does_not(drawn: Drawn) -> None:
    tensor = torch.randn(64, 8)
    assert torch.equal(drawn(tensor, 7), drawn(tensor, 7))
    assert not torch.equal(drawn(tensor, 7), drawn(tensor, 8))


def test_as_many_elements_are_nan_and_infinite(drawn: Drawn) -> None:
    tensor = torch.randn(1000)
    tensor[:17], tensor[100:105], tensor[200:203] = torch.nan, torch.inf, -torch.inf
    made = drawn(tensor)
    assert int(made.isnan().sum()) == 17
    assert int(made.isinf().sum()) == 8
    assert made[made.isfinite()].min() >= tensor[tensor.isfinite()].min()
    assert made[made.isfinite()].max() <= tensor[tensor.isfinite()].max()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_integers_stay_in_their_range(dtype: torch.dtype, drawn: Drawn) -> None:
    tensor = torch.randint(3, 91, (500,)).to(dtype)
    made = drawn(tensor)
    assert made.dtype == dtype
    assert int(made.min()) >= int(tensor.min())
    assert int(made.max()) <= int(tensor.max())
    assert len(made.unique()) > 40


@pytest.mark.parametrize("value", [True, False])
def test_truth_values_that_are_all_alike_stay_so(value: bool, drawn: Drawn) -> None:
    assert torch.equal(drawn(torch.full((9,), value)), torch.full((9,), value))


def forward_only(folder: Path, task: str) -> Path:
    torch.manual_seed(0)
    x = torch.randn(16, 8, requires_grad=True)
    with ulpscope.capture(folder, level="L1", task=task):
        F.silu(x)
    return folder


@pytest.mark.parametrize(("task", "device"), [("statistics", None), ("tensor", "cpu")])
def test_a_gradient_is_drawn_where_none_was_recorded(task: str, device: str | None, tmp_path: Path) -> None:
    dump = forward_only(tmp_path, task)
    [call] = ulpscope.check(dump, device=device).calls
    assert (call.forward, call.backward) == ("pass", "pass")
    judged = {(tensor.name, tensor.judged) for tensor in call.tensors}
    assert ("Functional.silu.0.backward.output.0", "cpu") in judged
    if task == "tensor":
        assert ("Functional.silu.0.forward.output.0", "recorded") in judged
        # Without a device there is nothing to judge in a backward pass that was not recorded.
        assert ulpscope.check(dump).calls[0].backward == ""


def test_a_wrong_gradient_of_a_device_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = forward_only(tmp_path, "statistics")
    right = F.silu
    seen: list[bool] = []

    def silu(x: Tensor, **named: Any) -> Tensor:
        y = right(x, **named)
        # The device computes in float32 before this machine does.
        if y.dtype == torch.float32 and y.grad_fn is not None and not seen:
            seen.append(True)
            y.register_hook(lambda gradient: gradient * 1.001)
        return y

    monkeypatch.setattr(F, "silu", silu)
    [call] = ulpscope.check(dump).calls
    assert (call.forward, call.backward) == ("pass", "error")


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_recorded_strides_are_those_of_the_inputs(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = torch.arange(120.0).reshape(2, 3, 4, 5)
    given = [
        whole.to(memory_format=torch.channels_last),
        whole.transpose(1, 3),
        whole[..., ::2],
        # A column of a large matrix, and repeated elements: these have gaps, or too few places.
        torch.arange(400.0).reshape(20, 20)[:, 3],
        torch.ones(3, 1).expand(3, 4),
    ]
    with ulpscope.capture(tmp_path, level="L1", task=task, strides=True):
        for one in given:
            torch.sin(one)
    seen: list[Tensor] = []
    right = torch.sin

    def sin(x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            seen.append(x)
        return right(x)

    monkeypatch.setattr(torch, "sin", sin)
    # Each call is made again in its own precision, too.
    assert ulpscope.check(tmp_path, device="cpu").failed == []
    laid_out = {one.shape: one.stride() for one in seen}
    expected = {one.shape: one.stride() for one in given[:2]}
    assert {shape: laid_out[shape] for shape in expected} == expected
    assert laid_out[given[3].shape] == (1,)
    assert laid_out[given[4].shape] == (4, 1)
