"""Reads a ``support_wrap_ops.yaml``: msprobe's list of the functions that are recorded, by category."""

from __future__ import annotations

from pathlib import Path

from ulpscope._capture.settings import named_lists
from ulpscope._capture.settings.settings import SettingsError

PREFIXES = {
    "functional": "Functional",
    "tensor": "Tensor",
    "torch": "Torch",
    "_VF": "VF",
    "aten": "Aten",
    "torch_npu": "NPU",
    "distributed": "Distributed",
    "npu_distributed": "Distributed",
    "mindspeed": "MindSpeed",
}
"""The categories, and the first part of the names of their calls."""


def read(path: Path) -> tuple[str, ...]:
    """The functions of a file as prefix and name, in its order."""
    found = named_lists.read(path, PREFIXES, "category", r"[\w.]+")
    if not found:
        raise SettingsError(str(path), "lists no function: nothing would be recorded")
    return tuple(dict.fromkeys(f"{PREFIXES[category]}.{function}" for category, function in found))
