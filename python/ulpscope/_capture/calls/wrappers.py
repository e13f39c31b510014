"""Wrappers for calls that a torch function mode does not see.

Modules, custom autograd functions, operators whose name torch does not report (``2 * x``), threads. Each
wrapper runs the original and records the call.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._capture.calls.recorded import call_recorded
from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch
from ulpscope._core import HookPlacer

if TYPE_CHECKING:
    from ulpscope._capture.modules.module_registry import ModuleRegistry
    from ulpscope._core import Recorder


def add_modules(patches: Patches, recorder: Recorder, switch: Switch, known: ModuleRegistry) -> None:
    """Module calls."""
    original = torch.nn.Module.__call__
    modules = known.modules

    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if not switch.is_on():
            return original(self, *args, **kwargs)
        if id(self) not in modules:
            known.meet(self)
        begun = recorder.enter_module(self, args, kwargs)
        if begun is None:
            output = original(self, *args, **kwargs)
            known.watch(self)
            known.returned(self, output)
            return output
        try:
            output = original(self, *args, **kwargs)
        except BaseException as error:
            recorder.raised_module(begun, self, type(error).__name__)
            raise
        recorder.leave_module(begun, self, output)
        known.watch(self)
        return output

    patches.add(torch.nn.Module, "__call__", __call__)


_REPLICATED = (
    "a DistributedDataParallel module ran: it averages gradients over the ranks where no call is seen. The "
    "gradients that are recorded in the backward pass are this rank's own; at levels L0 and mix, what the "
    "optimizer gets, the mean over all ranks, is recorded with the next number"
)


def add_replicas(patches: Patches, recorder: Recorder, switch: Switch) -> None:
    """Modules whose gradients torch exchanges between ranks internally: noted in the ledger."""
    kind = torch.nn.parallel.DistributedDataParallel
    original: Any = kind.forward

    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if switch.is_on() and torch.is_grad_enabled() and self.require_backward_grad_sync:
            recorder.note_once(_REPLICATED)
        return original(self, *args, **kwargs)

    patches.add(kind, "forward", forward)


def add_operators(patches: Patches, recorder: Recorder) -> None:
    """``2 + x`` and ``2 * x``, which torch shows as ``x + 2`` and ``x * 2``."""
    for name in ("__radd__", "__rmul__"):
        patches.add(torch.Tensor, name, _reflected(recorder, name, getattr(torch.Tensor, name)))


def add_set(patches: Patches, recorder: Recorder, switch: Switch, is_seeing: Callable[[], bool]) -> None:
    """``Tensor.set_``, which torch shows to no mode. It replaces the tensor's elements.

    ``is_seeing`` tells whether calls are recorded here: inside another call it is part of that call.
    """
    original: Any = torch.Tensor.set_

    @functools.wraps(original)
    def set_(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not switch.is_on() or not is_seeing():
            return original(self, *args, **kwargs)
        shown = (
            (self, *map(_without_storage, args)),
            {name: _without_storage(arg) for name, arg in kwargs.items()},
        )
        return call_recorded(recorder, ("Tensor", "set_"), original, (self, *args), kwargs, shown)

    patches.add(torch.Tensor, "set_", set_)


def _without_storage(argument: Any) -> Any:
    """Storage has no numbers of its own: the result shows the tensor made from it."""
    is_storage = isinstance(argument, torch.UntypedStorage | torch.storage.TypedStorage)
    return None if is_storage else argument


def _reflected(recorder: Recorder, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def operator(self: Any, other: Any) -> Any:
        recorder.hint(name)
        try:
            return original(self, other)
        finally:
            # If the call was not recorded the name is unused, and would go to the next call.
            recorder.hint("")

    operator.__name__ = operator.__qualname__ = name
    return operator


def add_autograd_functions(
    patches: Patches, recorder: Recorder, switch: Switch, suspended: Callable[[], Any]
) -> None:
    """Custom autograd functions. The backward of compiled code is not touched."""
    function = torch.autograd.Function
    # In Python or in C, depending on the release of torch; both are bound in the same way.
    original = vars(function)["apply"]

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        bound = original.__get__(None, cls)
        if not switch.is_on():
            return bound(*args, **kwargs)
        return call_recorded(recorder, ("Autograd", cls.__name__), bound, args, kwargs)

    patches.add(function, "apply", classmethod(apply))

    backward = torch.autograd.function.BackwardCFunction
    # Newer releases of torch have a second entry point.
    for name in ("apply", "apply_boxed"):
        if name in vars(backward):
            patches.add(backward, name, _backward_left_alone(vars(backward)[name], suspended))


def _backward_left_alone(original: Callable[..., Any], suspended: Callable[[], Any]) -> Callable[..., Any]:
    def apply(self: Any, *args: Any) -> Any:
        if getattr(self, "_forward_cls", type(self)).__name__ != "CompiledFunction":
            return original(self, *args)
        with suspended():
            return original(self, *args)

    apply.__name__ = apply.__qualname__ = original.__name__
    return apply


class _Engine:
    """Torch's backward engine, wrapped so that the function mode is on while it runs.

    ``Tensor.backward`` is a torch function, and a mode does not see what happens inside a function.
    """

    def __init__(self, engine: Any, around: Callable[[], Any]) -> None:
        self._engine = engine
        self._around = around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        with self._around():
            return self._engine.run_backward(*args, **kwargs)


def add_engine(patches: Patches, around: Callable[[], Any]) -> None:
    """Backward passes, and the calls within them: recomputed forwards, hooks, custom backwards."""
    variable = torch.autograd.Variable
    patches.add(variable, "_execution_engine", _Engine(variable._execution_engine, around))


def add_hook_placer(patches: Patches) -> None:
    """Our hooks on the nodes of the graph, one for every call."""
    function, name = torch.autograd.Function, "_register_hook"
    patches.add(function, name, HookPlacer(patches.standing(function, name)).place)


def add_swaps(patches: Patches, recorder: Recorder, known: ModuleRegistry) -> None:
    """Tensors that are swapped, as those of models are when a model is converted or loaded.

    Torch refuses to swap tensors with weak references, and capture holds weak references to those it knows.
    """
    original = getattr(torch.utils, "swap_tensors", None)
    if original is None:
        # Older releases of torch do not have it.
        return

    def swap_tensors(t1: Any, t2: Any) -> None:
        known.let_go(t1, t2)
        (made1, origin1), (made2, origin2) = recorder.let_go(t1), recorder.let_go(t2)
        try:
            original(t1, t2)
        except BaseException:
            recorder.know_again(t1, made1, origin1)
            recorder.know_again(t2, made2, origin2)
            raise
        # It keeps its role in its model, but has the other tensor's elements.
        recorder.know_again(t1, made2, origin1)
        recorder.know_again(t2, made1, origin2)

    patches.add_everywhere([(original, swap_tensors)])


def add_fast_paths(patches: Patches, without_mode: Callable[[], Any]) -> None:
    """Hides our mode from modules such as ``nn.TransformerEncoderLayer``, which skip a fast path with it."""
    original = torch.overrides.has_torch_function

    def has_torch_function(relevant_args: Any) -> bool:
        with without_mode():
            return bool(original(relevant_args))

    patches.add(torch.overrides, "has_torch_function", has_torch_function)


def add_threads(patches: Patches, in_thread: Callable[[threading.Thread], Any]) -> None:
    """Threads that are started from now on: function modes are per thread."""
    original = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def _bootstrap_inner(self: threading.Thread) -> None:
        with in_thread(self):
            original(self)

    patches.add(threading.Thread, "_bootstrap_inner", _bootstrap_inner)
