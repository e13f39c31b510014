"""What happened to each unit, one JSON object to a line."""

from __future__ import annotations

import json
import time
from pathlib import Path


class EventLog:
    """``DIR/units/log.jsonl``; nothing without a folder of results."""

    def __init__(self, results: str | None) -> None:
        self._file = None if results is None else (Path(results) / "units" / "log.jsonl").open("a")

    def write(self, event: str, unit: str | None, node: str | None, why: str | None = None) -> None:
        """Adds a line."""
        if self._file is not None:
            fields = {"time": round(time.time(), 3), "event": event, "unit": unit, "node": node, "why": why}
            known = {name: value for name, value in fields.items() if value is not None}
            self._file.write(json.dumps(known) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Ends the log."""
        if self._file is not None:
            self._file.close()
