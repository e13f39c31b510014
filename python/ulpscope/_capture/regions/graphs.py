"""Replays of captured graphs (CUDA graphs, and those of other devices).

A replay runs everything that was captured, and calls no function of torch. CUDA graphs are recorded if the
user asks for it (``cuda_graphs.py``); all other replays are counted in the ledger.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch
from ulpscope._capture.regions.cuda_graphs import CudaGraphs

_NOTE = "a captured graph was replayed: what runs inside it is not seen"

# Modules of torch that may have a class of graphs, besides that of a device of its own.
_DEVICES = ("accelerator", "cuda", "npu", "xpu", "musa", "mlu")

# What makes a class one of graphs.
_METHODS = ("capture_begin", "capture_end", "replay")


def add_graphs(
    patches: Patches, switch: Switch, note: Callable[[str], None], recorded: CudaGraphs | None = None
) -> None:
    """Wraps the replay of every class of graphs, and the captures of those that are recorded."""
    for owner in _graph_classes():
        if recorded is not None and owner is vars(torch.cuda).get("CUDAGraph"):
            recorded.add(patches, owner, switch, lambda: note(_NOTE))
        else:
            patches.add(owner, "replay", _counted(owner.replay, switch, note))


def _graph_classes() -> Iterator[Any]:
    own_device = torch._C._get_privateuse1_backend_name()
    found: dict[int, Any] = {}
    for kind in dict.fromkeys([*_DEVICES, own_device]):
        # Only what is loaded: a look-up may import a module.
        module = vars(torch).get(kind)
        for value in list(getattr(module, "__dict__", {}).values()):
            if inspect.isclass(value) and all(callable(getattr(value, name, None)) for name in _METHODS):
                found[id(value)] = value
    yield from found.values()


def _counted(original: Callable[..., Any], switch: Switch, note: Callable[[str], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def replay(*args: Any, **kwargs: Any) -> Any:
        if switch.is_on():
            note(_NOTE)
        return original(*args, **kwargs)

    return replay
