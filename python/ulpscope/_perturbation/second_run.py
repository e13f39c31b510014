"""Runs a call a second time, without side effects on the program.

Before the call: a copy of every argument that the call changes, and the states of random numbers. After it:
the same function on these, apart from the program's graph, with the same random numbers. Then the states are
restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from ulpscope._capture.calls.named_calls import NamedCall, unseen
from ulpscope._core import returns_blank
from ulpscope._perturbation.arguments import is_plain, mapped, tensors_in

LOW_PRECISION = (torch.float16, torch.bfloat16)


class CannotRepeatError(Exception):
    """Why a call is not run a second time."""


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """For our own operations: no mode sees them, and they are no part of a graph."""
    with unseen(), torch.no_grad():
        yield


class Given:
    """The arguments of a call as they were before it ran."""

    def __init__(self, call: NamedCall) -> None:
        self._call = call
        if call.function is not None and returns_blank(call.function.name):
            raise CannotRepeatError("its result is uninitialised memory")
        if any(map(_is_code, (*call.args, *call.kwargs.values()))):
            # Reentrant checkpointing: running statistics, for one, would be updated twice.
            raise CannotRepeatError("it runs code of the program, which may change more than its results")
        tensors = list(tensors_in((call.args, call.kwargs)))
        for tensor in tensors:
            if not is_plain(tensor):
                raise CannotRepeatError(f"a {_kind(tensor)} among its inputs cannot be copied")
        changed = {id(tensor): tensor for tensor in _changed(call)}
        copies = {address: tensor.detach().clone() for address, tensor in changed.items()}

        def before(tensor: torch.Tensor) -> torch.Tensor:
            return copies.get(id(tensor), tensor)

        self.has_copies = bool(copies)
        self._copies = {id(copy) for copy in copies.values()}
        self.args: tuple[Any, ...] = mapped(call.args, before) if copies else call.args
        self.kwargs: dict[str, Any] = mapped(call.kwargs, before) if copies else call.kwargs
        self._unchanged = [tensor for tensor in tensors if id(tensor) not in copies]
        self._versions = [_version(tensor) for tensor in self._unchanged]
        self._has_graph = torch.is_grad_enabled()
        self.needs_grad = [tensor.requires_grad for tensor in tensors]
        self.devices = {tensor.device for tensor in tensors}
        self.random = RandomStates(self.devices, call.kwargs.get("generator"))

    def check_unchanged(self) -> None:
        """Raises if a tensor that should be as before the call is not."""
        if [_version(tensor) for tensor in self._unchanged] != self._versions:
            raise CannotRepeatError("it changes one of its inputs in a way that is not known beforehand")

    def run(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        keeps_autocast: bool = True,
        is_last: bool = False,
    ) -> Any:
        """The result for changed arguments. Before the last run, those that the call writes to are copied.

        Where the program computes gradients, so does this run, in a separate graph: kernels differ.
        """
        with contextlib.ExitStack() as around:
            around.enter_context(unseen())
            around.enter_context(without_saving_hooks())
            around.enter_context(torch.set_grad_enabled(self._has_graph))
            around.enter_context(self.random.repeated())
            if not keeps_autocast:
                around.enter_context(without_autocast(self.devices))
            if self.has_copies and not is_last:
                args, kwargs = self._without_own_copies((args, kwargs))
            args, kwargs = self._apart((args, kwargs))
            return self.result(self._call.run(*args, **kwargs), args, kwargs)

    def _without_own_copies(self, given: Any) -> Any:
        made: dict[int, torch.Tensor] = {}

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in self._copies:
                return tensor
            if id(tensor) not in made:
                made[id(tensor)] = tensor.clone()
            return made[id(tensor)]

        return mapped(given, copied)

    def _apart(self, given: Any) -> Any:
        """The arguments outside of the program's graph, each still with or without a gradient."""
        if not self._has_graph:
            return given
        needs = iter(self.needs_grad)
        written = {id(tensor) for tensor in _changed(self._call, *given)}
        made: dict[int, torch.Tensor] = {}

        def apart(tensor: torch.Tensor) -> torch.Tensor:
            needs_grad = next(needs)
            if id(tensor) not in made:
                known = tensor.detach()
                if needs_grad and known.is_floating_point():
                    known.requires_grad_()
                    # A leaf of a graph and its views refuse writes; a copy inside the graph does not.
                    known = known.clone() if id(tensor) in written else known
                made[id(tensor)] = known
            return made[id(tensor)]

        return mapped(given, apart)

    def result(self, returned: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call computed: a function that returns nothing has written to its arguments."""
        if returned is not None:
            return returned
        return tuple(_changed(self._call, args, kwargs))


class RandomStates:
    """The states of the generators that a call may use."""

    def __init__(self, devices: set[torch.device], own: Any = None) -> None:
        self._generators = [torch.default_generator]
        for device in sorted(devices, key=str):
            found = _default_generator(device)
            if found is not None:
                self._generators.append(found)
        if isinstance(own, torch.Generator):
            self._generators.append(own)
        self._before = [generator.get_state() for generator in self._generators]

    def are_used(self) -> bool:
        """Whether random numbers were drawn since the states were taken."""
        now = [generator.get_state() for generator in self._generators]
        return not all(map(torch.equal, now, self._before))

    @contextlib.contextmanager
    def repeated(self) -> Iterator[None]:
        """Inside, random numbers are those from the time the states were taken; afterwards as before."""
        now = [generator.get_state() for generator in self._generators]
        try:
            for generator, state in zip(self._generators, self._before, strict=True):
                generator.set_state(state)
            yield
        finally:
            for generator, state in zip(self._generators, now, strict=True):
                generator.set_state(state)


def _default_generator(device: torch.device) -> torch.Generator | None:
    space = getattr(torch, device.type, None)
    generators = getattr(space, "default_generators", None)
    if device.type == "cpu" or not generators:
        return None
    found: torch.Generator = generators[device.index or 0]
    return found


def without_saving_hooks() -> contextlib.AbstractContextManager[Any]:
    """Without the program's hooks on tensors that are saved for a backward pass: checkpointing counts."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    if top is not None and top(True) is None:
        return contextlib.nullcontext()
    # A copy of the object: one that is packed as itself would keep its own graph alive.
    return saved_tensors_hooks(lambda tensor: tensor.detach(), lambda tensor: tensor)


@contextlib.contextmanager
def without_autocast(devices: set[torch.device]) -> Iterator[None]:
    """Without automatic casts on the devices of a call."""
    with contextlib.ExitStack() as around:
        for kind in sorted({"cpu", *(device.type for device in devices)}):
            if is_autocast_on(kind):
                around.enter_context(torch.autocast(kind, enabled=False))
        yield


def is_autocast_on(kind: str) -> bool:
    """Whether torch casts automatically on a kind of device."""
    try:
        return bool(torch.is_autocast_enabled(kind))
    except TypeError:
        # Releases before 2.4 have a function for each kind.
        asked = torch.is_autocast_cpu_enabled if kind == "cpu" else torch.is_autocast_enabled
        return bool(asked())


def _changed(
    call: NamedCall, args: tuple[Any, ...] | None = None, kwargs: dict[str, Any] | None = None
) -> list[torch.Tensor]:
    """The arguments that a call writes to, as far as its function is known."""
    args = call.args if args is None else args
    kwargs = call.kwargs if kwargs is None else kwargs
    found = list(tensors_in(kwargs.get("out")))
    function = call.function
    if function is None or not function.changes:
        return found
    if function.changes_if and not _value(function.parameters, function.changes_if, args, kwargs):
        return found
    for position in function.changes:
        if position < len(args):
            found += tensors_in(args[position])
        elif position < len(function.parameters):
            found += tensors_in(kwargs.get(function.parameters[position]))
    return found


def _value(parameters: list[str], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if name in parameters and parameters.index(name) < len(args):
        return args[parameters.index(name)]
    return kwargs.get(name)


def _is_code(value: Any) -> bool:
    return callable(value) and not isinstance(value, type | torch.Tensor)


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _kind(tensor: torch.Tensor) -> str:
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return type(tensor).__name__
    if tensor.is_meta:
        return "tensor without elements (meta)"
    return f"tensor of layout {tensor.layout}"
