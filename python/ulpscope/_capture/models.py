"""What modules, parameters and buffers of a model are called, and which repeated layers are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ulpscope._core import Recorder

# Wrappers that only hand on: the older tools do not show them.
_UNSEEN = ("FullyShardedDataParallel",)


def roots_of(model: Any) -> list[tuple[str, torch.nn.Module]]:
    """The modules of a model with the beginnings of their names; several models are numbered."""
    if isinstance(model, torch.nn.Module):
        return [("Module.", model)]
    if isinstance(model, Sequence) and model and all(isinstance(one, torch.nn.Module) for one in model):
        return [(f"Module.{number}.", one) for number, one in enumerate(model)]
    found = f"{type(model).__module__}.{type(model).__qualname__}"
    raise TypeError(f"model: expected a torch.nn.Module or a list of them, found {found}")


def named_modules(prefix: str, root: torch.nn.Module) -> Iterator[tuple[str, str, torch.nn.Module]]:
    """Path, name in a dump, and module, for every module below the root, which has none of its own."""
    for path, module in root.named_modules():
        if path and type(module).__name__ not in _UNSEEN:
            yield path, f"{prefix}{path}.{type(module).__name__}", module


def add_model(recorder: Recorder, prefix: str, root: torch.nn.Module, layers: str) -> None:
    """Tells the recorder what the parts of a model are called."""
    left_out = left_out_layers(root, layers)
    for path, name, module in named_modules(prefix, root):
        recorder.add_module(module, name, path in left_out)
    inner = prefix.removeprefix("Module.")
    for path, parameter in root.named_parameters():
        recorder.add_origin(parameter, f"parameter:{inner}{path}")
    for path, buffer in root.named_buffers():
        recorder.add_origin(buffer, f"buffer:{inner}{path}")


def left_out_layers(root: torch.nn.Module, layers: str) -> set[str]:
    """Paths of numbered layers that are not the first (or last) of their kind among their neighbours."""
    if layers == "all":
        return set()
    kinds: dict[tuple[str, type], list[str]] = {}
    for path, module in root.named_modules():
        parent, _, last = path.rpartition(".")
        if re.fullmatch(r"\d+", last):
            kinds.setdefault((parent, type(module)), []).append(path)
    kept = 0 if layers == "first" else -1
    return {path for paths in kinds.values() for path in paths if path != paths[kept]}
