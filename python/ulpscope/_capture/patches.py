"""Attributes of other modules that are replaced while calls are recorded, and put back afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

_ABSENT: Any = object()


class Patches:
    """What was replaced, and by what. Every ``install`` is undone by ``remove``, in the opposite order."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Any]] = []
        self._replaced: list[tuple[Any, str, Any]] = []

    def add(self, owner: Any, name: str, replacement: Any) -> None:
        """Has ``owner.name`` replaced from the next ``install`` on."""
        self._wanted.append((owner, name, replacement))

    def add_everywhere(
        self, replacements: Iterable[tuple[Any, Any]], besides: Callable[[Any, Any], bool] | None = None
    ) -> None:
        """Has functions replaced in every module that has them, under whatever name: ``from m import f as g``.

        ``replacements`` are pairs of old and new; ``besides(module, old)`` tells where the old one stays.
        """
        wanted = {id(old): (old, new) for old, new in replacements}
        for module in list(dict.fromkeys(sys.modules.values())):
            # Not every entry is a module with a dictionary of names.
            names = getattr(module, "__dict__", None)
            if not isinstance(names, dict):
                continue
            for name, value in list(names.items()):
                found = wanted.get(id(value))
                if found is not None and not (besides is not None and besides(module, found[0])):
                    self.add(module, name, found[1])

    def discard(self, owner: Any, name: str) -> None:
        """Has ``owner.name`` left alone from the next ``install`` on."""
        self._wanted = [wanted for wanted in self._wanted if wanted[:2] != (owner, name)]

    @property
    def installed(self) -> bool:
        """Whether anything is replaced now."""
        return bool(self._replaced)

    def install(self) -> None:
        """Replaces everything that was added."""
        for owner, name, replacement in self._wanted:
            # What a class inherits is not its own: it is put back by being taken away.
            self._replaced.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, replacement)

    def remove(self) -> None:
        """Puts everything back."""
        while self._replaced:
            owner, name, original = self._replaced.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
