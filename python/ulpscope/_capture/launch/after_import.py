"""Calls a function as soon as a module has been imported, by any code."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Asking(threading.local):
    """Whether this thread is querying the other finders."""

    is_asking = False


class Waiting(MetaPathFinder):
    """Watches for the import of one module, and removes itself after it.

    A lookup such as ``importlib.util.find_spec`` is not an import yet.
    """

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self._name = name
        self._then = then
        self._thread = _Asking()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module as the other finders find it, with a loader that notifies us when it is done."""
        if fullname != self._name or self._thread.is_asking:
            return None
        self._thread.is_asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._thread.is_asking = False
        if spec is None or spec.loader is None:
            return None
        spec.loader = _TellingLoader(spec.loader, self._came)
        return spec

    def cancel(self) -> bool:
        """Stops waiting; returns whether it was still waiting."""
        if self not in sys.meta_path:
            return False
        sys.meta_path.remove(self)
        return True

    def _came(self) -> None:
        if self.cancel():
            self._then()


class _TellingLoader(Loader):
    """Wraps the original loader, and restores it before loading."""

    def __init__(self, loader: Loader, came: Callable[[], None]) -> None:
        self._loader = loader
        self._came = came

    def __getattr__(self, name: str) -> Any:
        # Other methods of loaders: for source, for files beside it.
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._came()


def after_import(name: str, then: Callable[[], None]) -> Waiting:
    """Calls ``then`` once, after the module ``name`` was imported; at once if it already is."""
    waiting = Waiting(name, then)
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, waiting)
    return waiting
