"""``fix``: the program goes on with the result in raised precision, and autograd with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope


class Variance(nn.Module):
    """Wrong in bf16, right in float32: a mean of squares minus a square of the mean."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Moments.apply(x)


class Moments(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return (x * x).mean(-1) - x.mean(-1) ** 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * (x - x.mean(-1, keepdim=True)) * gradients[0].unsqueeze(-1) / x.shape[-1]


def loss_of(x: torch.Tensor) -> torch.Tensor:
    return Variance()(x).float().exp().mean()


def test_a_layer_that_is_wrong_in_bf16_is_found_and_then_fixed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = (30 + torch.randn(4, 64)).bfloat16().requires_grad_()
    right = loss_of(x.detach().float())
    wrong = loss_of(x)
    assert abs(wrong - right) > 0.1 * right

    with ulpscope.check.perturb(tmp_path, pert_mode="improve_precision") as check:
        assert torch.equal(loss_of(x), wrong)
    assert "Autograd.Moments.0.forward" in [one.api_name for one in check.findings]

    with ulpscope.check.perturb(
        tmp_path / "fix", pert_mode="improve_precision", handler_type="fix", list=["Moments"]
    ) as fixing:
        fixed = loss_of(x)
        fixed.backward()
    assert abs(fixed - right) < 0.01 * right
    assert x.grad is not None
    assert fixing.findings == []
    assert not (tmp_path / "fix").exists()
    # The gradient is that of the fixed output: exp(variance) of the right variance.
    reference = x.detach().float().requires_grad_()
    loss_of(reference).backward()
    torch.testing.assert_close(x.grad.float(), reference.grad, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("mode", ["improve_precision", "to_cpu"])
def test_what_the_graph_saved_is_fixed_too(mode: Any, tmp_path: Path) -> None:
    """Softmax computes its gradient from its output."""

    class Off(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            output = torch.exp(x) * (1.5 if x.dtype == torch.bfloat16 else 1)
            ctx.save_for_backward(output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] * ctx.saved_tensors[0]

    x = torch.tensor([0.0, 1.0]).bfloat16().requires_grad_()
    with ulpscope.check.perturb(tmp_path, pert_mode=mode, handler_type="fix"):
        y = Off.apply(x)
        y.sum().backward()
    expected = torch.exp(x.detach().float()).bfloat16()
    assert torch.equal(y.detach(), expected)
    assert x.grad is not None
    assert torch.equal(x.grad, expected)


def test_in_place_calls_views_and_lists(tmp_path: Path) -> None:
    x = torch.linspace(1, 2, 8).bfloat16()
    plain = x.clone()
    plain.mul_(1.7).add_(0.3)
    torch._foreach_mul_([plain], 1.1)
    expected = x.float().mul(1.7).bfloat16().float().add(0.3).bfloat16().float().mul(1.1).bfloat16()
    with ulpscope.check.perturb(tmp_path, pert_mode="improve_precision", handler_type="fix"):
        y = x.clone()
        view = y[2:5]
        y.mul_(1.7).add_(0.3)
        torch._foreach_mul_([y], 1.1)
        wide = x[:1].expand(4)
    assert torch.equal(y, expected)
    assert torch.equal(view, expected[2:5])
    assert torch.equal(wide, x[:1].expand(4))


def test_under_autocast_the_call_runs_in_float32(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(256, 4), torch.randn(3, 256)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = layer(x)
        with ulpscope.check.perturb(tmp_path, pert_mode="improve_precision", handler_type="fix"):
            fixed = layer(x)
    assert fixed.dtype == torch.bfloat16
    assert torch.equal(fixed, layer(x).bfloat16())
    assert not torch.equal(fixed, low)
