"""Attributes of other modules that are replaced while calls are recorded, and restored afterwards.

If the program replaces ours in the meantime, the program's value stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_ABSENT: Any = object()


class _Holders:
    """Which modules have a function, and under which names.

    A full search is slow. It is repeated when modules were added or removed, and for the program's own
    modules when their number of names changes.
    """

    def __init__(self) -> None:
        self._wanted: dict[int, Any] = {}
        self._found: dict[int, dict[tuple[int, str], tuple[Any, str]]] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._modules: tuple[int, int] | None = None

    def of(self, functions: list[Any]) -> list[list[tuple[Any, str]]]:
        """For each function the modules and names, in a fixed order."""
        if any(id(function) not in self._wanted for function in functions):
            self._wanted.update((id(function), function) for function in functions)
            self._sizes.clear()
            self._modules = None
        for key, module, names in self._changed():
            for name, value in list(names.items()):
                if id(value) in self._wanted:
                    self._found.setdefault(id(value), {})[id(module), name] = module, name
            self._sizes[key] = id(module), len(names)
        self._modules = _modules_state()
        return [self._holders(function) for function in functions]

    def newer(self, functions: dict[int, Any]) -> Iterator[tuple[Any, str, Any]]:
        """Modules and names that have got one of the functions since ``of`` was called, by their ids."""
        if not functions:
            return
        for _, module, names in list(self._changed()):
            for name, value in list(names.items()):
                if id(value) in functions:
                    yield module, name, value

    def _changed(self) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Modules that are new, or whose number of names changed."""
        keys = ["__main__"] if self._modules == _modules_state() else list(sys.modules)
        for key in keys:
            module = sys.modules.get(key)
            # Not every entry is a module with a dictionary of names.
            names = getattr(module, "__dict__", None)
            if isinstance(names, dict) and self._sizes.get(key) != (id(module), len(names)):
                yield key, module, names

    def _holders(self, function: Any) -> list[tuple[Any, str]]:
        found = self._found.get(id(function), {}).values()
        return [(module, name) for module, name in found if vars(module).get(name) is function]


def _modules_state() -> tuple[int, int]:
    """Changes when a module is added or removed: a new one is the last of the dictionary."""
    return len(sys.modules), id(sys.modules[next(reversed(sys.modules))])


_holders = _Holders()


class Patches:
    """Replacements. ``remove`` undoes every ``install``, in reverse order."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Any]] = []
        # With the value before the first install; an inherited attribute is not the class's own.
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._everywhere: dict[int, tuple[Any, Any]] = {}
        # Modules that imported a replacement, as far as they were searched.
        self._imported: list[tuple[Any, str, Any]] = []

    def add(self, owner: Any, name: str, replacement: Any) -> None:
        """Replaces ``owner.name`` from the next ``install`` on."""
        self._wanted.append((owner, name, replacement))

    def standing(self, owner: Any, name: str) -> Any:
        """The value of ``owner.name`` after everything added so far, for a replacement that calls it."""
        added = [new for one, other, new in self._wanted if one is owner and other == name]
        return added[-1] if added else getattr(owner, name)

    def add_everywhere(
        self, replacements: Iterable[tuple[Any, Any]], besides: Callable[[Any, Any], bool] | None = None
    ) -> None:
        """Replaces functions in every module that has them, under any name: ``from m import f as g``.

        ``replacements`` are pairs of old and new; where ``besides(module, old)`` is true the old one stays.
        """
        wanted = list(replacements)
        self._imported.extend(_holders.newer(self._everywhere))
        self._everywhere.update((id(new), (new, old)) for old, new in wanted)
        for (old, new), holders in zip(wanted, _holders.of([old for old, _ in wanted]), strict=True):
            for module, name in holders:
                if besides is None or not besides(module, old):
                    self.add(module, name, new)

    def install(self) -> None:
        """Makes all replacements; when repeated, only where the original value is still there."""
        for owner, name, replacement, original in self._replaced:
            if _own(owner, name) is original:
                setattr(owner, name, replacement)
        for owner, name, replacement in self._wanted[len(self._replaced) :]:
            original = _own(owner, name)
            setattr(owner, name, replacement)
            self._replaced.append((owner, name, replacement, original))

    def remove(self) -> None:
        """Restores everything that still has our replacement."""
        for owner, name, replacement, original in reversed(self._replaced):
            if _own(owner, name) is not replacement:
                continue
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def recall(self) -> None:
        """Restores the originals in modules that imported a replacement in the meantime."""
        for module, name, new in [*self._imported, *_holders.newer(self._everywhere)]:
            if _own(module, name) is new:
                setattr(module, name, self._everywhere[id(new)][1])

    def taken_over(self) -> list[str]:
        """The places where the program has replaced ours with its own, in order."""
        known = {id(value) for _, _, *values in self._replaced for value in values} | {id(_ABSENT)}
        return sorted(
            {_place(owner, name) for owner, name, *_ in self._replaced if id(_own(owner, name)) not in known}
        )


def _own(owner: Any, name: str) -> Any:
    return vars(owner).get(name, _ABSENT)


def _place(owner: Any, name: str) -> str:
    if isinstance(owner, type):
        return f"{owner.__module__}.{owner.__qualname__}.{name}"
    return f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"
