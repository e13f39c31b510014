"""The recorded modules, while they are alive, and the gradients of their parameters.

    model, or outermost module ──► add ──► names, sources, hooks of parameters
    a module is called ──► meet ──► part of a model by now? ──► add again
    it returns ──► watch ──► parameters that are new, or trained only now ──► hooks

Nothing here keeps a module or parameter alive: a program may create a model, or a loss, in every iteration.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from ulpscope._capture.lifecycle.failures import Failures
from ulpscope._capture.modules import models
from ulpscope._capture.modules.parameter_hooks import ParameterHook
from ulpscope._capture.modules.step_ends import StepEnds
from ulpscope._capture.settings import Settings
from ulpscope._capture.settings.patterns import Patterns

if TYPE_CHECKING:
    from ulpscope._core import Recorder

_log = logging.getLogger("ulpscope")

_LATE = "a parameter had its gradient before it was known that it is trained: that is not recorded"

# Stands for the class of a model, in the name of the gradients of its own parameters.
_ROOT = "Module"

# Parameters by their names in a module, each with a function that removes its hook.
Watched = dict[str, tuple[weakref.ref[torch.Tensor], ParameterHook | None]]


class _Known:
    """A registered module."""

    def __init__(self, reference: weakref.ref[torch.nn.Module], base: str | None) -> None:
        self.reference = reference
        # Its name; None for a root, which is not recorded as a call.
        self.base = base
        # The name that the gradients of its parameters have.
        self.gradient_base = base
        # Of a root: the prefix of the names in it, and the addresses of its modules.
        self.prefix: str | None = None
        self.parts: list[int] = []
        # The parameters whose gradients are recorded; None if none are wanted.
        self.watched: Watched | None = None

    def remove_hooks(self) -> None:
        for _, handle in (self.watched or {}).values():
            if handle is not None:
                handle.remove()
        self.watched = None


class ModuleRegistry:
    """Gives the recorder the names of modules, and records the gradients of their parameters."""

    def __init__(
        self, recorder: Recorder, failures: Failures, settings: Settings, selected: Patterns
    ) -> None:
        self._recorder = recorder
        self._failures = failures
        self._layers = settings.layers
        self._level = level = settings.level
        self._selected = selected
        self._has_calls = level in ("L0", "mix")
        self._watches = self._has_calls and settings.parameter_gradients
        # By their addresses.
        self.modules: dict[int, _Known] = {}
        # Modules outside of any model. They are checked again in the next step.
        self._outside: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._discovered = 0
        self._discovers = False
        self._ends = StepEnds(recorder)
        self._sees_ends = self._has_calls and settings.layout == "msprobe"
        # Parameters whose gradients have changed since they were recorded as the optimizer gets them.
        self._unexchanged: set[tuple[str, str]] = set()

    def begin(self, model: Any) -> None:
        """Registers a model; without one, each outermost module that is called counts as a model."""
        self._discovers = model is None
        for prefix, root in models.roots_of(model) if model is not None else ():
            self._add(prefix, root)

    def end(self) -> None:
        """Forgets everything."""
        modules = list(self.modules.values())
        self.modules.clear()
        for known in modules:
            known.remove_hooks()
        self._outside.clear()
        self._ends.clear()
        self._discovered = 0

    def next_step(self) -> None:
        """Checks all parameters again."""
        self._unexchanged.clear()
        self._outside.clear()
        for address in list(self.modules):
            self._watch_at(address, is_late=True)

    def meet(self, module: torch.nn.Module) -> None:
        """Called before a call of a module that is not registered."""
        if id(module) not in self._outside:
            try:
                self._place(module)
            except Exception as error:
                self._failures.hold_back(f"the names in {type(module).__name__}", error)

    def watch(self, module: torch.nn.Module) -> None:
        """Called after a module has returned: by now its parameters, and those of its whole model, exist."""
        known = self.modules.get(id(module))
        if known is None:
            return
        self._watch(known, module)
        for address in known.parts:
            self._watch_at(address)

    def returned(self, module: torch.nn.Module, output: Any) -> None:
        """Called after a module has returned that is no recorded call: the model itself, or part of none."""
        known = self.modules.get(id(module))
        if self._sees_ends and known is not None and known.prefix is not None:
            self._hold_back(lambda: self._ends.returned(output))

    def end_step(self) -> None:
        """Records what the step leaves in what its models returned, and in their buffers."""
        if self._sees_ends:
            self._hold_back(lambda: self._ends.end_step(self._buffers()))

    def _buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        for known in list(self.modules.values()):
            root = known.reference()
            if known.prefix is not None and root is not None:
                inner = known.prefix.removeprefix("Module.")
                yield from ((f"{inner}{path}", buffer) for path, buffer in root.named_buffers())

    def _hold_back(self, record: Callable[[], None]) -> None:
        try:
            record()
        except Exception as error:
            self._failures.hold_back("what the step leaves", error)

    def record_exchanged(self) -> None:
        """Records the gradients that lie in parameters after a backward pass, as an optimizer gets them."""
        if not self._unexchanged:
            return
        for known in list(self.modules.values()):
            for name, (reference, handle) in list((known.watched or {}).items()):
                parameter = reference()
                if (
                    handle is None
                    or parameter is None
                    or (known.gradient_base, name) not in self._unexchanged
                ):
                    continue
                base = str(known.gradient_base)
                self._unexchanged.discard((base, name))
                with torch._C.DisableTorchFunction():
                    gradient = parameter.grad
                if gradient is not None:
                    path = base.removeprefix("Module.").rpartition(".")[0]
                    source = f"gradient:{path}.{name}" if path else f"gradient:{name}"
                    self._recorder.parameter_gradient(base, name, gradient, source)

    def _place(self, module: torch.nn.Module) -> None:
        inner = models.uncompiled(module)
        if inner is not module and id(inner) in self.modules:
            self._know(module, None)
            return
        roots = [known for known in self.modules.values() if known.prefix is not None]
        for known in roots:
            root = known.reference()
            if root is not None and any(part is module for part in root.modules()):
                # It was added after the model was registered.
                self._add(known.prefix or "", root)
                return
        if self._discovers and self._recorder.is_outermost():
            number, self._discovered = self._discovered, self._discovered + 1
            self._add(f"Module.{number}." if number else "Module.", module)
        else:
            address = id(module)
            self._outside[address] = weakref.ref(module, lambda _: self._outside.pop(address, None))

    def _add(self, prefix: str, root: torch.nn.Module) -> None:
        inner = models.uncompiled(root)
        if inner is not root:
            self._know(root, None)
            root = inner
        known = self._know(root, None)
        known.prefix = prefix
        try:
            with torch._C.DisableTorchFunction():
                self._name_parts(known, prefix, root)
        except Exception as error:
            self._failures.hold_back(f"the names in {type(root).__name__}", error)

    def _name_parts(self, known: _Known, prefix: str, root: torch.nn.Module) -> None:
        left_out = models.left_out_layers(root, self._layers)
        parts = list(models.named_modules(prefix, root))
        inner = prefix.removeprefix("Module.")
        known.parts = [id(module) for _, _, module in parts]
        if self._has_calls and not any(base for _, base, _ in parts):
            # As in the older tools, the model itself is not recorded as a call.
            note = f"{type(root).__name__} has no modules below it: level {self._level} has none to record"
            self._recorder.note(note)
            # Modules that are called later, such as losses, are not models.
            if self._level == "L0" and self._discovered <= 1:
                _log.warning("%s; its API calls are recorded at levels L1 and mix", note)
        if self._watches and known.watched is None and known.base is None:
            # Its parameters have gradients, though it is no call. Ports have models of different classes.
            known.gradient_base = f"{prefix}{_ROOT}"
            known.watched = {}
        for path, base, module in parts:
            part = self._know(module, base)
            is_selected = base is not None and self._selected.matches(f"{inner}{path}")
            self._recorder.add_module(module, base, path in left_out, is_selected)
            is_left_out = any(path == layer or path.startswith(f"{layer}.") for layer in left_out)
            if self._watches and base is not None and not is_left_out and part.watched is None:
                part.watched = {}
        for origin, tensor in models.named_tensors(prefix, root):
            self._recorder.add_origin(tensor, origin)
        for address in (id(root), *known.parts):
            self._watch_at(address)

    def let_go(self, *parameters: Any) -> None:
        """Forgets parameters that are about to be swapped with others. They are checked again later."""
        self._ends.let_go(*parameters)
        for known in self.modules.values():
            watched = known.watched or {}
            for name, (reference, handle) in list(watched.items()):
                if any(reference() is parameter for parameter in parameters):
                    del watched[name]
                    if handle is not None:
                        handle.remove()

    def _know(self, module: torch.nn.Module, base: str | None) -> _Known:
        """The entry of a module. It keeps its name: a model may be part of another."""
        address = id(module)
        known = self.modules.get(address)
        if known is None:
            reference = weakref.ref(module, lambda _: self._forget(address))
            known = self.modules[address] = _Known(reference, base)
            self._outside.pop(address, None)
            self._recorder.add_module(module, None, False, False)
        elif base is not None:
            known.base = known.gradient_base = base
        return known

    def _forget(self, address: int) -> None:
        known = self.modules.pop(address, None)
        if known is not None:
            self._recorder.forget_module(address)
            known.remove_hooks()

    def _watch_at(self, address: int, is_late: bool = False) -> None:
        known = self.modules.get(address)
        module = None if known is None else known.reference()
        if known is not None and module is not None:
            self._watch(known, module, is_late)

    def _watch(self, known: _Known, module: torch.nn.Module, is_late: bool = False) -> None:
        watched = known.watched
        if watched is None:
            return
        try:
            # In a module compiled by TorchScript it is not a dictionary, but behaves like one.
            for name, parameter in module._parameters.items():
                if parameter is None:
                    continue
                before = watched.get(name)
                if before is None or before[0]() is not parameter:
                    self._watch_parameter(watched, str(known.gradient_base), name, parameter, is_late)
        except Exception as error:
            self._failures.hold_back(f"the parameters of {known.gradient_base}", error)

    def _watch_parameter(
        self, watched: Watched, base: str, name: str, parameter: torch.Tensor, is_late: bool
    ) -> None:
        with torch._C.DisableTorchFunction():
            if is_lazy(parameter) or not parameter.requires_grad or not parameter.is_leaf:
                return
            # A parameter with two names in a module has its gradient under the first.
            is_twin = any(reference() is parameter for reference, _ in watched.values())
            former = watched.get(name, (None, None))[1]
            if former is not None:
                former.remove()
            handle = None
            if not is_twin:
                handle = ParameterHook(parameter, self._gradient_hook(base, name))
            watched[name] = weakref.ref(parameter), handle
            if is_late and parameter.grad is not None:
                self._recorder.note(_LATE)

    def _gradient_hook(self, base: str, name: str) -> Callable[[torch.Tensor], None]:
        def accumulated(parameter: torch.Tensor) -> None:
            self._unexchanged.add((base, name))
            with torch._C.DisableTorchFunction():
                gradient = parameter.grad
            if gradient is not None:
                self._recorder.parameter_gradient(base, name, gradient)

        return accumulated
