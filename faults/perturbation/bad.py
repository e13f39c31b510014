"""Ten wrong operators. A faulty kernel takes the place of torch's own on the CPU, as a device's would.

Every program makes a few healthy calls around the bad one, which alone is to be named.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

# Kernels of a device may know few dtypes; float64 runs on the CPU.
_own = random.Random(0)


class Bad(NamedTuple):
    """A wrong operator."""

    fault: str
    named: str
    """The call that must be named."""
    cause: str
    """How the cause begins."""
    program: Callable[[], Any]
    kernels: dict[str, Callable[..., Any]]
    """Kernels of aten that are replaced, by name."""


@contextlib.contextmanager
def planted(bad: Bad) -> Iterator[None]:
    """With the kernels of a case in place."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    try:
        for name, kernel in bad.kernels.items():
            library.impl(name, kernel, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def _matrix_product(x: Tensor, y: Tensor) -> Tensor:
    """In float64, without the kernel that is replaced."""
    return torch.einsum("ik,kj->ijk", x.double(), y.double()).sum(-1)


def _mm_summed_in_bf16(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype != torch.bfloat16:
        return _matrix_product(x, y).to(x.dtype)
    total = torch.zeros(x.shape[0], y.shape[1], dtype=x.dtype)
    for place in range(x.shape[1]):
        total = total + x[:, place, None] * y[None, place]
    return total


def _mm_of_rounded_inputs(x: Tensor, y: Tensor) -> Tensor:
    if x.dtype == torch.float32:
        x, y = x.bfloat16().float(), y.bfloat16().float()
    return _matrix_product(x, y).to(x.dtype)


def _softmax_without_maximum(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    if x.dtype == torch.float64:
        x = x - x.amax(dim, keepdim=True)
    powers = x.exp()
    return powers / powers.sum(dim, keepdim=True)


def _silu_with_noise(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x) * (1 + 1e-4 * _own.random())


def _cumsum_with_race(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    total = torch.stack([x[..., : place + 1].sum(-1) for place in range(x.shape[-1])], -1)
    if x.dtype != torch.float64 and _own.random() < 0.5:
        # A block that was read before it was written.
        total[..., 3] = 0
    return total


def _gelu_of_another_device(x: Tensor, approximate: str = "none") -> Tensor:
    factor = 0.7071067811865476 if x.dtype == torch.float64 else 0.7
    return x * 0.5 * (1 + torch.erf(x * factor))


def _layer_norm_in_one_pass(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    mean = x.mean(-1, keepdim=True)
    if x.dtype == torch.float64:
        variance = (x - mean).square().mean(-1, keepdim=True)
    else:
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
    scale = (variance + eps).rsqrt()
    result = (x - mean) * scale
    result = result if weight is None else result * weight
    return result if bias is None else result + bias, mean, scale


def _log1p_by_log(x: Tensor) -> Tensor:
    if x.dtype == torch.float64:
        return 2 * torch.atanh(x / (2 + x))
    return torch.log(1 + x)


def _sigmoid_in_half(x: Tensor) -> Tensor:
    return (1 / (1 + torch.exp(-x.half().float()))).half().to(x.dtype)


def _norm_overflows(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return (x * x).sum().sqrt()


def _differences() -> Tensor:
    x = _numbers(64, 64)
    close = x * (1 + 1e-6)
    y = torch.tanh(x)
    return torch.sub(close, x) + y


CASES = [
    Bad("cancellation of nearly equal numbers", "Torch.sub.0", "ill-conditioned here", _differences, {}),
    Bad(
        "matmul sums bf16 in bf16",
        "Torch.mm.0",
        "loses bits",
        lambda: (
            torch.mm(
                _numbers(8, 512, dtype=torch.bfloat16).abs(), _numbers(512, 8, dtype=torch.bfloat16).abs()
            )
            .float()
            .tanh()
        ),
        {"mm": _mm_summed_in_bf16},
    ),
    Bad(
        "matmul rounds float32 inputs to bf16",
        "Torch.mm.0",
        "loses bits",
        lambda: torch.mm(torch.tanh(_numbers(16, 64)), _numbers(64, 16)),
        {"mm": _mm_of_rounded_inputs},
    ),
    Bad(
        "softmax without subtraction of the maximum",
        "Functional.softmax.0",
        "returns NaN from finite inputs",
        lambda: F.softmax(torch.mul(_numbers(8, 32), 60), -1),
        {"_softmax": _softmax_without_maximum},
    ),
    Bad(
        "activation that is not deterministic",
        "Functional.silu.0",
        "not repeatable",
        lambda: F.silu(torch.tanh(_numbers(16, 16))),
        {"silu": _silu_with_noise},
    ),
    Bad(
        "cumulative sum with a race",
        "Torch.cumsum.",
        "not repeatable",
        lambda: [torch.cumsum(torch.exp(_numbers(8, 16)), -1) for _ in range(4)],
        {"cumsum": _cumsum_with_race},
    ),
    Bad(
        "activation with another constant than on the CPU",
        "Functional.gelu.0",
        "loses bits",
        lambda: F.gelu(torch.tanh(_numbers(16, 16))),
        {"gelu": _gelu_of_another_device},
    ),
    Bad(
        "layer norm with a variance in one pass",
        "Functional.layer_norm.0",
        "loses bits",
        lambda: F.layer_norm(torch.add(_numbers(16, 256), 300), (256,)),
        {"native_layer_norm": _layer_norm_in_one_pass},
    ),
    Bad(
        "log1p computed as log(1 + x)",
        "Torch.log1p.0",
        "loses bits",
        lambda: torch.log1p(torch.mul(_numbers(16, 16), 1e-6)),
        {"log1p": _log1p_by_log},
    ),
    Bad(
        "sigmoid in half precision inside",
        "Torch.sigmoid.0",
        "rounds inside",
        lambda: torch.sigmoid(torch.mul(_numbers(256, 256), 2)),
        {"sigmoid": _sigmoid_in_half},
    ),
]
