"""Which call was the first with NaN or infinity in a result on a device, without waiting for the device.

``check`` queues a few operations there: the number of the first bad call stays on the device. ``first`` reads
it, once a step.
"""

from __future__ import annotations

import torch

from ulpscope._capture.values.device_statistics import as_known_dtype, unseen

# No call has that number.
_NONE = torch.iinfo(torch.int64).max


class DeviceRange:
    """The first bad call of a step, on each device."""

    def __init__(self) -> None:
        self._first: dict[torch.device, torch.Tensor] = {}

    def check(self, tensors: list[torch.Tensor], number: int) -> None:
        """Lets the devices check the results of the call with this number."""
        with unseen():
            for tensor in tensors:
                known = as_known_dtype(tensor.detach())
                if not (known.is_floating_point() or known.is_complex()):
                    continue
                so_far = self._first.get(tensor.device)
                if so_far is None:
                    so_far = torch.full((), _NONE, dtype=torch.int64, device=tensor.device)
                bad = torch.isfinite(known).all().logical_not()
                self._first[tensor.device] = torch.where(bad & (so_far == _NONE), number, so_far)

    def first(self) -> int | None:
        """The number of the first bad call since the last time; waits for the devices."""
        found, self._first = self._first, {}
        with unseen():
            numbers = [int(number.item()) for number in found.values()]
        return min((number for number in numbers if number != _NONE), default=None)
