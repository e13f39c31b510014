"""Tensors drawn from recorded statistics, for dumps that have no elements.

The same seed and the same entry give the same tensor. Largest and smallest element, mean and norm are about
the recorded ones, and as many elements are NaN or infinite.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ulpscope._core import DumpTensor


def seeded(seed: int, place: str) -> torch.Generator:
    """Random numbers of an entry: the same for the same seed."""
    # Torch uses 32 bits of a seed on the CPU.
    return torch.Generator().manual_seed(zlib.crc32(f"{seed} {place}".encode(errors="surrogatepass")))


def drawn(
    tensor: DumpTensor, dtype: torch.dtype, shape: tuple[int, ...], seed: int, place: str
) -> torch.Tensor:
    """A tensor like a recorded one. ``place`` is the name of its entry."""
    generator = seeded(seed, place)
    found = tensor.statistics()
    low, high = _number(found.get("finite_min")), _number(found.get("finite_max"))
    low = _number(found.get("Min")) if low is None else low
    high = _number(found.get("Max")) if high is None else high
    if dtype == torch.bool:
        return _truth(found, shape, generator)
    if low is None or high is None:
        low, high = _range_of_finite(found)
    low, high = min(low, high), max(low, high)
    if not dtype.is_floating_point and not dtype.is_complex:
        return torch.randint(int(low), int(high) + 1, shape, generator=generator, dtype=torch.int64).to(dtype)
    values = _spread(found, low, high, shape, generator)
    flat = values.view(-1)
    count = flat.numel()
    if count >= 2:
        ends = torch.randperm(count, generator=generator)[:2]
        flat[ends[0]], flat[ends[1]] = low, high
    _break(flat, found, generator)
    return values.to(dtype)


def _spread(
    found: dict[str, Any], low: float, high: float, shape: tuple[int, ...], generator: torch.Generator
) -> torch.Tensor:
    count = math.prod(shape)
    mean, norm = _number(found.get("Mean")), _number(found.get("Norm"))
    variance = None if mean is None or norm is None or not count else norm**2 / count - mean**2
    if variance is None or variance <= 0:
        return torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    assert mean is not None
    return (drawn * math.sqrt(variance) + mean).clamp(low, high)


def _truth(found: dict[str, Any], shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if found.get("Max") in (False, 0):
        return torch.zeros(shape, dtype=torch.bool)
    if found.get("Min") in (True, 1):
        return torch.ones(shape, dtype=torch.bool)
    return torch.rand(shape, generator=generator) < 0.5


def _break(flat: torch.Tensor, found: dict[str, Any], generator: torch.Generator) -> None:
    """Puts NaN and infinities in: as many as were counted, or one of each kind that the extremes show."""
    ends = [found.get("Max"), found.get("Min")]
    shown = [float(end) for end in ends if isinstance(end, int | float | str) and _is_number(end)]
    infinite = [end for end in shown if math.isinf(end)]
    nan = found.get("nan") if isinstance(found.get("nan"), int) else int(any(map(math.isnan, shown)))
    inf = found.get("inf") if isinstance(found.get("inf"), int) else len(infinite)
    nan, inf = max(0, int(nan or 0)), max(0, int(inf or 0))
    if nan + inf == 0:
        return
    places = torch.randperm(flat.numel(), generator=generator)
    flat[places[:nan]] = math.nan
    infinite = infinite or [math.inf]
    for number, value in enumerate(infinite):
        flat[places[nan : nan + inf][number :: len(infinite)]] = value


def _range_of_finite(found: dict[str, Any]) -> tuple[float, float]:
    known = [_number(found.get(key)) for key in ("Max", "Min")]
    one = next((number for number in known if number is not None), None)
    return (-1.0, 1.0) if one is None else (min(one, -abs(one)), max(one, abs(one)))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _number(value: Any) -> float | None:
    """A finite number, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
