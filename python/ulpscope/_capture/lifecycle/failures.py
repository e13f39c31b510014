"""Handles our own errors in Python, outside of the recorder: they are reported, and the run continues."""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger("ulpscope")


class Failures:
    """Keeps our errors from the program; the ledger counts them, and the log has each once."""

    def __init__(self, note: Callable[[str], None], strict: bool) -> None:
        self._note = note
        self._strict = strict
        self._told: set[str] = set()

    def hold_back(self, what: str, error: Exception) -> None:
        """Reports a failure; raises it if the user asked for that."""
        if self._strict:
            raise error
        text = f"{what}: {type(error).__name__}: {error}"
        self._note(text)
        if text not in self._told:
            self._told.add(text)
            _log.warning("could not record %s; the run goes on", text)
