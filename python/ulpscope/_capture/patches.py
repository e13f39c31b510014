"""Attributes of other modules that are replaced while calls are recorded, and put back afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

_ABSENT: Any = object()


class _Holders:
    """Which modules have a function, and under which names.

    Looking through all of them takes long: they are looked through again when there are more or fewer of
    them, and the program's own whenever it has got more or fewer names.
    """

    def __init__(self) -> None:
        self._wanted: dict[int, Any] = {}
        self._found: dict[int, dict[tuple[int, str], tuple[Any, str]]] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._modules = 0

    def of(self, functions: list[Any]) -> list[list[tuple[Any, str]]]:
        """For each function the modules and names, in a known order."""
        if any(id(function) not in self._wanted for function in functions):
            self._wanted.update((id(function), function) for function in functions)
            self._sizes.clear()
            self._modules = 0
        keys = ["__main__"] if self._modules == len(sys.modules) else list(sys.modules)
        self._modules = len(sys.modules)
        for key in keys:
            module = sys.modules.get(key)
            # Not every entry is a module with a dictionary of names.
            names = getattr(module, "__dict__", None)
            if isinstance(names, dict) and self._sizes.get(key) != (id(module), len(names)):
                self._look_through(module, names)
                self._sizes[key] = id(module), len(names)
        return [self._holders(function) for function in functions]

    def _look_through(self, module: Any, names: dict[str, Any]) -> None:
        for name, value in list(names.items()):
            if id(value) in self._wanted:
                self._found.setdefault(id(value), {})[id(module), name] = module, name

    def _holders(self, function: Any) -> list[tuple[Any, str]]:
        found = self._found.get(id(function), {}).values()
        return [(module, name) for module, name in found if vars(module).get(name) is function]


_holders = _Holders()


class Patches:
    """What was replaced, and by what. Every ``install`` is undone by ``remove``, in the opposite order."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Any]] = []
        self._replaced: list[tuple[Any, str, Any]] = []

    def add(self, owner: Any, name: str, replacement: Any) -> None:
        """Has ``owner.name`` replaced from the next ``install`` on."""
        self._wanted.append((owner, name, replacement))

    def standing(self, owner: Any, name: str) -> Any:
        """What will be ``owner.name`` with everything added so far, for a replacement that calls it."""
        added = [new for one, other, new in self._wanted if one is owner and other == name]
        return added[-1] if added else getattr(owner, name)

    def add_everywhere(
        self, replacements: Iterable[tuple[Any, Any]], besides: Callable[[Any, Any], bool] | None = None
    ) -> None:
        """Has functions replaced in every module that has them, under any name: ``from m import f as g``.

        ``replacements`` are pairs of old and new; ``besides(module, old)`` tells where the old one stays.
        """
        wanted = list(replacements)
        for (old, new), holders in zip(wanted, _holders.of([old for old, _ in wanted]), strict=True):
            for module, name in holders:
                if besides is None or not besides(module, old):
                    self.add(module, name, new)

    def install(self) -> None:
        """Replaces everything that was added."""
        for owner, name, replacement in self._wanted:
            # What a class inherits is not its own: it is put back by being taken away.
            original = vars(owner).get(name, _ABSENT)
            setattr(owner, name, replacement)
            self._replaced.append((owner, name, original))

    def remove(self) -> None:
        """Puts everything back."""
        while self._replaced:
            owner, name, original = self._replaced.pop()
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
