"""Kernels of torch's operators that Python code has registered."""

from __future__ import annotations

import torch

# For tensors without elements, and for devices that the recorder's own kernel does not measure.
_HARMLESS = ("/Meta", "/MPS")


def has_replaced() -> bool:
    """Whether one may run instead of torch's, and write to arguments that the operator only reads."""
    registered = getattr(torch.library, "_impls", ())
    return any(name.startswith(("aten/", "_/")) and not name.endswith(_HARMLESS) for name in registered)
