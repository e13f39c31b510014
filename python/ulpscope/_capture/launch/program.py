"""Runs a script or module as Python would: its ``__main__``, its ``sys.argv``, its tracebacks."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from ulpscope._capture.settings import SettingsError

_OUR_FOLDER = str(Path(__file__).parents[1]) + os.sep


class Program:
    """A script or module with its arguments, located but not yet run."""

    def __init__(self, target: str, is_module: bool, arguments: Sequence[str]) -> None:
        self._target = target
        self._is_module = is_module
        self._arguments = list(arguments)

    @classmethod
    def find(cls, command: Sequence[str]) -> Program:
        """The program of a command line: ``SCRIPT ARGS`` or ``-m MODULE ARGS``."""
        if command[0] == "-m":
            if len(command) < 2:
                raise SettingsError("-m", "has no module after it")
            return cls(command[1], True, command[2:])
        script = Path(command[0])
        if script.is_dir():
            raise SettingsError(command[0], "is a folder; expected a Python script, or -m and a module")
        if not script.is_file():
            raise SettingsError(command[0], "does not exist; expected a Python script, or -m and a module")
        return cls(command[0], False, command[1:])

    def run(self) -> None:
        """Runs it to its end. Its exceptions pass through, including SystemExit."""
        code, main = self._load_module() if self._is_module else self._load_script()
        sys.modules["__main__"] = main
        exec(code, main.__dict__)

    def _load_script(self) -> tuple[CodeType, ModuleType]:
        sys.argv = [self._target, *self._arguments]
        _set_first_path(str(Path(self._target).resolve().parent))
        file = str(Path(self._target).absolute())
        main = _new_main(cached=None)
        main.__file__ = file
        main.__loader__ = SourceFileLoader("__main__", file)
        with io.open_code(file) as source:
            code = compile(source.read(), file, "exec", dont_inherit=True)
        return code, main

    def _load_module(self) -> tuple[CodeType, ModuleType]:
        # As with python -m, sys.argv has the name until the module is found.
        sys.argv = ["-m", *self._arguments]
        _set_first_path(str(Path.cwd()))
        name = self._target
        spec = _find_module(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = _find_module(name)
        loader = spec.loader if spec else None
        code = loader.get_code(name) if isinstance(loader, InspectLoader) else None
        if spec is None or code is None:
            print(f"ulpscope run: error: no module named {name} that can be run", file=sys.stderr)
            raise SystemExit(2)
        main = _new_main(cached=spec.cached)
        main.__file__ = spec.origin
        main.__loader__ = loader
        main.__package__ = spec.parent
        main.__spec__ = spec
        if spec.origin:
            sys.argv[0] = spec.origin
        return code, main


def _new_main(cached: str | None) -> ModuleType:
    main = ModuleType("__main__")
    values = {"__builtins__": __builtins__, "__annotations__": {}, "__cached__": cached}
    # Which of them a __main__ has depends on the release of Python.
    main.__dict__.update(
        (name, values[name]) for name in values.keys() & vars(sys.modules["__main__"]).keys()
    )
    return main


def _set_first_path(folder: str) -> None:
    """Puts the program's folder where Python puts it: in place of ours, or nowhere if Python is set so."""
    # The flag exists from Python 3.11 on.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0:1] = [folder]


def _find_module(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            return None
        raise


def hide_ourselves(error: BaseException) -> None:
    """Removes the frames of capture from the traceback of an error that ends the program."""
    _clean(error, set())
    trace, show = error.__traceback__, sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        if value is error:
            # While it propagates it collects the frames of our callers.
            value.__traceback__ = traceback = trace
        show(kind, value, traceback)

    sys.excepthook = excepthook


def _clean(error: BaseException | None, seen: set[int]) -> None:
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = _without_our_frames(error.__traceback__)
        _clean(error.__cause__, seen)
        error = error.__context__


def _without_our_frames(traceback: TracebackType | None) -> TracebackType | None:
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_OUR_FOLDER):
            kept.append(traceback)
        traceback = traceback.tb_next
    result = None
    for one in reversed(kept):
        result = TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result
