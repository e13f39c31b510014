"""Regions that torch.compile has compiled run as they would without capture: nothing is recorded inside.

Dynamo traces whatever it meets, function modes and wrappers included, and would compile another program than
the user's. So everything of ours is taken away at the door of a compiled region and put back behind it. The
door is the function by which dynamo switches itself on and off for a frame; the ledger counts how often it is
passed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from ulpscope._capture.patches import Patches

_NOTE = "a compiled region was entered: what runs inside it is not seen"


class CompiledRegions:
    """Watches the door."""

    def __init__(
        self, suspend: Callable[[], None], resume: Callable[[], None], note: Callable[[str], None]
    ) -> None:
        self._suspend, self._resume, self._note = suspend, resume, note
        self._patches = Patches()
        self._inside: list[FrameType] = []

    def install(self) -> None:
        """Watches from now on; dynamo, should it not be loaded yet, from when it is."""
        if "torch._dynamo.eval_frame" in sys.modules:
            self._add_door()
        else:
            compile_ = torch.compile

            def compile_and_watch(*args: Any, **kwargs: Any) -> Any:

                self._patches.remove()
                self._patches = Patches()
                self._add_door()
                self._patches.install()
                return compile_(*args, **kwargs)

            self._patches.add(torch, "compile", compile_and_watch)
        self._patches.install()

    def remove(self) -> None:
        """Watches no more."""
        self._patches.remove()
        self._patches = Patches()
        self._inside.clear()

    def _add_door(self) -> None:
        module = sys.modules["torch._dynamo.eval_frame"]
        for name in ("_maybe_set_eval_frame", "set_eval_frame"):
            original = getattr(module, name, None)
            if original is not None:
                self._patches.add(module, name, self._door(original))

    def _door(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def set_eval_frame(callback: Any) -> Any:
            frame = sys._getframe(1)
            if callable(callback):
                if not self._inside:
                    self._note(_NOTE)
                    self._suspend()
                    self._inside.append(frame)
            elif self._inside and self._inside[0] is frame:
                # Off again by the function that switched it on: the region is over.
                result = original(callback)
                self._inside.clear()
                self._resume()
                return result
            return original(callback)

        return set_eval_frame
