"""Loads and saves files as tensors of the user's framework."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any, Literal

from ulpscope import _core

if TYPE_CHECKING:
    import numpy
    import torch

Framework = Literal["torch", "numpy"]


def load(path: str | os.PathLike[str], framework: Framework | None = None, *, mmap: bool = False) -> Any:
    """Reads a tensor file: .npy, .npz, .pt, .safetensors, an ACL dump, a dump of torch_npu.hooks.

    Returns the contents of the file: a tensor, or a dictionary or list of tensors. Nothing in the file is
    executed. Parts that cannot be read become ``Unread`` objects, which give the reason; the rest is loaded.

    ``framework`` selects the type of tensors: "torch" (the default if torch is installed) or "numpy".

    Tensors are copied into memory. ``mmap=True`` maps the file instead if its layout allows: data is read
    only on use, and files may be larger than memory. Writing to such a tensor never changes the file. Do not
    shorten the file while the tensors are in use: the missing part then reads as zeros, and functions of
    ulpscope that read such a tensor raise ``FormatError``.
    """
    if framework is None:
        framework = "torch" if importlib.util.find_spec("torch") else "numpy"
    if framework not in ("torch", "numpy"):
        raise ValueError(f'framework is {framework!r}; expected "torch" or "numpy"')
    if importlib.util.find_spec(framework) is None:
        missing = "torch or numpy" if framework == "numpy" else framework
        raise ImportError(
            f"ulpscope.load needs {missing}, which is not installed: pip install {framework}; "
            "ulpscope.stats and ulpscope.diff read files without"
        )
    convert = to_torch if framework == "torch" else _to_numpy
    return _core.read_file(path, convert, mmap=mmap)


def save(path: str | os.PathLike[str], x: Any) -> None:
    """Writes a tensor, or a dictionary or list of tensors and plain values, in the format of the suffix.

    The file appears complete or not at all.
    """
    _core.write_file(path, x)


def to_torch(tensor: _core.FileTensor) -> torch.Tensor:
    import torch
    from torch.utils.dlpack import from_dlpack

    dtype = getattr(torch, tensor.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"this torch has no {tensor.dtype}; ulpscope.stats and ulpscope.diff read the file itself"
        )
    if 0 in tensor.shape:
        return torch.empty(tensor.shape, dtype=dtype)
    raw = from_dlpack(tensor)
    if not tensor.aligned:
        raw = raw.clone()
    return raw.view(dtype).as_strided(tensor.shape, tensor.strides)


def _to_numpy(tensor: _core.FileTensor) -> numpy.ndarray[Any, Any]:
    import numpy

    try:
        dtype = numpy.dtype(tensor.dtype)
    except TypeError:
        try:
            import ml_dtypes

            dtype = numpy.dtype(getattr(ml_dtypes, tensor.dtype))
        except (ImportError, AttributeError):
            raise TypeError(
                f"numpy has no {tensor.dtype}: install ml_dtypes, or load with framework='torch'"
            ) from None
    if 0 in tensor.shape:
        return numpy.empty(tensor.shape, dtype)
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    # The array interface keeps the file's memory alive through the array's base.
    raw = numpy.asarray(tensor)
    return numpy.ndarray(tensor.shape, dtype, buffer=raw.data, strides=strides)
