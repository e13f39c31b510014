"""What a dump says about its calls: in which module each runs, and which source line made it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

FRAME = re.compile(r"^File (?P<file>.+), line (?P<line>\d+), in ")
MODULE = re.compile(r"^Module\.(?P<path>.+)\.[^.]+\.(forward|backward)\.\d+$")
# Frames of torch stand between a line of a model and the call that it makes.
TORCH = re.compile(r"/site-packages/torch/|/ulpscope/")


def module_path(call: str | None) -> str | None:
    """`Module.model.norm.LayerNorm.forward.0` is `model.norm`; None for the calls of functions."""
    found = MODULE.match(call or "")
    return found["path"] if found else None


def forward_name(call: str) -> str:
    """The forward call that a backward call belongs to."""
    if call.endswith(".backward"):
        return call.removesuffix("backward") + "forward"
    return re.sub(r"\.backward\.(\d+)$", r".forward.\1", call)


@dataclass(frozen=True)
class Dump:
    """The documents of one step of one process."""

    folder: Path

    def _read(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())

    @cached_property
    def modules(self) -> dict[str, str | None]:
        """The module call that each call runs in."""
        found = self._read("construct.json")
        return {call: parent[0] if isinstance(parent, list) else parent for call, parent in found.items()}

    @cached_property
    def lines(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """The source lines of each forward call within the module that makes it, innermost first.

        These are the frames outside torch up to the call of the module: a line of its `forward`, and those of
        the functions that it calls.
        """
        found: dict[str, tuple[tuple[str, int], ...]] = {}
        for calls, frames in self._read("stack.json").values():
            own: list[tuple[str, int]] = []
            for frame in frames:
                match = FRAME.match(frame)
                if match and not TORCH.search(match["file"]):
                    own.append((match["file"], int(match["line"])))
                elif own:
                    break
            found.update(dict.fromkeys(calls, tuple(own)))
        return found

    def module_of(self, call: str) -> str | None:
        """The path of the module that a call runs in; for the call of a module, its own path."""
        return module_path(call) or module_path(
            self.modules.get(call) or self.modules.get(forward_name(call))
        )


def only_dump(folder: Path) -> Dump:
    """The dump of the one step and process below a folder."""
    found = sorted(folder.rglob("construct.json"))
    if len(found) != 1:
        raise FileNotFoundError(f"{folder}: expected one dump, found {len(found)}")
    return Dump(found[0].parent)
