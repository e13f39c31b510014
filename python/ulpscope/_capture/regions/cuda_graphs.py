"""CUDA graphs that are recorded: what they compute is written whenever they are replayed.

    capture_begin ──► the recorder notes calls apart, and measures their tensors by nodes of the graph
    capture_end   ──► CapturedGraph: kept as long as the graph
    replay        ──► the numbers of this replay are taken, and the calls are written in the current step

The nodes stay in the graph: torch has no way to take them out again. So graphs are recorded only if the user
asks for it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch
from ulpscope._core import CapturedGraph, Recorder

_NOT_RECORDED = (
    "a CUDA graph was captured and is not recorded: that needs a GPU on which Ulpscope's kernel measures, "
    "task statistics, device_statistics auto, no digest but mix64, and none of sample, scope, list, call and "
    "tensor_list"
)

_FAILED = "the capture of a CUDA graph failed: its calls are not recorded"


class CudaGraphs:
    """The graphs that a run has recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._captured: weakref.WeakKeyDictionary[Any, CapturedGraph] = weakref.WeakKeyDictionary()
        # The graph that is being captured.
        self._current: weakref.ref[Any] | None = None

    def add(self, patches: Patches, owner: Any, switch: Switch, count: Callable[[], None]) -> None:
        """Wraps captures and replays of a class of graphs; ``count`` counts a replay that is not recorded."""
        patches.add(owner, "capture_begin", self._begun(owner.capture_begin, switch))
        patches.add(owner, "capture_end", self._ended(owner.capture_end))
        patches.add(owner, "replay", self._replayed(owner.replay, switch, count))

    def _begun(self, original: Callable[..., Any], switch: Switch) -> Callable[..., Any]:
        @functools.wraps(original)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if not switch.is_on():
                return original(graph, *args, **kwargs)
            self._captured.pop(graph, None)
            device = torch.cuda.current_device()
            # It may compile the kernel, and no question may be asked once the capture has begun.
            is_prepared = self._recorder.prepare_for_graph(device)
            result = original(graph, *args, **kwargs)
            if is_prepared and self._recorder.begin_graph(device):
                self._current = weakref.ref(graph)
            else:
                self._recorder.note(_NOT_RECORDED)
            return result

        return capture_begin

    def _ended(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if self._current is None or self._current() is not graph:
                return original(graph, *args, **kwargs)
            self._current = None
            captured = self._recorder.end_graph()
            try:
                result = original(graph, *args, **kwargs)
            except BaseException:
                self._recorder.note(_FAILED)
                raise
            if captured is not None:
                self._captured[graph] = captured
            return result

        return capture_end

    def _replayed(
        self, original: Callable[..., Any], switch: Switch, count: Callable[[], None]
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def replay(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if not switch.is_on():
                return original(graph, *args, **kwargs)
            captured = self._captured.get(graph)
            if captured is None:
                count()
                return original(graph, *args, **kwargs)
            self._recorder.begin_replay(captured)
            result = original(graph, *args, **kwargs)
            if not self._recorder.end_replay(captured):
                count()
            return result

        return replay
