"""Compiled regions as calls: what goes into a region, what comes out of it, and their gradients.

    dynamo is switched on ──► arguments of the frame that does it ──► begin
    dynamo is switched off ──► that frame returns its value ──► end

A region is ``Compiled`` with the name of the function, or the class of the module. It stands for the
functions that run inside. A compiled module is also the call of a module that it is without being compiled;
where only modules are recorded, that is all.

torch's wrapper around compiled code has the function in a closure, and no place where a result could be read.
So a profile function reads what the wrapper returns. It is there only after dynamo was switched off, for the
rest of that frame.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._capture.modules import models

if TYPE_CHECKING:
    from ulpscope._capture.modules.module_registry import ModuleRegistry
    from ulpscope._core import OpenCall, Recorder

_PREFIX = "Compiled"

# Methods of modules: what a program calls, and what that calls.
_WHOLE = ("__call__", "_wrapped_call_impl")
_BODIES = ("_call_impl", "forward")

_PROFILED = (
    "a compiled region has no results: they are read in the place of a profiler, and the program has one on"
)


class RegionCall:
    """A region that has begun and not ended."""

    def __init__(
        self,
        ended: Callable[[Any], None],
        raised: Callable[[str], None],
        note: Callable[[str], None],
    ) -> None:
        self._ended, self._raised, self._note = ended, raised, note
        # What the program handles meanwhile is no error of the region.
        self._handled = sys.exc_info()[1]

    def end(self, frame: FrameType) -> None:
        """Called when the region is over, and its frame is about to return or has raised."""
        error = sys.exc_info()[1]
        if error is not None and error is not self._handled:
            self._raised(type(error).__name__)
        elif sys.getprofile() is not None:
            self._note(_PROFILED)
        else:
            sys.setprofile(self._returned_from(frame))

    def _returned_from(self, frame: FrameType) -> Callable[[FrameType, str, Any], None]:
        def profile(current: FrameType, event: str, value: Any) -> None:
            if current is frame and event == "return":
                sys.setprofile(None)
                self._ended(value)

        return profile


class RegionCalls:
    """Begins and ends the calls of regions."""

    def __init__(self, recorder: Recorder, known: ModuleRegistry, level: str) -> None:
        self._recorder, self._known = recorder, known
        self._has_modules = level in ("L0", "mix")
        self._has_functions = level != "L0"

    def begin(self, frame: FrameType) -> tuple[RegionCall | None, bool]:
        """Begins the call of a region that a frame enters; also returns whether a recorded call has it."""
        found = frame.f_locals
        function, args, kwargs = found.get("fn"), found.get("args"), found.get("kwargs")
        if not callable(function) or not isinstance(args, tuple) or not isinstance(kwargs, dict):
            return None, False
        module = _module_of(function)
        # Of a module whose forward is compiled, the call is recorded as that of any module.
        entered, is_outside = None, False
        is_whole = module is not None and _is_whole(function)
        if module is not None and is_whole:
            if id(module) not in self._known.modules:
                self._known.meet(module)
            is_outside = id(module) not in self._known.modules
            entered = self._recorder.enter_module(module, args, kwargs)
        inner = None
        is_within = self._has_modules and self._recorder.innermost_module() is not None
        if self._has_functions or not (is_within or is_outside):
            inner = self._recorder.begin(_PREFIX, _name_of(function, module), args, kwargs)
        if not is_whole and inner is None:
            return None, is_within
        call = self._call((entered, inner), function, module if is_whole else None)
        return call, inner is not None or is_within

    def _call(
        self,
        begun: tuple[OpenCall | None, OpenCall | None],
        function: Any,
        module: torch.nn.Module | None,
    ) -> RegionCall:
        """The call of a region, and that of a module if its own is not seen."""
        recorder, known = self._recorder, self._known
        entered, inner = begun

        def ended(output: Any) -> None:
            if inner is not None:
                recorder.end(inner, output, _parameters_of(function))
            if module is None:
                return
            if entered is not None:
                recorder.leave_module(entered, module, output)
            known.watch(module)
            if entered is None:
                known.returned(module, output)

        def raised(kind: str) -> None:
            if inner is not None:
                recorder.raised(inner, kind)
            if entered is not None and module is not None:
                recorder.raised_module(entered, module, kind)

        return RegionCall(ended, raised, recorder.note)


def _module_of(function: Any) -> torch.nn.Module | None:
    """The module that a function is a method of, or calls: torch puts some modules into a function."""
    for found in (getattr(function, "__self__", None), getattr(function, "__wrapped__", None)):
        if isinstance(found, torch.nn.Module):
            return found
    return None


def _is_whole(function: Any) -> bool:
    return getattr(function, "__name__", None) in _WHOLE or not hasattr(function, "__self__")


def _name_of(function: Any, module: torch.nn.Module | None) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    if module is not None and (_is_whole(function) or name in _BODIES):
        return type(module).__name__
    # Functions within functions have those before them in their names.
    return getattr(function, "__qualname__", name).rpartition("<locals>.")[2].strip("<>")


def _parameters_of(function: Any) -> dict[str, torch.Tensor]:
    """The parameters that a region uses and is not given: those of modules that its function refers to."""
    found: dict[str, torch.Tensor] = {}
    for name, module in _modules_in(function):
        for path, parameter in models.uncompiled(module).named_parameters():
            found.setdefault(f"{name}.{path}" if name else path, parameter)
    return found


def _modules_in(function: Any) -> Iterator[tuple[str, torch.nn.Module]]:
    module = _module_of(function)
    if module is not None:
        yield "", module
        return
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    seen: set[int] = set()
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    names = [(name, _content(cell)) for name, cell in cells]
    names += [(name, function.__globals__.get(name)) for name in code.co_names]
    for name, value in names:
        if isinstance(value, torch.nn.Module) and id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # Its variable has no value yet.
        return None
