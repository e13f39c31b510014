"""Noise of the size of rounding: every element is multiplied by one or by a number next to it.

A product needs one pass over a tensor, keeps zeros, infinities and NaN, and never overflows: the magnitude
only becomes smaller. The factors repeat after a while; they are drawn once, from a generator of our own.
"""

from __future__ import annotations

import math

import torch

# Factors that are drawn; a tensor begins anywhere in the first half, by its position among the arguments, so
# that two arguments do not move together.
_POOL = 1 << 18
_SPREAD = 40503


class Noise:
    """Factors for one seed."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator()
        generator.manual_seed(seed)
        self._chosen = torch.randint(0, 2, (2 * _POOL,), generator=generator, dtype=torch.int8)
        self._pools: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}

    def below(self, tensor: torch.Tensor, position: int) -> torch.Tensor:
        """Half of the elements are replaced by a neighbour, in the tensor's own dtype."""
        key = (tensor.dtype, tensor.device)
        if key not in self._pools:
            factors = 1 - torch.finfo(tensor.dtype).eps * self._chosen.double()
            self._pools[key] = factors.to(tensor.dtype).to(tensor.device)
        return _times(tensor, self._pools[key][_span(tensor, position)])

    def around(self, tensor: torch.Tensor, position: int, size: float) -> torch.Tensor:
        """Every element moves by ``size``, relative to it, up or down. For tensors of a wider dtype."""
        signs = self._chosen[_span(tensor, position)].to(tensor.device, tensor.dtype)
        return _times(tensor, signs.mul_(2 * size).add_(1 - size))


def _span(tensor: torch.Tensor, position: int) -> slice:
    start = position * _SPREAD % _POOL
    return slice(start, start + min(tensor.numel(), _POOL))


def _times(tensor: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """The product; the factors repeat if they are fewer than the elements."""
    tensor = tensor.detach()
    count, repeats = tensor.numel(), len(factors)
    if count == repeats:
        return tensor * factors.view(tensor.shape)
    flat = tensor.reshape(-1)
    whole = count - count % repeats
    made = torch.empty_like(flat)
    torch.mul(flat[:whole].view(-1, repeats), factors, out=made[:whole].view(-1, repeats))
    torch.mul(flat[whole:], factors[: count - whole], out=made[whole:])
    return made.view(tensor.shape)


def relative_noise(dtype: torch.dtype) -> float:
    """The root mean square of ``Noise.below``, relative to the elements."""
    return float(torch.finfo(dtype).eps * math.sqrt(0.5))
