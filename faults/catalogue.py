"""The faults by name, and which calls each can be in.

What a kernel gives wrongly is a function of what it was called with; what is done to a tensor as such is done to
results and, under a name that ends in ``-backward``, to gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from faults.planting import Call, Fault, InGradient, InResult, InWeight, differentiable

_PRODUCTS = ("Functional.linear", "Torch.mm", "Tensor.__matmul__", "Functional.conv2d")
_COMPUTING = (
    *_PRODUCTS,
    "Functional.scaled_dot_product_attention",
    "Functional.softmax",
    "Functional.layer_norm",
    "Functional.group_norm",
    "Functional.batch_norm",
    "Functional.conv_transpose2d",
    "Functional.gelu",
    "Functional.silu",
    "Functional.relu",
    "Tensor.__add__",
    "Tensor.__mul__",
    "VF.lstm",
    "VF.gru",
    "VF.gru_cell",
)
# Those whose gradient for their first argument comes from one node.
_DIFFERENTIATED = (
    *_PRODUCTS,
    "Functional.scaled_dot_product_attention",
    "Functional.softmax",
    "Functional.layer_norm",
    "Functional.gelu",
    "Functional.silu",
    "Functional.relu",
    "Tensor.__mul__",
)
_WEIGHTED = ("Functional.linear", "Functional.conv2d", "Functional.conv_transpose2d")

Change = Callable[[Tensor, Generator], Tensor]


def _times(factor: float) -> Change:
    return lambda x, _: x * factor


def _pick(count: int, generator: Generator) -> int:
    return int(torch.randint(0, count, (), generator=generator))


def _rows_permuted(x: Tensor, generator: Generator) -> Tensor:
    """The rows, whatever the dimensions before the last, in another order."""
    rows = x.reshape(-1, x.shape[-1])
    # A rotation leaves no row in place.
    return rows.roll(1 + _pick(len(rows) - 1, generator), 0).reshape(x.shape)


def _one_element(x: Tensor, generator: Generator) -> Tensor:
    """One element off by three times the usual size."""
    wrong = x.clone().flatten()
    wrong[_pick(wrong.numel(), generator)] += 3 * x.square().mean().sqrt()
    return wrong.reshape(x.shape)


def _one_tile(x: Tensor, generator: Generator) -> Tensor:
    """Four by four elements of a matrix that hold what the tile beside them should."""
    wrong = x.reshape(-1, x.shape[-1]).clone()
    row, column = _pick(len(wrong) - 3, generator), _pick(wrong.shape[1] - 3, generator)
    beside = wrong.roll((4, 4), (0, 1))
    wrong[row : row + 4, column : column + 4] = beside[row : row + 4, column : column + 4]
    return wrong.reshape(x.shape)


def _nan(x: Tensor, generator: Generator) -> Tensor:
    wrong = x.clone().flatten()
    wrong[_pick(wrong.numel(), generator)] = float("nan")
    return wrong.reshape(x.shape)


def _fp16_overflow(x: Tensor, _: Generator) -> Tensor:
    """Kept in half precision, at a scale at which the largest do not fit."""
    scale = 2.0 ** torch.ceil(torch.log2(65536 / x.abs().max()))
    return (x * scale).half().to(x.dtype) / scale


def _is_matrix(x: Tensor) -> bool:
    return x.dim() >= 2 and x.shape[-1] >= 8 and x.numel() // x.shape[-1] >= 8


def _gives_matrix(call: Call, calls: Sequence[Call]) -> bool:
    return _is_matrix(call.given)


def _has_gradient(call: Call, calls: Sequence[Call]) -> bool:
    return bool(differentiable(call)) and _is_matrix(call.tensors[differentiable(call)[0]])


def _on_tensors(name: str, change: Change) -> list[Fault]:
    """The same in a result and in a gradient."""
    return [
        Fault(
            name, _COMPUTING, InResult(lambda call, generator: change(call.given, generator)), _gives_matrix
        ),
        Fault(
            f"{name}-backward",
            _DIFFERENTIATED,
            InGradient(lambda gradient, _, generator: change(gradient, generator)),
            _has_gradient,
        ),
    ]


def _has_weight(call: Call, calls: Sequence[Call]) -> bool:
    return len(call.held) > 1 and call.held[1] is not None


def _without_bias(call: Call, _: Generator) -> Tensor:
    return call.again(at_2=None, bias=None)


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *_on_tensors("scale-1.5", _times(1.5)),
        *_on_tensors("scale-1.01", _times(1.01)),
        *_on_tensors("one-element", _one_element),
        Fault("weight-5-percent", _WEIGHTED, InWeight(_times(1.05)), _has_weight),
        Fault(
            "nan", _COMPUTING, InResult(lambda call, generator: _nan(call.given, generator)), _gives_matrix
        ),
    )
}
