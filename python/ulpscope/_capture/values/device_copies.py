"""Copies of tensors on a device, for files, on their way to the host. The program does not wait for them.

``stage`` copies a tensor on its device first, in the order of the current stream: later changes do not
matter. The way to the host is on a stream of its own where the device has streams, into page-locked memory
where that exists. ``Copy`` says when the elements are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from ulpscope._capture.values import transforms
from ulpscope._capture.values.device_statistics import has_events, host_memory, unseen
from ulpscope._capture.values.tensors import in_captured_graph, is_freed

# By device: the stream on which copies go to the host.
_streams: dict[torch.device, Any] = {}


class Copy:
    """A tensor on its way to the host."""

    def __init__(self, on_device: torch.Tensor, on_host: torch.Tensor, event: Any) -> None:
        # Until the copy is complete, its memory must not be used for anything else.
        self._on_device: torch.Tensor | None = on_device
        self._on_host, self._event = on_host, event

    def has_arrived(self) -> bool:
        """Whether the elements are there; does not wait."""
        return bool(self._event.query())

    def wait(self) -> None:
        """Waits for the elements."""
        self._event.synchronize()

    def tensor(self) -> torch.Tensor:
        """The elements, after they have arrived."""
        self._on_device = None
        return self._on_host


def stage(tensor: torch.Tensor) -> tuple[Copy, str, tuple[int, ...]] | None:
    """Starts a copy of a tensor: with its dtype and shape. None if the copy has to be waited for."""
    try:
        kind = tensor.device.type
        if (
            kind == "cpu"
            or tensor.is_meta
            or not has_events(kind)
            or tensor.layout is not torch.strided
            or tensor.is_nested
            or tensor.is_quantized
            or transforms.is_wrapped(tensor)
            or tensor.is_conj()
            or tensor.is_neg()
            or tensor.numel() == 0
            or is_freed(tensor)
            or in_captured_graph(tensor)
        ):
            return None
        with unseen():
            on_device = tensor.detach().clone()
            on_host = host_memory(on_device)
            with _side_stream(on_device) as event:
                on_host.copy_(on_device, non_blocking=True)
                event.record()
        return Copy(on_device, on_host, event), str(tensor.dtype), tuple(tensor.shape)
    except RuntimeError:
        # The device has no memory for it, or lacks an operation.
        return None


@contextlib.contextmanager
def _side_stream(tensor: torch.Tensor) -> Iterator[Any]:
    """The stream for copies is the current one, and has waited for the tensor; with an event for its end."""
    device = tensor.device
    module: Any = getattr(torch, device.type)
    if not (hasattr(module, "Stream") and hasattr(module, "stream")):
        # Everything is in one order.
        yield module.Event()
        return
    side = _streams.get(device)
    if side is None:
        side = _streams[device] = module.Stream(device)
    side.wait_stream(module.current_stream(device))
    tensor.record_stream(side)
    with module.stream(side):
        yield module.Event()
