"""Gradients that do not arrive, or arrive as others: the call that is named is the one that did it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import ulpscope


class Halves(nn.Module):
    """Three linear layers with a branch around the second, and something to do in between."""

    def __init__(self, inner: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(16, 16) for _ in range(3))
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x))
        return self.third(x + self.second(self.inner(x)))


def trained(path: Path, inner: Callable[[Tensor], Tensor], **wishes: Any) -> Path:
    """Two steps of training. Wishes: `frozen` layers, `clipped` gradients, `batches` for each step."""
    torch.manual_seed(0)
    model = Halves(inner)
    for name in wishes.get("frozen", []):
        model.get_submodule(name).requires_grad_(False)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], 0.1)
    batches = [step.unbind() for step in torch.randn(2, 4, 8, 16).unbind()]
    with ulpscope.capture(path, model=model, level="mix", task="tensor") as capture:
        for batch in batches:
            for part in batch[: wishes.get("batches", 3)]:
                model(part).square().mean().backward()
            if wishes.get("clipped"):
                nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
            if wishes.get("emptied", True):
                optimizer.zero_grad()
            capture.step()
    return path


def same(x: Tensor) -> Tensor:
    return x


def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.tanh(x)


def test_a_tensor_that_is_detached_is_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same)
    found = ulpscope.compare(trained(tmp_path / "target", Tensor.detach), golden).divergences
    assert (found[0].call, found[0].kind) == ("Tensor.detach.0.forward", "different program")
    assert "no gradient" in found[0].why


def test_a_call_without_gradient_is_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", torch.tanh)
    found = ulpscope.compare(trained(tmp_path / "target", without_gradient), golden).divergences
    assert (found[0].call, found[0].kind) == ("Torch.tanh.0.forward", "different program")
    assert "no gradient" in found[0].why


def test_a_frozen_layer_is_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same)
    compared = ulpscope.compare(trained(tmp_path / "target", same, frozen=["second"]), golden)
    found = compared.divergences[0]
    assert (found.call, found.kind) == ("Functional.linear.1.forward", "different program")
    assert "no gradient" in found.why
    assert compared.agreement == "differ"


def test_gradients_that_are_clipped_on_one_side_are_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same, clipped=True)
    found = ulpscope.compare(trained(tmp_path / "target", same), golden).divergences
    assert found[0].kind == "different program"
    assert found[0].golden_call == "Torch._foreach_norm.0.forward"


def test_a_pass_that_one_side_leaves_out_is_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same, batches=4)
    found = ulpscope.compare(trained(tmp_path / "target", same), golden).divergences
    assert (found[0].kind, found[0].call) == ("different program", found[0].golden_call)
    assert found[0].call == "Functional.linear.9.forward"


class Gate(torch.autograd.Function):
    """ReLU with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.threshold = threshold
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        passes = x > 0 if ctx.threshold == 0 else x >= ctx.threshold
        return gradient * passes, None


class Scale(torch.autograd.Function):
    """The same forth, a multiple back, by a factor that no recorded call is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return torch.from_numpy(gradient.numpy() * np.float32(ctx.factor)), None


def test_a_wrong_derivative_of_ones_own_is_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", lambda x: Gate.apply(x, 0))
    compared = ulpscope.compare(trained(tmp_path / "target", lambda x: Gate.apply(x, -0.1)), golden)
    found = compared.divergences[0]
    assert (found.call, found.kind) == ("Tensor.__ge__.0.forward", "different program")
    assert "(backward pass)" in compared.explain()
    assert all("Gate" not in one.call for one in compared.divergences)


def test_an_argument_that_only_gradients_show_is_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", lambda x: Scale.apply(x, 1.0))
    found = ulpscope.compare(trained(tmp_path / "target", lambda x: Scale.apply(x, 1.01)), golden).divergences
    assert (found[0].call, found[0].kind) == ("Autograd.Scale.0.forward", "different program")
    assert "1.01 against 1" in found[0].why


def test_gradients_that_were_left_over_are_told_from_wrong_ones(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same)
    found = ulpscope.compare(trained(tmp_path / "target", same, emptied=False), golden).divergences
    assert "parameters_grad" in found[0].call
    assert "zero_grad" in found[0].why


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_computing_again_in_other_portions_raises_nothing(tmp_path: Path, task: str) -> None:
    def run(name: str, portions: list[int]) -> Path:
        torch.manual_seed(0)
        layers = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(4))
        x = torch.randn(8, 16, requires_grad=True)
        with ulpscope.capture(tmp_path / name, model=layers, level="mix", task=task):
            start = 0
            for count in portions:
                x = checkpoint(nn.Sequential(*layers[start : start + count]), x, use_reentrant=False)
                start += count
            for layer in layers[start:]:
                x = layer(x)
            x.square().mean().backward()
        return tmp_path / name

    compared = ulpscope.compare(run("target", [1, 1, 1]), run("golden", [2]))
    assert compared.divergences == []
    assert compared.ok
