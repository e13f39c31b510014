"""Notices changes of config.json while the program runs, without disk access at every step."""

from __future__ import annotations

import time
from pathlib import Path

# The older tools' intervals. While nothing is recorded, the check would be the only cost of a step.
SECONDS_WHEN_RECORDING = 0.5
SECONDS_WHEN_OFF = 3.0


class ConfigWatch:
    """Tells whether a file has changed since the last check."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = self._signature()
        self._looked_at = time.monotonic()

    def has_changed(self, recording: bool) -> bool:
        """Whether the file changed since the last reported change; checks at most once per interval."""
        now = time.monotonic()
        if now - self._looked_at < (SECONDS_WHEN_RECORDING if recording else SECONDS_WHEN_OFF):
            return False
        self._looked_at = now
        signature = self._signature()
        # A file that is briefly missing is being replaced.
        if signature is None or signature == self._seen:
            return False
        self._seen = signature
        return True

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            stat = self.path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
