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

# Where each is defined; all other tracers call one of them. Those of torch.jit are named twice: the first use
# of torch.compile puts other functions in the public place, which call the originals without a look-up.
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
    ("torch.jit", "trace"),
    ("torch.jit", "trace_module"),
    ("torch.jit", "_get_trace_graph"),
    ("torch.fx.experimental.proxy_tensor", "dispatch_trace"),
]


class Tracers:
    """Suspends capture while a graph is made."""

    def __init__(
        self,
        patches: Patches,
        switch: Switch,
        suspended: Callable[[], AbstractContextManager[None]],
        note: Callable[[str], None],
    ) -> None:
        self._patches, self._switch, self._suspended, self._note = patches, switch, suspended, note
        # By their ids; patches keep them alive.
        self._wrapped: set[int] = set()

    def add(self) -> None:
        """Wraps every tracer; when repeated while capture is suspended, those that came in the meantime."""
        found = (getattr(sys.modules.get(module), name, None) for module, name in _TRACERS)
        tracers = {id(tracer): tracer for tracer in found if tracer is not None}
        new = [tracer for key, tracer in tracers.items() if key not in self._wrapped]
        self._patches.add_everywhere((tracer, self._aside(tracer)) for tracer in new)
        self._wrapped.update(tracers)
        symbolic = getattr(sys.modules.get("torch.fx._symbolic_trace"), "Tracer", None)
        if symbolic is not None and id(symbolic.trace) not in self._wrapped:
            self._wrapped.add(id(symbolic.trace))
            self._patches.add(symbolic, "trace", self._aside(symbolic.trace))

    def _aside(self, original: Callable[..., Any]) -> Callable[..., Any]:
        counts_frames = _counts_frames(original)
        switch, suspended, note = self._switch, self._suspended, self._note

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


def _counts_frames(tracer: Callable[..., Any]) -> bool:
    """Whether it looks up names in the frame of its caller, so many frames up."""
    # Its signature would say so, too, but takes long to make, in every step.
    code = getattr(inspect.unwrap(tracer), "__code__", None)
    return code is not None and "_frames_up" in code.co_varnames
