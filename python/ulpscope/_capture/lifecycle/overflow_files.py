"""The lines of overflows, a file for each rank: ranks learn from them that another has ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ulpscope._capture.lifecycle import ranks

# A line is short; a file of another program with this name is not read on.
_MAX_BYTES = 1 << 24

_imported_at = time.time()

# Folders that a check of this process has used.
_used: set[Path] = set()


class OverflowFiles:
    """``overflow_rank{R}.jsonl`` in a folder."""

    def __init__(self, folder: Path) -> None:
        """What an earlier run has left there, or an earlier check of this one, does not count.

        Another rank may have begun, and ended, before this one begins: that counts.
        """
        self._folder = folder
        since = time.time() if folder in _used else _process_began()
        self._earlier = {file: ended for file, ended in self._ended() if file.stat().st_mtime < since}
        _used.add(folder)

    def file(self, rank: int) -> Path:
        """The file of a rank."""
        return self._folder / f"overflow_rank{rank}.jsonl"

    def append(self, rank: int, line: dict[str, Any]) -> None:
        """Adds a line; its ``ended`` is what other ranks end with."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.file(rank).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def ended_elsewhere(self) -> str | None:
        """The message of another rank that has ended since this object was made."""
        own = self.file(ranks.current_rank() or 0)
        for file, ended in self._ended():
            if file != own and self._earlier.get(file) != ended:
                return ended
        return None

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines of all ranks that can be read, rank by rank."""
        for file in sorted(self._folder.glob("overflow_rank*.jsonl")):
            yield from _lines(file)

    def _ended(self) -> Iterator[tuple[Path, str]]:
        for file in sorted(self._folder.glob("overflow_rank*.jsonl")):
            found = [line for line in _lines(file) if "ended" in line]
            if found:
                yield file, f"{found[-1]['ended']} (rank {found[-1].get('rank')})"


def _process_began() -> float:
    """When this process began, as the time of a file; when this module was imported, if that is not known."""
    try:
        ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(line.split()[1] for line in lines if line.startswith("btime "))
        # The time of the boot is in whole seconds.
        return int(boot) + int(ticks) / os.sysconf("SC_CLK_TCK") - 1
    except (OSError, ValueError, IndexError, StopIteration):
        return _imported_at


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        with file.open(encoding="utf-8") as lines:
            # Another rank may be writing the last one.
            whole = [json.loads(line) for line in lines.read(_MAX_BYTES).splitlines() if line.endswith("}")]
    except (OSError, ValueError):
        return []
    return [line for line in whole if isinstance(line, dict)]
