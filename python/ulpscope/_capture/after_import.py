"""Doing something as soon as a module has been imported, by whomever."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class Waiting(MetaPathFinder):
    """Watches for the import of one module; steps aside when it has come."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as the other finders find it, with a loader that tells us when it is done."""
        if fullname != self._name:
            return None
        self.cancel()
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        spec.loader = _TellingLoader(spec.loader, self._then)
        return spec

    def cancel(self) -> None:
        """Waits no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _TellingLoader(Loader):
    """Another's loader, which puts that one back before it loads."""

    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._then()


def after_import(name: str, then: Callable[[], None]) -> Waiting:
    """Calls ``then`` once, after the module ``name`` was imported: now, where it is already."""
    waiting = Waiting(name, then)
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, waiting)
    return waiting
