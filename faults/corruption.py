"""What may be done to a tensor: each takes a right one and gives a wrong one of the same shape."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Change = Callable[[Tensor, Generator], Tensor]


def times(factor: float) -> Change:
    """All of it, scaled."""
    return lambda x, _: x * factor


def rows_permuted(x: Tensor, generator: Generator) -> Tensor:
    """The rows, whatever the dimensions before the last, in another order."""
    rows = x.reshape(-1, x.shape[-1])
    # A rotation leaves no row in place.
    return rows.roll(1 + _pick(len(rows) - 1, generator), 0).reshape(x.shape)


def heads_swapped(x: Tensor, _: Generator) -> Tensor:
    """The first two heads in each other's place."""
    return x[:, [1, 0, *range(2, x.shape[1])]]


def one_element(x: Tensor, generator: Generator) -> Tensor:
    """One element off by three times the usual size."""
    wrong = x.flatten().clone()
    wrong[_pick(wrong.numel(), generator)] += 3 * x.square().mean().sqrt()
    return wrong.reshape(x.shape)


def one_tile(x: Tensor, generator: Generator) -> Tensor:
    """Four by four elements of a matrix that hold what the tile before them should."""
    wrong = x.reshape(-1, x.shape[-1]).clone()
    row, column = _pick(len(wrong) - 3, generator), _pick(wrong.shape[1] - 3, generator)
    moved = wrong.roll((4, 4), (0, 1))
    wrong[row : row + 4, column : column + 4] = moved[row : row + 4, column : column + 4]
    return wrong.reshape(x.shape)


def nan(x: Tensor, generator: Generator) -> Tensor:
    """One element that is no number."""
    wrong = x.flatten().clone()
    wrong[_pick(wrong.numel(), generator)] = float("nan")
    return wrong.reshape(x.shape)


def fp16_overflow(x: Tensor, _: Generator) -> Tensor:
    """Kept in half precision, at a scale at which the largest do not fit."""
    scale = 2.0 ** torch.ceil(torch.log2(65536 / x.abs().max()))
    return (x * scale).half().to(x.dtype) / scale


def transposed(x: Tensor, _: Generator) -> Tensor:
    """The same numbers, laid out as if rows were columns."""
    return x.flatten(1).t().reshape(x.shape)


def bit_flipped(x: Tensor, generator: Generator) -> Tensor:
    """One bit of one number: its sign, or one of those that halve or double it."""
    wrong = x.float().flatten().clone()
    place = _pick(wrong.numel(), generator)
    bit = (-(2**31), 1 << 23, 1 << 22)[_pick(3, generator)]
    wrong.view(torch.int32)[place] ^= bit
    return wrong.reshape(x.shape).to(x.dtype)


def another(x: Tensor, other: Tensor | None, _: Generator) -> Tensor:
    """What belongs to another tensor of the same shape."""
    if other is None:
        raise RuntimeError(f"expected another gradient of shape {tuple(x.shape)} before this one, found none")
    return other


def _pick(count: int, generator: Generator) -> int:
    return int(torch.randint(0, count, (), generator=generator))
