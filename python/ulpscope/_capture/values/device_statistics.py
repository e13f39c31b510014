"""Statistics of tensors on other devices, by torch's own operations there.

``measure`` queues the operations on the device, and a copy of their results to the host. It waits for
nothing: later changes of a tensor come after them in the order of the device. ``Batch`` says when the results
are there.

Operations run on the tensors as they are, in pieces, so that temporary memory is bounded. They are hidden
from the program's modes, from autograd and from autocast.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from ulpscope._capture.values import transforms
from ulpscope._capture.values.tensors import in_captured_graph, is_freed

# Elements of a tensor that are processed at a time: temporary memory is a few times that.
_PIECE = 1 << 23

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
# Few operations know these: they are converted first, which is exact.
_CONVERTED: dict[torch.dtype, torch.dtype] = {
    getattr(torch, name): to
    for name, to in (
        ("float8_e4m3fn", torch.float32),
        ("float8_e4m3fnuz", torch.float32),
        ("float8_e5m2", torch.float32),
        ("float8_e5m2fnuz", torch.float32),
        ("float8_e8m0fnu", torch.float32),
        ("uint16", torch.int64),
        ("uint32", torch.int64),
    )
    if hasattr(torch, name)
}
_COMPLEX = (torch.complex64, torch.complex128)
_MEASURABLE = {*_FLOATS, *_INTS, *_CONVERTED, *_COMPLEX}

# Whether a kind of device can add in float64, and whether copies from it go to page-locked memory.
_has_float64: dict[str, bool] = {}
_has_pinned: dict[str, bool] = {}

Numbers = tuple[float | int, ...]


class Batch:
    """The statistics of some tensors of one device, on their way to the host."""

    def __init__(self, results: list[_OnHost], tensors: list[dict[str, _Place]], event: Any) -> None:
        self._results = results
        self._tensors = tensors
        self._event = event

    def has_arrived(self) -> bool:
        """Whether the numbers are there; does not wait."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> None:
        """Waits for the numbers."""
        if self._event is not None:
            self._event.synchronize()

    def numbers(self) -> list[Numbers]:
        """The numbers of each tensor: those of ``_float_numbers`` or ``_integer_numbers``."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            values = {result.dtype: result.values.tolist() for result in self._results}
        return [
            tuple(values[place.dtype][place.index] for place in tensor.values()) for tensor in self._tensors
        ]


AnyBatch = TypeVar("AnyBatch", bound=Batch)


class _Place:
    """Where a number will be: in the results of this dtype, at this index."""

    __slots__ = ("dtype", "index")

    def __init__(self, dtype: torch.dtype, index: int) -> None:
        self.dtype = dtype
        self.index = index


class _OnHost:
    """Results of one dtype, in the memory of the host."""

    __slots__ = ("dtype", "values")

    def __init__(self, dtype: torch.dtype, values: torch.Tensor) -> None:
        self.dtype = dtype
        self.values = values


def measurable(tensor: torch.Tensor) -> tuple[str, tuple[int, ...]] | None:
    """The dtype and the shape of a tensor that its device can measure; None for any other."""
    try:
        if (
            tensor.dtype not in _MEASURABLE
            or tensor.is_meta
            or tensor.layout is not torch.strided
            or tensor.is_nested
            or transforms.is_wrapped(tensor)
            or in_captured_graph(tensor)
            or tensor.numel() == 0
            or is_freed(tensor)
        ):
            return None
        return str(tensor.dtype), tuple(tensor.shape)
    except RuntimeError:
        # Tensors without memory refuse some of these questions.
        return None


def measure(tensors: list[torch.Tensor]) -> Batch:
    """Starts measuring tensors of one device."""
    return measured_by(tensors, _numbers, Batch)


def measured_by(
    tensors: list[torch.Tensor],
    numbers_of: Callable[[torch.Tensor, torch.dtype], dict[str, torch.Tensor]],
    kind: type[AnyBatch],
) -> AnyBatch:
    """Starts computing numbers of tensors of one device: each a tensor of one element there."""
    device = tensors[0].device
    with unseen():
        wide = torch.float64 if _can_widen(device) else torch.float32
        by_dtype: dict[torch.dtype, list[torch.Tensor]] = {}
        places = []
        for tensor in tensors:
            place = {}
            for name, number in numbers_of(tensor.detach(), wide).items():
                own = by_dtype.setdefault(number.dtype, [])
                place[name] = _Place(number.dtype, len(own))
                own.append(number)
            places.append(place)
        results = [_OnHost(dtype, _on_host(torch.stack(own))) for dtype, own in by_dtype.items()]
        return kind(results, places, _recorded_event(device))


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Hides operations from the program's modes, from autograd and from autocast."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch._C._DisableAutocast(),
        torch.no_grad(),
    ):
        yield


def _numbers(tensor: torch.Tensor, wide: torch.dtype) -> dict[str, torch.Tensor]:
    """The statistics of a tensor, each a tensor of one element on its device."""
    compute = _integer_numbers if _is_integer(tensor.dtype) else _float_numbers
    once, repeats = _without_repeats(tensor)
    parts = [compute(_readable(piece, wide), wide) for piece in _pieces(once)]
    whole = parts[0]
    if len(parts) > 1:
        whole = {name: _MERGED[name](torch.stack([part[name] for part in parts])) for name in whole}
    if repeats > 1:
        factors = {"max": 1, "min": 1, "norm": math.sqrt(repeats)}
        whole = {name: number * factors.get(name, repeats) for name, number in whole.items()}
    return whole


def _float_numbers(x: torch.Tensor, wide: torch.dtype) -> dict[str, torch.Tensor]:
    limits = torch.finfo(x.dtype)
    # In the place of what is not finite comes the value that is never the extremum.
    low = torch.nan_to_num(x, nan=limits.min, posinf=limits.min, neginf=limits.min)
    largest = low.amax()
    high = torch.nan_to_num(x, nan=limits.max, posinf=limits.max, neginf=limits.max, out=low)
    return {
        "sum": x.sum(dtype=wide),
        "norm": torch.linalg.vector_norm(x, dtype=wide),
        "max": largest,
        "min": high.amin(),
        "nan": (x != x).sum(),
        "pos_inf": (x == math.inf).sum(),
        "neg_inf": (x == -math.inf).sum(),
    }


def _integer_numbers(x: torch.Tensor, wide: torch.dtype) -> dict[str, torch.Tensor]:
    widened = x.to(wide)
    own = x.to(torch.uint8) if x.dtype is torch.bool else x
    return {
        "sum": widened.sum(),
        "norm": torch.linalg.vector_norm(widened),
        "max": own.amax().to(torch.int64),
        "min": own.amin().to(torch.int64),
    }


# How the numbers of pieces become those of the whole.
_MERGED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": torch.sum,
    "norm": torch.linalg.vector_norm,
    "max": torch.amax,
    "min": torch.amin,
    "nan": torch.sum,
    "pos_inf": torch.sum,
    "neg_inf": torch.sum,
}


def _is_integer(dtype: torch.dtype) -> bool:
    return _CONVERTED.get(dtype, dtype) in _INTS


def as_known_dtype(x: torch.Tensor) -> torch.Tensor:
    """The tensor in a dtype with all operations."""
    return x.to(_CONVERTED.get(x.dtype, x.dtype))


def _readable(x: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """The tensor in a dtype with all operations; of complex numbers, the moduli."""
    if x.dtype in _CONVERTED:
        return as_known_dtype(x)
    if not x.is_complex():
        return x
    x = x.to(torch.complex128 if wide is torch.float64 else torch.complex64)
    # Torch's modulus of an infinite and a NaN part is infinite.
    is_nan = (x.real != x.real) | (x.imag != x.imag)
    return x.abs().masked_fill_(is_nan, math.nan)


def _without_repeats(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The elements of a large expanded tensor, each once, and how often all of them occur."""
    if x.numel() <= _PIECE:
        return x, 1
    repeats = 1
    for dim in range(x.dim()):
        if x.stride(dim) == 0:
            repeats *= x.size(dim)
            x = x.narrow(dim, 0, 1)
    return x, repeats


def pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views that show each element of a tensor at least once, none of them with too many."""
    yield from _pieces(_without_repeats(x)[0])


def _pieces(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of a tensor, none of them with too many elements."""
    if x.numel() <= _PIECE:
        yield x
        return
    longest = max(range(x.dim()), key=x.size)
    length = max(1, _PIECE // (x.numel() // x.size(longest)))
    for start in range(0, x.size(longest), length):
        yield from _pieces(x.narrow(longest, start, min(length, x.size(longest) - start)))


def _can_widen(device: torch.device) -> bool:
    """Whether a device adds in float64."""
    known = _has_float64.get(device.type)
    if known is None:
        try:
            torch.zeros(1, device=device).sum(dtype=torch.float64)
            known = True
        except (RuntimeError, TypeError):
            known = False
        _has_float64[device.type] = known
    return known


def _on_host(values: torch.Tensor) -> torch.Tensor:
    """A copy in the memory of the host, complete when the device has done what it was asked before."""
    kind = values.device.type
    if kind == "cpu":
        return values
    host = host_memory(values)
    return host.copy_(values, non_blocking=has_events(kind))


def host_memory(values: torch.Tensor) -> torch.Tensor:
    """Memory of the host for a copy, page-locked where that exists."""
    kind, form = values.device.type, (values.shape, values.stride())
    if _has_pinned.get(kind, True):
        try:
            return torch.empty_strided(*form, dtype=values.dtype, device="cpu", pin_memory=True)
        except RuntimeError:
            _has_pinned[kind] = False
    return torch.empty_strided(*form, dtype=values.dtype, device="cpu")


def has_events(kind: str) -> bool:
    """Whether a kind of device says when it has done what it was asked."""
    module = getattr(torch, kind, None)
    return hasattr(module, "Event") and hasattr(module, "current_stream")


def _recorded_event(device: torch.device) -> Any:
    """An event after everything that the device was asked to do; None where copies are waited for."""
    if device.type == "cpu" or not has_events(device.type):
        return None
    module = getattr(torch, device.type)
    event = module.Event()
    event.record(module.current_stream(device))
    return event
