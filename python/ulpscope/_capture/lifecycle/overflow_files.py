"""The lines of overflows, a file for each rank: ranks learn from them that another has ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ulpscope._capture.lifecycle import ranks

# A line is short. Longer ones are of another program, and left out.
_MAX_LINE = 1 << 20

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
        self._read: dict[Path, _Read] = {}
        since = time.time() if folder in _used else _process_began()
        for file, _ in self._ended():
            if file.stat().st_mtime < since:
                self._read[file].ended = None
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
            if file != own:
                return ended
        return None

    def lines(self) -> Iterator[dict[str, Any]]:
        """The lines of all ranks that can be read, rank by rank."""
        for file in sorted(self._folder.glob("overflow_rank*.jsonl")):
            yield from _Read(file).further_lines()

    def _ended(self) -> Iterator[tuple[Path, str]]:
        for file in sorted(self._folder.glob("overflow_rank*.jsonl")):
            read = self._read.setdefault(file, _Read(file))
            for line in read.further_lines():
                if "ended" in line:
                    read.ended = f"{line['ended']} (rank {line.get('rank')})"
            if read.ended is not None:
                yield file, read.ended


class _Read:
    """How far a file has been read: each look reads only what was added since."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._offset = 0
        self.ended: str | None = None

    def further_lines(self) -> Iterator[dict[str, Any]]:
        """The lines since the last time. Those that are no object of JSON are left out."""
        # A pipe or a device has no end.
        if not self._file.is_file():
            return
        try:
            with self._file.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:
                    # It was begun again.
                    self._offset, self.ended = 0, None
                file.seek(self._offset)
                while text := file.readline(_MAX_LINE):
                    # Another rank may be writing the last one.
                    if not text.endswith(b"\n") and len(text) < _MAX_LINE:
                        return
                    self._offset += len(text)
                    line = _parsed(text)
                    if line is not None:
                        yield line
        except OSError:
            return


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


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
