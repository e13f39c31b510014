"""Progress of a comparison on a cluster, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import TextIO

# Seconds between two lines: on a terminal, where a line takes the place of the one before, and elsewhere.
_ON_TERMINAL = 1.0
_IN_LOG = 30.0

# A unit that takes this many times the median, and at least so many seconds, is a straggler.
_MUCH_LONGER = 3.0
_NOTICEABLE = 10.0
_SHOWN_STRAGGLERS = 3


class Progress:
    """Counts finished units and their bytes, and says how long the rest will take."""

    def __init__(
        self,
        units: int,
        size: int,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._units, self._size = units, size
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._start = self._shown = clock()
        self._done = self._bytes = self._failed = 0
        # Label: when it was started, and where.
        self._running: dict[str, tuple[float, str]] = {}
        self._seconds: list[float] = []
        self._width = 0

    def started(self, label: str, node: str) -> None:
        """A unit was sent to a node."""
        self._running[label] = (self._clock(), node)

    def lost(self, label: str) -> None:
        """A unit must be sent again."""
        self._running.pop(label, None)

    def finished(self, label: str, size: int) -> None:
        """A unit was answered."""
        begun, _ = self._running.pop(label, (self._clock(), ""))
        self._seconds.append(self._clock() - begun)
        self._done += 1
        self._bytes += size

    def given_up(self, label: str) -> None:
        """A unit has no answer."""
        self._running.pop(label, None)
        self._failed += 1

    def stragglers(self) -> list[str]:
        """Units that have been running much longer than the others took, the longest first."""
        if not self._seconds:
            return []
        limit = max(_NOTICEABLE, _MUCH_LONGER * median(self._seconds))
        now = self._clock()
        late = [(now - begun, label, node) for label, (begun, node) in self._running.items()]
        late = sorted((one for one in late if one[0] > limit), reverse=True)
        return [f"{label} ({node}, {seconds:.0f} s)" for seconds, label, node in late]

    def line(self) -> str:
        """The state in one line."""
        seconds = max(self._clock() - self._start, 1e-9)
        parts = [f"{self._done} of {self._units} ranks", f"{self._bytes / 1e9 / seconds:.2f} GB/s"]
        if self._failed:
            parts.append(f"{self._failed} given up")
        left = self._left(seconds)
        if left is not None:
            parts.append(f"{_duration(left)} left")
        late = self.stragglers()
        if late:
            more = f" and {len(late) - _SHOWN_STRAGGLERS} more" if len(late) > _SHOWN_STRAGGLERS else ""
            parts.append(f"slow: {', '.join(late[:_SHOWN_STRAGGLERS])}{more}")
        return "comparing: " + ", ".join(parts)

    def show(self) -> None:
        """Shows the line if it is time."""
        on_terminal = self._stream.isatty()
        if self._clock() - self._shown < (_ON_TERMINAL if on_terminal else _IN_LOG):
            return
        self._shown = self._clock()
        line = self.line()
        if on_terminal:
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Clears the line of a terminal."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()

    def _left(self, seconds: float) -> float | None:
        open_units = self._units - self._done - self._failed
        if not self._done or open_units <= 0:
            return None
        if self._size and self._bytes:
            return seconds * max(self._size - self._bytes, 0) / self._bytes
        return seconds * open_units / self._done


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
