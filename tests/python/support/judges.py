"""Torch, numpy, safetensors and ml_dtypes as judges of the files that Ulpscope reads and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.torch
import torch

FLOATS_8 = [
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]
DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *FLOATS_8,
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.bool, torch.complex64, torch.complex128),
]
SUFFIXES = [".npy", ".npz", ".pt", ".safetensors"]


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    name = dtype_name(dtype)
    return np.dtype(getattr(ml_dtypes, name, name))


def tensor_of(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Every byte differs from its neighbours; floats have NaN, infinities and subnormals among them."""
    count = int(np.prod(shape))
    width = dtype.itemsize
    raw = torch.arange(1, count * width + 1, dtype=torch.int64).mul(37).remainder(256).to(torch.uint8)
    x = raw > 127 if dtype == torch.bool else raw.view(dtype)
    return x.reshape(shape)


def raw_bytes(x: torch.Tensor | np.ndarray[Any, Any]) -> bytes:
    if isinstance(x, np.ndarray):
        return x.tobytes()
    packed = x.detach().resolve_conj().resolve_neg().contiguous().flatten()
    return packed.view(torch.uint8).numpy().tobytes()


def assert_same(found: Any, expected: torch.Tensor) -> None:
    assert type(found) is torch.Tensor
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert raw_bytes(found) == raw_bytes(expected)


def theirs(path: Path, dtype: torch.dtype) -> torch.Tensor:
    """The one tensor of a file, as the format's own library reads it."""
    match path.suffix:
        case ".pt":
            return torch.load(path, weights_only=True)["x"]
        case ".safetensors" if dtype == torch.complex128:
            # The format has no such dtype: the values are pairs of doubles.
            return torch.view_as_complex(safetensors.torch.load_file(path)["x"])
        case ".safetensors":
            return safetensors.torch.load_file(path)["x"]
        case ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                array = arrays["x"]
        case _:
            array = np.load(path, allow_pickle=False)
    # What numpy has no dtype for, it reads as opaque bytes.
    if dtype not in (torch.bfloat16, *FLOATS_8):
        assert array.dtype == numpy_dtype(dtype)
    assert array.dtype.itemsize == dtype.itemsize
    raw = torch.tensor(list(array.tobytes()), dtype=torch.uint8)
    return raw.view(dtype).reshape(array.shape)


def save_theirs(path: Path, x: torch.Tensor) -> None:
    packed = x.contiguous()
    array = np.frombuffer(raw_bytes(x), dtype=numpy_dtype(x.dtype)).reshape(x.shape)
    match path.suffix:
        case ".pt":
            torch.save({"x": x}, path)
        case ".safetensors":
            safetensors.torch.save_file({"x": packed}, path)
        case ".npz":
            np.savez(path, x=array)
        case _:
            np.save(path, array)


def named(path: Path, value: Any) -> Any:
    """An .npy file holds one array without a name; the others hold it under one."""
    return value if path.suffix == ".npy" else value["x"]


def assert_same_tree(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert_same(found.detach().as_subclass(torch.Tensor), expected.detach())
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_same_tree(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert (type(found), len(found)) == (type(expected), len(expected))
        for pair in zip(found, expected, strict=True):
            assert_same_tree(*pair)
    else:
        assert (type(found), found) == (type(expected), expected)
