"""Tensors whose elements are not in ordinary memory, and gradients that arrive in parts.

Computations here are hidden from the program's modes and from tensor classes with their own memory. Only a
class that wraps other tensors adds them with its own code: there is no other way.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.utils import _python_dispatch as dispatch

from ulpscope._capture.values import transforms

# Sparse tensors are made dense to be measured, unless that takes more bytes than this.
_MAX_DENSE = 1 << 28

# How many elements are processed in float64 at a time.
_PIECE = 1 << 20

# By kind of device: whether its storages have a size.
_addressed: dict[str, bool] = {}


# The shape of a view of its whole base; or shape and strides of the base, and shape, strides and offset of
# the view.
Part = tuple[Any, ...]


_DISTRIBUTED = "torch.distributed.tensor.DTensor"


class Unusual(NamedTuple):
    """What the recorder needs to know about a tensor."""

    class_name: str
    extra: str
    """Further JSON keys, each after a comma."""
    dtype: str
    shape: list[int]
    readable: torch.Tensor | None
    why_not: str | None


def describe(tensor: torch.Tensor) -> Unusual:
    """Where the elements of a tensor can be read: in place, or in a copy; nowhere within a captured graph."""
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            return _describe(tensor)
    except Exception as error:
        # A tensor class may refuse any operation; then only its name is known.
        return Unusual(_class_name(tensor), "", "", [], None, _refused(tensor, error))


def _describe(tensor: torch.Tensor) -> Unusual:
    name, extra = _class_name(tensor), ""
    local = tensor
    if name == _DISTRIBUTED:
        local, extra = _local_part(tensor)
    unwrapped = transforms.unwrapped(tensor)
    if unwrapped is not None:
        local, batch_dims = unwrapped
        extra = f',"batch_dims":{batch_dims}' if batch_dims else ""
    if _has_no_elements(local):
        # It carries shapes only, no numbers: two runs can differ in nothing else.
        extra += ',"blank":true'
    dtype = str(tensor.dtype)
    shape = [int(size) for size in tensor.shape] if not tensor.is_nested else []
    try:
        with transforms.disabled() if unwrapped is not None else contextlib.nullcontext():
            readable, why_not = _readable(local)
    except Exception as error:
        readable, why_not = None, _refused(tensor, error)
    return Unusual(name, extra, dtype, shape, readable, why_not)


def shard(tensor: torch.Tensor) -> tuple[str, str, torch.Tensor] | None:
    """Class, further keys and this rank's part of a distributed tensor, if the part is an ordinary tensor."""
    if _class_name(tensor) != _DISTRIBUTED:
        return None
    with torch._C.DisableTorchFunction():
        local, extra = _local_part(tensor)
    return (_DISTRIBUTED, extra, local) if type(local) is torch.Tensor else None


def _local_part(tensor: Any) -> tuple[torch.Tensor, str]:
    placements = [str(placement) for placement in tensor.placements]
    mesh = tensor.device_mesh.mesh.tolist()
    extra = f',"device_mesh":{json.dumps(mesh)},"placements":{json.dumps(placements)}'
    return tensor._local_tensor, extra


def add(parts: list[torch.Tensor]) -> torch.Tensor | None:
    """The sum of the parts of a gradient; None within a captured graph, which would include the sum."""
    if all(type(part) is torch.Tensor for part in parts):
        # The common case, a module that uses an argument twice: a shorter path.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return _sum(parts)
    with _unseen(parts) as own:
        total = _sum(own)
        return None if total is None else _in_class_of(parts[0], total)


def _sum(parts: list[torch.Tensor]) -> torch.Tensor | None:
    if any(in_captured_graph(part) for part in parts):
        return None
    # Operations on detached tensors are not added to a graph.
    total: torch.Tensor | None = None
    for part in parts:
        total = part.detach() if total is None else torch.add(total, part.detach())
    return total


def subtract(whole: torch.Tensor, parts: list[torch.Tensor]) -> torch.Tensor | None:
    """A gradient minus some of its parts, in float64: no more is lost than the sum has lost."""
    with _unseen([whole, *parts]) as own:
        if in_captured_graph(whole):
            return None
        if any(
            one.layout is not torch.strided or not _is_plain(one) or one.shape != own[0].shape for one in own
        ):
            return _less(own).to(whole.dtype)
        # In pieces: float64 copies of all would take several times the memory.
        flat = [one.detach().reshape(-1) for one in own]
        rest = flat[0].new_empty(flat[0].shape)
        for start in range(0, rest.numel(), _PIECE):
            rest[start : start + _PIECE] = _less([one[start : start + _PIECE] for one in flat])
        return _in_class_of(whole, rest.view(own[0].shape))


def _less(terms: list[torch.Tensor]) -> torch.Tensor:
    """The first minus the others."""
    rest = _widened(terms[0])
    for term in terms[1:]:
        rest = rest - _widened(term)
    return rest


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    """In the widest dtype of its kind that the device has."""
    tensor = tensor.detach()
    if tensor.device.type == "mps":
        tensor = tensor.cpu()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


@contextlib.contextmanager
def _unseen(tensors: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """The tensors without their classes, if they have their own memory, for hidden computations."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        own = [one if _is_plain(one) or not _has_memory(one) else _as_plain(one) for one in tensors]
        if all(_is_plain(one) for one in own):
            with torch._C._DisableTorchDispatch():
                yield own
        else:
            with dispatch._disable_current_modes():
                yield own


def _is_plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def _in_class_of(tensor: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
    """A result computed without its class, converted back to the class."""
    if _is_plain(tensor) or not _is_plain(plain):
        return plain
    return plain.as_subclass(type(tensor))


def _as_plain(tensor: torch.Tensor) -> torch.Tensor:
    try:
        with torch._C._DisableTorchDispatch():
            return tensor.as_subclass(torch.Tensor)
    except RuntimeError:
        # Torch 2.1 cannot convert from a class that handles operators.
        return tensor


def part_of(view: torch.Tensor, base: torch.Tensor) -> Part:
    """The part of its base that a view covers."""
    with torch._C.DisableTorchFunction():
        if view.numel() == base.numel() and view.is_contiguous() and base.is_contiguous():
            return (tuple(view.shape),)
        offset = view.storage_offset() - base.storage_offset()
        return tuple(base.shape), base.stride(), tuple(view.shape), view.stride(), offset


def take_part(gradient: torch.Tensor, part: Part) -> torch.Tensor | None:
    """The part of a base's gradient that belongs to a view; None within a captured graph."""
    with _unseen([gradient]) as (own,):
        if in_captured_graph(own):
            return None
        own = own.detach()
        if len(part) == 1:
            return _in_class_of(gradient, own.reshape(part[0]))
        shape, strides, view_shape, view_strides, offset = part
        if own.shape != shape or own.stride() != strides:
            own = torch.empty_strided(shape, strides, dtype=own.dtype, device=own.device).copy_(own)
        view = own.as_strided(view_shape, view_strides, own.storage_offset() + offset)
        return _in_class_of(gradient, view)


def _refused(tensor: torch.Tensor, error: Exception) -> str:
    """Why a tensor could not be read. Torch's own text has internals, and differs from run to run."""
    return f"{type(tensor).__name__}: torch could not give its elements ({type(error).__name__})"


def _class_name(tensor: torch.Tensor) -> str:
    kind = type(tensor)
    if kind in (torch.Tensor, torch.nn.Parameter):
        return "torch.Tensor"
    if kind.__name__ == "DTensor" and kind.__module__.startswith("torch.distributed"):
        return _DISTRIBUTED
    return f"{kind.__module__}.{kind.__qualname__}"


def _readable(tensor: torch.Tensor) -> tuple[torch.Tensor | None, str | None]:
    if _has_no_elements(tensor):
        return None, None
    if tensor._is_zerotensor():
        # A tangent of zeros has no memory.
        return torch.zeros((), dtype=tensor.dtype).expand(tensor.shape), None
    if transforms.is_wrapped(tensor):
        return None, "inside a function transform (torch.func)"
    if tensor.is_nested:
        return None, "nested tensor"
    if type(tensor).__name__ == "AsyncCollectiveTensor":
        return _readable(_received(tensor))
    if in_captured_graph(tensor):
        return None, "inside a captured graph"
    if tensor.layout is not torch.strided:
        if tensor.numel() * tensor.element_size() > _MAX_DENSE:
            return None, f"{tensor.layout} of {tensor.numel()} elements"
        with _unseen([tensor]) as (own,):
            return own.detach().to_dense(), None
    if tensor.is_quantized:
        with _unseen([tensor]) as (own,):
            return own.detach().dequantize(), None
    is_plain = _is_plain(tensor)
    if is_plain and is_freed(tensor):
        return None, "its memory was freed"
    if not is_plain and not _has_memory(tensor):
        return None, f"{type(tensor).__name__} has no memory of its own"
    # Classes and modes of the program may intercept every operation, but must not see this one.
    with torch._C._DisableTorchDispatch():
        tensor = tensor if is_plain else tensor.as_subclass(torch.Tensor)
        # If it can be read as it is, no operation is run on it.
        return (tensor if tensor.is_cpu else tensor.detach().cpu()), None


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor has its own elements, instead of wrapping other tensors."""
    try:
        address = tensor.untyped_storage().data_ptr()
    except RuntimeError:
        # Newer releases of torch raise for a class that wraps other tensors.
        return False
    return address != 0 or tensor.numel() == 0


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the storage of a strided tensor was freed, as FSDP does.

    The storage itself is not asked: its Python object would count as a user of the memory, and torch would no
    longer add gradients in place.
    """
    return tensor.numel() > 0 and _address(tensor) == 0 and _has_addresses(tensor.device)


def _address(tensor: torch.Tensor) -> int:
    return int(torch._C._data_address(tensor))  # type: ignore[attr-defined]


def _has_addresses(device: torch.device) -> bool:
    """Whether tensors of a device are somewhere. Those of a device written in Python are not."""
    known = _addressed.get(device.type)
    if known is None:
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            known = _address(torch.empty(1, device=device)) != 0
        _addressed[device.type] = known
    return known


def _received(tensor: Any) -> torch.Tensor:
    """The result of a collective, after waiting for it as any consumer does."""
    # Torch before 2.2 has a different method, which returns the tensor itself.
    (tensor.wait if hasattr(tensor, "wait") else tensor.trigger_wait)()
    received: torch.Tensor = tensor.elem
    return received


def in_captured_graph(tensor: torch.Tensor) -> bool:
    """Whether operations on a tensor are captured into a graph (CUDA's, or another device's) and not run."""
    kind = tensor.device.type
    if kind in ("cpu", "meta"):
        return False
    module: Any = getattr(torch, kind, None)
    is_capturing = getattr(module, "is_current_stream_capturing", None)
    if is_capturing is None:
        return False
    # It answers for the current device, which may not be that of the tensor.
    number, is_elsewhere = tensor.device.index, False
    if number is not None and hasattr(module, "device") and hasattr(module, "current_device"):
        is_elsewhere = module.current_device() != number
    with module.device(number) if is_elsewhere else contextlib.nullcontext():
        return bool(is_capturing())


def _has_no_elements(tensor: Any) -> bool:
    return bool(tensor.is_meta) or type(tensor).__name__ in ("FakeTensor", "FunctionalTensor")
