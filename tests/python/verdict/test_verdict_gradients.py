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


def trained(
    path: Path,
    inner: Callable[[Tensor], Tensor],
    *,
    frozen: str | None = None,
    is_clipped: bool = False,
    is_emptied: bool = True,
    batches: int = 3,
) -> Path:
    """Two steps of training, each with several batches."""
    torch.manual_seed(0)
    model = Halves(inner)
    if frozen is not None:
        model.get_submodule(frozen).requires_grad_(False)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], 0.1)
    steps = [step.unbind() for step in torch.randn(2, 4, 8, 16).unbind()]
    with ulpscope.capture(path, model=model, level="mix", task="tensor") as capture:
        for step in steps:
            for batch in step[:batches]:
                model(batch).square().mean().backward()
            if is_clipped:
                nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            optimizer.step()
            if is_emptied:
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
    compared = ulpscope.compare(trained(tmp_path / "target", same, frozen="second"), golden)
    found = compared.divergences[0]
    assert (found.call, found.kind) == ("Functional.linear.1.forward", "different program")
    assert "no gradient" in found.why
    assert compared.agreement == "differ"


def test_gradients_that_are_clipped_on_one_side_are_named(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same, is_clipped=True)
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


def test_gradients_that_were_left_over_are_distinguished_from_wrong_ones(tmp_path: Path) -> None:
    golden = trained(tmp_path / "golden", same)
    found = ulpscope.compare(trained(tmp_path / "target", same, is_emptied=False), golden).divergences
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


class Third(torch.autograd.Function):
    """A custom loss whose derivative has a wrong factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = np.float32(factor)
        return x.square().sum()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return torch.from_numpy((gradient * 2 * x).numpy() * ctx.factor), None


def test_a_batch_after_a_backward_pass_is_no_part_of_it(tmp_path: Path) -> None:
    """Without modules, only its own backward call tells a forward call from those inside a function."""

    def run(name: str, scale: float, factor: float) -> Path:
        torch.manual_seed(0)
        weight, batches = torch.randn(8, 8, requires_grad=True), torch.randn(2, 4, 8).unbind()
        with ulpscope.capture(tmp_path / name, level="L1", task="tensor"):
            for number, batch in enumerate(batches):
                x = torch.tanh(batch @ weight)
                Third.apply(x * (scale if number == 1 else 1.0), factor if number == 1 else 1.0).backward()
        return tmp_path / name

    compared = ulpscope.compare(run("target", 1.1, 3.0), run("golden", 1.0, 1.0))
    # Each batch has a product of its own, and two in the backward pass of its loss.
    assert compared.divergences[0].call == "Tensor.__mul__.3.forward"
    assert compared.divergences[0].direction == "forward"


def test_a_mask_of_one_side_cuts_nothing_off(tmp_path: Path) -> None:
    """What compares has no gradient to hand back; a hook changed it."""

    def run(name: str, is_target: bool) -> Path:
        torch.manual_seed(0)
        x, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
        with ulpscope.capture(tmp_path / name, level="L1", task="tensor"):
            y = torch.tanh(x @ weight)
            if is_target:
                y.register_hook(lambda gradient: gradient * 1.3)
            kept = torch.where(y > -9, y, 0.0) if is_target else y
            torch.sin(kept).sum().backward()
        return tmp_path / name

    found = ulpscope.compare(run("target", True), run("golden", False)).divergences
    assert all("no gradient passes" not in one.why for one in found)
    assert found


def test_one_parameter_of_many_that_differs_in_a_later_step_is_counted_alone(tmp_path: Path) -> None:
    def run(name: str, dtype: torch.dtype, factor: float) -> Path:
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)]).to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task="tensor") as capture:
            for _ in range(2):
                model(torch.ones(4, 16, dtype=dtype)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                capture.stop()
                model[7].weight.data.mul_(factor)
                capture.start()
                capture.step()
        return tmp_path / name

    golden = run("golden", torch.float32, 1.0)
    said = ulpscope.compare(run("target", torch.float64, 1.5), golden).explain()
    assert "1 of 40 parameters" in said


def test_the_entry_of_what_was_reordered_is_the_argument_that_differs(tmp_path: Path) -> None:
    def run(name: str, dim: int) -> Path:
        torch.manual_seed(0)
        x, weight = torch.randn(4, 6, 8), torch.randn(8, 8)
        with ulpscope.capture(tmp_path / name, level="L1", task="statistics"):
            x.flip(dim) @ weight
        return tmp_path / name

    found = ulpscope.compare(run("target", 2), run("golden", 1)).divergences[0]
    assert (found.call, found.entry) == ("Tensor.flip.0.forward", "Tensor.flip.0.forward.input.1")
