"""What is compared of two runs: the bytes of every tensor, and everything torch tells about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def raw_bytes(tensor: Tensor) -> bytes:
    """The elements as they lie in memory, so that NaN payloads and the sign of zero count."""
    plain = tensor.detach().cpu().as_subclass(Tensor)
    plain = plain.resolve_conj().resolve_neg().contiguous()
    if plain.is_inference():
        plain = plain.clone()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def describe(tensor: Tensor) -> dict[str, Any]:
    """A tensor's elements and traits. The version tells whether somebody wrote to it."""
    if tensor.is_nested or tensor.layout in (torch.sparse_coo, torch.sparse_csr):
        if tensor.layout == torch.sparse_coo:
            plain = tensor.detach()
            parts = [plain._indices(), plain._values()]
            traits: Any = plain.is_coalesced()
        else:
            parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values().detach()]
            traits = None
        elements: Any = [fingerprint(part) for part in parts] + [traits]
    else:
        elements = (tuple(tensor.stride()), tensor.storage_offset(), raw_bytes(tensor))
    return {
        "type": type(tensor).__name__,
        "dtype": str(tensor.dtype),
        "shape": tuple(tensor.shape),
        "requires_grad": tensor.requires_grad,
        "leaf": tensor.is_leaf,
        "made by": type(tensor.grad_fn).__name__,
        "version": None if tensor.is_inference() else tensor._version,
        "elements": elements,
    }


def fingerprint(value: Any) -> Any:
    """The same structure with every tensor described."""
    if isinstance(value, Tensor):
        return describe(value)
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return {key: fingerprint(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [fingerprint(part) for part in value]
    if dataclasses.is_dataclass(value):
        return fingerprint({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, int | str | bytes):
        return value
    raise TypeError(f"a program returned a {type(value)}, which cannot be compared")


def changed(alone: Any, watched: Any, level: str) -> list[str]:
    """Where a run under capture differs from the program without it.

    Under any dispatch mode, and L2 needs one, torch sums gradients into new tensors instead of in place: the
    same bits, but another number of writes.
    """
    return [line for line in differences(alone, watched) if level != "L2" or ".version: " not in line]


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two fingerprints differ, in words."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif one != other:
        yield f"{path}: {str(one)[:100]} became {str(other)[:100]}"
