"""Noise of the size of rounding: every element is multiplied by one or by a number next to it.

A product needs one pass over a tensor, keeps zeros, infinities and NaN, and never overflows: the magnitude only
becomes smaller. The factors repeat after a while; they are drawn once, and not from the program's generators.
"""

from __future__ import annotations

import math

import torch

# Factors that are drawn; a power of two.
_POOL = 1 << 18


class Noise:
    """Factors for one seed."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator()
        generator.manual_seed(seed)
        self._chosen = torch.randint(0, 2, (_POOL,), generator=generator, dtype=torch.int8)
        self._pools: dict[tuple[torch.dtype, torch.device], torch.Tensor] = {}

    def below(self, tensor: torch.Tensor) -> torch.Tensor:
        """Half of the elements are replaced by a neighbour, in the tensor's own dtype."""
        key = (tensor.dtype, tensor.device)
        if key not in self._pools:
            step = torch.finfo(tensor.dtype).eps
            factors = 1 - step * self._chosen.double()
            self._pools[key] = factors.to(tensor.dtype).to(tensor.device)
        return self._times(tensor, self._pools[key])

    def around(self, tensor: torch.Tensor, size: float) -> torch.Tensor:
        """Every element moves by ``size``, relative to it, up or down. For tensors of a wider dtype."""
        factors = 1 + size * (2 * self._chosen.double() - 1)
        return self._times(tensor, factors.to(tensor.dtype).to(tensor.device))

    def _times(self, tensor: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        count = tensor.numel()
        if count <= _POOL:
            return tensor * pool[:count].view(tensor.shape)
        flat = tensor.reshape(-1)
        whole = count - count % _POOL
        made = torch.empty_like(flat)
        torch.mul(flat[:whole].view(-1, _POOL), pool, out=made[:whole].view(-1, _POOL))
        torch.mul(flat[whole:], pool[: count - whole], out=made[whole:])
        return made.view(tensor.shape)


def relative_noise(dtype: torch.dtype) -> float:
    """The root mean square of ``Noise.below``, relative to the elements."""
    return float(torch.finfo(dtype).eps * math.sqrt(0.5))
