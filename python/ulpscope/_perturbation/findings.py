"""The findings of a run, in memory and in a csv file.

Ranks share the file: each appends whole lines under a lock. Whoever finds the file empty writes the header.
"""

from __future__ import annotations

import csv
import dataclasses
import fcntl
import io
import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path

_log = logging.getLogger("ulpscope.check")

# Findings that are kept in memory. All are in the file.
MAX_FINDINGS = 100_000


@dataclasses.dataclass(frozen=True)
class Finding:
    """A call whose output responded too strongly."""

    rank: int | None
    """None without a process group."""
    pert_mode: str
    """How the inputs were changed."""
    stage: str
    """``forward`` or ``backward``."""
    step: int
    """The iteration."""
    api_name: str
    """The call: ``Functional.linear.8.backward``."""
    max_rel: str
    """The largest relative change, or ``symbol_flipping``."""
    dtype: str
    """That of the output."""
    shape: str
    """That of the output."""
    output_index: int | None
    """The position of the output in a list or tuple."""
    cause: str = ""
    """What is wrong, in words; empty with the thresholds of the guide, which tell no cause."""

    def __str__(self) -> str:
        place = "" if self.output_index is None else f" (output {self.output_index})"
        text = self.cause or f"changes by {self.max_rel} under {self.pert_mode}"
        return f"step {self.step}: {self.api_name}{place}: {text}"


COLUMNS = tuple(field.name for field in dataclasses.fields(Finding) if field.name != "cause")


class Findings:
    """Collects findings; with a file, appends each as it is found."""

    def __init__(self, file: Path | None, with_cause: bool = False) -> None:
        self.found: list[Finding] = []
        self._file = file
        self._columns = (*COLUMNS, "cause") if with_cause else COLUMNS
        self._is_lost = False
        self._lock = threading.Lock()

    def add(self, finding: Finding) -> None:
        """Adds a finding."""
        with self._lock:
            if len(self.found) < MAX_FINDINGS:
                self.found.append(finding)
            if self._file is None:
                return
            values = [getattr(finding, name) for name in self._columns]
            try:
                append_row(self._file, self._columns, ["" if value is None else value for value in values])
            except OSError as error:
                # The program goes on, and the findings stay in memory.
                if not self._is_lost:
                    self._is_lost = True
                    _log.error("%s cannot be written: %s", self._file, error.strerror or error)


def append_row(path: Path, columns: Sequence[str], values: Sequence[object]) -> None:
    """Appends one line, after the header if the file is empty."""
    # A link in a shared folder could lead to any file of the user.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.open(path, flags, 0o640)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if os.fstat(file).st_size == 0:
            writer.writerow(columns)
        writer.writerow(values)
        _write_all(file, text.getvalue().encode())
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    start = os.fstat(file).st_size
    written = 0
    try:
        while written < len(data):
            written += os.write(file, data[written:])
    except OSError:
        # No part of a line: readers rely on whole ones.
        os.ftruncate(file, start)
        raise
