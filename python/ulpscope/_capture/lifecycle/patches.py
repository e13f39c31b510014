"""Attributes of other modules that are replaced while calls are recorded, and put back afterwards.

What the program itself has put in the place of ours meanwhile is the program's, and stays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
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
        for key, module, names in self._changed():
            for name, value in list(names.items()):
                if id(value) in self._wanted:
                    self._found.setdefault(id(value), {})[id(module), name] = module, name
            self._sizes[key] = id(module), len(names)
        self._modules = len(sys.modules)
        return [self._holders(function) for function in functions]

    def newer(self, functions: dict[int, Any]) -> Iterator[tuple[Any, str, Any]]:
        """Modules and names that have got one of the functions since ``of`` was asked, by their ids."""
        for _, module, names in list(self._changed()):
            for name, value in list(names.items()):
                if id(value) in functions:
                    yield module, name, value

    def _changed(self) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Modules that are new, or have got more or fewer names."""
        keys = ["__main__"] if self._modules == len(sys.modules) else list(sys.modules)
        for key in keys:
            module = sys.modules.get(key)
            # Not every entry is a module with a dictionary of names.
            names = getattr(module, "__dict__", None)
            if isinstance(names, dict) and self._sizes.get(key) != (id(module), len(names)):
                yield key, module, names

    def _holders(self, function: Any) -> list[tuple[Any, str]]:
        found = self._found.get(id(function), {}).values()
        return [(module, name) for module, name in found if vars(module).get(name) is function]


_holders = _Holders()


class Patches:
    """What was replaced, and by what. Every ``install`` is undone by ``remove``, in the opposite order."""

    def __init__(self) -> None:
        self._wanted: list[tuple[Any, str, Any]] = []
        # With what was there before the first install; what a class inherits is not its own.
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._everywhere: dict[int, tuple[Any, Any]] = {}

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
        self._everywhere.update((id(new), (new, old)) for old, new in wanted)
        for (old, new), holders in zip(wanted, _holders.of([old for old, _ in wanted]), strict=True):
            for module, name in holders:
                if besides is None or not besides(module, old):
                    self.add(module, name, new)

    def install(self) -> None:
        """Replaces everything that was added; again, where it is as it was found the first time."""
        for owner, name, replacement, original in self._replaced:
            if _own(owner, name) is original:
                setattr(owner, name, replacement)
        for owner, name, replacement in self._wanted[len(self._replaced) :]:
            original = _own(owner, name)
            setattr(owner, name, replacement)
            self._replaced.append((owner, name, replacement, original))

    def remove(self) -> None:
        """Puts everything back that is still there."""
        for owner, name, replacement, original in reversed(self._replaced):
            if _own(owner, name) is not replacement:
                continue
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)

    def recall(self) -> None:
        """Takes replacements back from modules that were imported meanwhile, and took them along."""
        for module, name, new in _holders.newer(self._everywhere):
            setattr(module, name, self._everywhere[id(new)][1])

    def taken_over(self) -> list[str]:
        """The places where the program has put something of its own instead, in order."""
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
