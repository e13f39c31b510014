"""Inputs that are drawn from statistics, and gradients that are drawn because none was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import ulpscope
from ulpscope._core import DumpTensor, open_dump
from ulpscope._replay.arguments import Rebuilder
from ulpscope._replay.drawing import drawn
from wrong_kernels import Wrong


def recorded(folder: Path, tensor: torch.Tensor) -> tuple[DumpTensor, Any]:
    """A tensor of which only statistics were recorded, and the call that it was passed to."""
    with ulpscope.capture(folder, level="L1", task="statistics"):
        torch.flatten(tensor)
    ranks, _ = open_dump(folder, None, None)
    call = ranks[0].call(0)
    assert call is not None
    given = call.positional[0]
    assert isinstance(given, DumpTensor)
    return given, call


def again(given: DumpTensor, dtype: torch.dtype, seed: int = 1234) -> torch.Tensor:
    assert given.shape is not None
    return drawn(given, dtype, tuple(given.shape), seed, "Torch.flatten.0.forward.input.0")


def test_range_mean_and_norm_are_those_that_were_recorded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(128, 64) * 0.7 + 3
    given, call = recorded(tmp_path, tensor)
    made = again(given, torch.float32)
    assert made.shape == tensor.shape
    assert (made.min(), made.max()) == (tensor.min(), tensor.max())
    assert made.mean() == pytest.approx(float(tensor.mean()), rel=0.02)
    assert made.norm() == pytest.approx(float(tensor.norm()), rel=0.02)
    assert not torch.equal(made, tensor)
    # The arguments of the replayed call are these.
    rebuilt = Rebuilder(1234).call(call, "Torch.flatten.0.forward").tensors[0]
    assert rebuilt.is_drawn
    assert torch.equal(rebuilt.tensor, made)


def test_the_same_seed_gives_the_same_tensor_and_another_does_not(tmp_path: Path) -> None:
    given, _ = recorded(tmp_path, torch.randn(64, 8))
    assert torch.equal(again(given, torch.float32, 7), again(given, torch.float32, 7))
    assert not torch.equal(again(given, torch.float32, 7), again(given, torch.float32, 8))


def test_as_many_elements_are_nan_and_infinite(tmp_path: Path) -> None:
    tensor = torch.randn(1000)
    tensor[:17], tensor[100:105], tensor[200:203] = torch.nan, torch.inf, -torch.inf
    made = again(recorded(tmp_path, tensor)[0], torch.float32)
    assert int(made.isnan().sum()) == 17
    assert int(made.isinf().sum()) == 8
    assert made[made.isfinite()].min() >= tensor[tensor.isfinite()].min()
    assert made[made.isfinite()].max() <= tensor[tensor.isfinite()].max()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.uint8])
def test_integers_stay_in_their_range(dtype: torch.dtype, tmp_path: Path) -> None:
    tensor = torch.randint(3, 91, (500,)).to(dtype)
    made = again(recorded(tmp_path, tensor)[0], dtype)
    assert made.dtype == dtype
    assert int(made.min()) >= int(tensor.min())
    assert int(made.max()) <= int(tensor.max())
    assert len(made.unique()) > 40


@pytest.mark.parametrize("value", [True, False])
def test_truth_values_that_are_all_alike_stay_so(value: bool, tmp_path: Path) -> None:
    made = again(recorded(tmp_path, torch.full((9,), value))[0], torch.bool)
    assert torch.equal(made, torch.full((9,), value))


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
    from ulpscope._replay.replay import Replay

    of_device = Replay._of_device

    def computed(self: Replay, device: str) -> list[Any]:
        with Wrong({}, backward=F.silu):
            return list(of_device(self, device))

    monkeypatch.setattr(Replay, "_of_device", computed)
    [call] = ulpscope.check(forward_only(tmp_path, "statistics")).calls
    assert (call.forward, call.backward) == ("pass", "error")
