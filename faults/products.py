"""Products of matrices, taken apart along the dimension that is summed over.

Of the parts one makes a kernel that sums in another order, which is as good, or in too few bits, which is
not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

Function = Callable[..., Any]


def parts(function: Function, args: tuple[Any, ...], count: int) -> tuple[list[Tensor], Tensor | None]:
    """The products of ``count`` parts of the summed dimension, or of fewer, and what is added last."""
    bias = args[2] if len(args) > 2 else None
    if function is F.linear:
        return [F.linear(x, w) for x, w in _both(args[0], -1, args[1], -1, count)], bias
    if function is F.conv2d:
        pairs = _both(args[0], 1, args[1], 1, count)
        added = None if bias is None else bias.reshape(-1, 1, 1)
        return [F.conv2d(x, w, None, *args[3:]) for x, w in pairs], added
    return [torch.matmul(x, w) for x, w in _both(args[0], -1, args[1], -2, count)], None


def _both(x: Tensor, x_dim: int, w: Tensor, w_dim: int, count: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(x.chunk(count, x_dim), w.chunk(count, w_dim), strict=True))


def summed_in_parts(function: Function, args: tuple[Any, ...]) -> Tensor:
    """The product as two halves, each summed by itself."""
    products, bias = parts(function, args, 2)
    whole = sum(products[1:], products[0])
    return whole if bias is None else whole + bias


def summed_in_bf16(function: Function, args: tuple[Any, ...]) -> Tensor:
    """The product with a sum that is kept in bfloat16."""
    products, bias = parts(function, args, 8)
    whole = torch.zeros_like(products[0])
    for product in products:
        whole = (whole + product).bfloat16().to(product.dtype)
    return whole if bias is None else whole + bias
