"""Tracers run a model to turn it into a graph, not to compute results.

``torch.export``, ``torch.jit`` and ``torch.fx`` must see the model alone, so capture is suspended while they
trace. The ledger says so.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch

_NOTE = "a model was traced or exported: what runs meanwhile is not seen"

# Where each is defined. All other tracers call one of them.
_TRACERS = [
    ("torch.export", "export"),
    ("torch.export", "export_for_training"),
    ("torch.export", "draft_export"),
    ("torch.export._trace", "_export"),
    ("torch.export._trace", "_export_for_training"),
    ("torch.jit._trace", "trace"),
    ("torch.jit._trace", "trace_module"),
    ("torch.jit._trace", "_get_trace_graph"),
    ("torch.jit._script", "script"),
    ("torch.fx.experimental.proxy_tensor", "dispatch_trace"),
]


def add_tracers(
    patches: Patches,
    switch: Switch,
    suspended: Callable[[], AbstractContextManager[None]],
    note: Callable[[str], None],
) -> None:
    """Suspends capture while a graph is made."""
    originals = [
        original
        for module, name in _TRACERS
        if (original := getattr(sys.modules.get(module), name, None)) is not None
    ]
    patches.add_everywhere((original, _aside(original, switch, suspended, note)) for original in originals)
    tracer = getattr(sys.modules.get("torch.fx._symbolic_trace"), "Tracer", None)
    if tracer is not None:
        patches.add(tracer, "trace", _aside(tracer.trace, switch, suspended, note))


def _aside(
    original: Callable[..., Any],
    switch: Switch,
    suspended: Callable[[], AbstractContextManager[None]],
    note: Callable[[str], None],
) -> Callable[..., Any]:
    # It looks up names in the frame of its caller, this many frames up.
    counts_frames = "_frames_up" in inspect.signature(original).parameters

    @functools.wraps(original)
    def trace(*args: Any, **kwargs: Any) -> Any:
        if counts_frames:
            kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
        if not switch.is_on():
            return original(*args, **kwargs)
        note(_NOTE)
        with suspended():
            return original(*args, **kwargs)

    return trace
