"""Names of the modules, parameters and buffers of a model, and which repeated layers are left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ulpscope._capture.settings import SettingsError

# Wrappers that only forward the call: the older tools do not show them.
_COMPILED = "OptimizedModule"
_UNSEEN = ("FullyShardedDataParallel", _COMPILED)


def roots_of(model: Any) -> list[tuple[str, torch.nn.Module]]:
    """The modules of a model with the prefixes of their names; several models are numbered."""
    if isinstance(model, torch.nn.Module):
        return [("Module.", model)]
    if isinstance(model, Sequence) and model and all(isinstance(one, torch.nn.Module) for one in model):
        return [(f"Module.{number}.", one) for number, one in enumerate(model)]
    expected = "expected a torch.nn.Module or a list of them"
    if isinstance(model, list | tuple):
        others = [one for one in model if not isinstance(one, torch.nn.Module)]
        what = f"has a {_class_of(others[0])} in it" if others else "is an empty list"
        raise SettingsError("model", f"{what}; {expected}")
    raise SettingsError("model", f"is a {_class_of(model)}; {expected}")


def _class_of(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def uncompiled(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside a compiled one, which has its parameters and names; any other is returned."""
    # By its name: the class is in dynamo, which loads slowly and may never be needed.
    inner = module._modules.get("_orig_mod") if type(module).__name__ == _COMPILED else None
    return module if inner is None else inner


def named_modules(prefix: str, root: torch.nn.Module) -> Iterator[tuple[str, str | None, torch.nn.Module]]:
    """Path, name in a dump if it has one, and module, for every module below the root."""
    for path, module in root.named_modules():
        if path:
            kind = type(module).__name__
            yield path, None if kind in _UNSEEN else f"{prefix}{path}.{kind}", module


def named_tensors(prefix: str, root: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a model, each with its name as the origin of a call's argument."""
    inner = prefix.removeprefix("Module.")
    for path, parameter in root.named_parameters():
        yield f"parameter:{inner}{path}", parameter
    for path, buffer in root.named_buffers():
        yield f"buffer:{inner}{path}", buffer


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
