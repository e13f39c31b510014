"""Edits a library's source as it is imported: the way a port gets its bugs.

The file on disk stays as it is, and no bytecode is cached. Since an edit keeps the number of lines, the
recorded stacks show where it is.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ports.runs import Edit

# A file, its first and its last edited line.
Span = tuple[str, int, int]


class EditError(ValueError):
    """An edit that cannot be made: the library has a different source."""


def edited(source: str, edit: Edit, path: str) -> tuple[str, Span]:
    """The source with one edit, and the lines that it changed."""
    start = -1
    for _ in range(edit.nth + 1):
        start = source.find(edit.old, start + 1)
        if start < 0:
            raise EditError(f"{path}: expected occurrence {edit.nth} of {edit.old!r}, found fewer")
    if edit.old.count("\n") != edit.new.count("\n"):
        raise EditError(f"{path}: the replacement of {edit.old!r} has a different number of lines")
    before = source[:start]
    pairs = list(zip(edit.old.split("\n"), edit.new.split("\n"), strict=True))
    changed = [number for number, (old, new) in enumerate(pairs) if old != new]
    if not changed:
        raise EditError(f"{path}: the replacement of {edit.old!r} changes nothing")
    line = before.count("\n") + 1
    span = (path, line + changed[0], line + changed[-1])
    return before + edit.new + source[start + len(edit.old) :], span


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the edited source, without the cache of bytecode."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds edited modules before anyone else does."""

    def __init__(self, sources: dict[str, tuple[str, str]]) -> None:
        self._sources = sources

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        if fullname not in self._sources:
            return None
        file, source = self._sources[fullname]
        loader = _Loader(fullname, file, source)
        return importlib.util.spec_from_file_location(fullname, file, loader=loader)


def source_path(module: str) -> str:
    """The file of a module, without an import of the packages that it is in: they may import the module."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        path = Path(folder, *rest)
        for found in (path.with_suffix(".py"), path / "__init__.py"):
            if found.is_file():
                return str(found)
    raise EditError(f"{module}: no such module in this environment")


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a module and of every function in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _replace_functions(path: str, source: str) -> None:
    """Gives the functions of an imported module their edited code; whoever holds one keeps it."""
    fresh = {(code.co_name, code.co_firstlineno): code for code in _codes(compile(source, path, "exec"))}
    for function in gc.get_objects():
        # Not isinstance, which runs code of some objects.
        if type(function) is FunctionType and function.__code__.co_filename == path:
            old = function.__code__
            code = fresh.get((old.co_name, old.co_firstlineno))
            if code is not None and code.co_freevars == old.co_freevars:
                function.__code__ = code


def plant(edits: Sequence[Edit]) -> list[Span]:
    """Makes the edits in this process; returns the lines they changed."""
    sources: dict[str, tuple[str, str]] = {}
    spans = []
    for edit in edits:
        if edit.module not in sources:
            path = source_path(edit.module)
            sources[edit.module] = path, Path(path).read_text()
        path, source = sources[edit.module]
        source, span = edited(source, edit, path)
        sources[edit.module] = path, source
        spans.append(span)
    sys.meta_path.insert(0, _Finder(sources))
    for name, (path, source) in sources.items():
        if name in sys.modules:
            _replace_functions(path, source)
    return spans
