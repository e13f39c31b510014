"""Kernels of torch that go wrong once, under calls that a capture records."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class WrongKernel(TorchDispatchMode):
    """A kernel that goes wrong once."""

    def __init__(self, operator: str, number: int, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._operator, self._left, self._change = operator, number, change

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.name != self._operator:
            return result
        self._left -= 1
        return self._change(result) if self._left == 0 else result


def one_element(result: Tensor) -> Tensor:
    result = result.clone()
    result.view(-1)[result.numel() // 3] += 0.1 * result.abs().max()
    return result


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled": lambda result: result * 1.01,
    "one element": one_element,
    "rows swapped": lambda result: result.flip(0),
    "bfloat16": lambda result: result.to(torch.bfloat16).to(result.dtype),
}
# The fifth time that an operator runs, and the call it belongs to.
KERNELS = {
    ("gpt", "aten::addmm"): "Functional.linear.4.forward",
    ("gpt", "aten::bmm"): "Tensor.__matmul__.4.forward",
    ("encoder", "aten::addmm"): "Functional.linear.4.forward",
    ("convnet", "aten::convolution"): "Functional.conv2d.4.forward",
    ("convnet", "aten::relu"): "Functional.relu.4.forward",
    ("moe", "aten::mm"): "Torch.mm.3.forward",
    ("unet", "aten::convolution"): "Functional.conv2d.4.forward",
}
