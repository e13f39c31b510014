"""Which calls are recorded: by patterns over call names and module paths, and by a list of functions."""

from __future__ import annotations

from collections.abc import Callable

from ulpscope._capture.settings import Settings
from ulpscope._capture.settings.patterns import Patterns


class Selection:
    """The patterns of one run, and which of them have matched nothing."""

    def __init__(self, settings: Settings) -> None:
        self.modules = Patterns(settings.module)
        self._calls = Patterns(settings.call, of_calls=True)
        self._apis = frozenset(settings.apis)
        self._has_reported_modules = False

    @property
    def wants_call(self) -> Callable[[str], bool] | None:
        """A predicate over names of forward calls; None if all are wanted."""
        if not self._apis:
            return self._calls.matches if self._calls else None
        return self._is_listed_and_matches if self._calls else self._is_listed

    def _is_listed(self, name: str) -> bool:
        # Functions are named {Prefix}.{function}.{number}.forward; modules are no functions.
        return name.startswith("Module.") or name.rsplit(".", 2)[0] in self._apis

    def _is_listed_and_matches(self, name: str) -> bool:
        return self._is_listed(name) and self._calls.matches(name)

    def take_notes(self) -> list[str]:
        """Notes for the end of a step: patterns that matched nothing, if there were names to match."""
        notes = [
            f"call: {pattern!r} matches no call of this step{self._calls.hint(pattern)}"
            for pattern in self._calls.unmatched()
        ]
        self._calls.forget()
        # Modules are named once, and keep their names in later steps.
        if self.modules.was_asked and not self._has_reported_modules:
            self._has_reported_modules = True
            notes += [
                f"module: {pattern!r} matches no module of the model: nothing is recorded for it"
                f"{self.modules.hint(pattern)}"
                for pattern in self.modules.unmatched()
            ]
        return notes
