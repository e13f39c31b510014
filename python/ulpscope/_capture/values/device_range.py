"""The largest magnitudes of tensors on other devices, by one operation of torch for each.

As ``device_statistics.measure``, this waits for nothing. The numbers have the order of those, so that the
recorder reads both alike; what does not concern the range is zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from ulpscope._capture.values import device_statistics
from ulpscope._capture.values.device_statistics import Batch, Numbers


class RangeBatch(Batch):
    """The largest magnitudes of some tensors of one device, on their way to the host."""

    def numbers(self) -> list[Numbers]:
        """For each tensor the numbers of floats, as of a tensor whose only element is the largest."""
        return [_as_numbers(largest) for (largest,) in super().numbers()]


def measure_range(tensors: list[torch.Tensor]) -> RangeBatch:
    """Starts measuring tensors of floats on one device."""
    return device_statistics.measured_by(tensors, _largest, RangeBatch)


def _largest(tensor: torch.Tensor, wide: torch.dtype) -> dict[str, torch.Tensor]:
    # Infinity is above all finite magnitudes, and NaN above infinity.
    parts = [torch.linalg.vector_norm(piece, math.inf) for piece in _magnitudes(tensor)]
    largest = parts[0] if len(parts) == 1 else torch.linalg.vector_norm(torch.stack(parts), math.inf)
    # Few dtypes, so that the numbers of a call are copied at once. Both conversions are exact.
    return {"largest": largest.to(torch.float64 if largest.dtype is torch.float64 else torch.float32)}


def _magnitudes(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    # The modulus of a complex number may leave the range that its parts are in.
    parts = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    for piece in device_statistics.pieces(parts):
        yield device_statistics.as_known_dtype(piece)


def _as_numbers(largest: float | int) -> Numbers:
    is_nan, is_infinite = math.isnan(largest), math.isinf(largest)
    finite = 0.0 if is_nan or is_infinite else float(largest)
    return (0.0, 0.0, finite, finite, int(is_nan), int(is_infinite), 0)
