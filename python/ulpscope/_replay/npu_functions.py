"""Functions of torch_npu in terms of torch, as far as they are defined by a formula.

Only these names are known under the prefix ``NPU``. The formulas are those of torch_npu's documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def _rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    rstd = torch.rsqrt(x.square().mean(dims, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd


def _swiglu(x: Tensor, dim: int = -1) -> Tensor:
    gate, value = x.chunk(2, dim)
    return functional.silu(gate) * value


def _rotary_mul(x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    if rotary_mode == "interleave":
        turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    else:
        first, second = x.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    return x * r1 + turned * r2


def _fast_gelu(x: Tensor) -> Tensor:
    return x * torch.exp(0.851 * (x - x.abs())) / (1 + torch.exp(-1.702 * x.abs()))


def _unchanged(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x.clone()


NPU_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "npu_rms_norm": _rms_norm,
    "npu_swiglu": _swiglu,
    "npu_rotary_mul": _rotary_mul,
    "npu_silu": functional.silu,
    "npu_mish": functional.mish,
    "npu_linear": functional.linear,
    "npu_transpose": lambda x, perm, *_: x.permute(perm).contiguous(),
    "npu_fast_gelu": _fast_gelu,
    "fast_gelu": _fast_gelu,
    "npu_format_cast": _unchanged,
    "npu_dtype_cast": lambda x, dtype: x.to(dtype),
}
