"""Collectives and messages between processes, which no function mode sees.

    begin (buffers that are only received into are left out) ──► collective ──┬──► end
                                                                 work ──► wait ┘

Their results are what their buffers hold when they are complete: at once, or when an asynchronous one is
waited for, is found to be complete, or has completed its future.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._capture.calls.recorded import call_recorded
from ulpscope._capture.collectives.pending import Pending, Unfinished, add_completions
from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch

if TYPE_CHECKING:
    from ulpscope._core import OpenCall, Recorder

# Collectives, and for each the argument that is only received into, by position and name: before the call it
# holds whatever was in that memory.
_RECEIVED: dict[str, tuple[int, tuple[str, ...]] | None] = {
    "send": None,
    "recv": (0, ("tensor",)),
    "isend": None,
    "irecv": (0, ("tensor",)),
    "batch_isend_irecv": None,
    "broadcast": None,
    "all_reduce": None,
    "all_reduce_coalesced": None,
    "reduce": None,
    "all_gather": (0, ("tensor_list",)),
    "all_gather_coalesced": (0, ("output_tensor_lists",)),
    "all_gather_into_tensor": (0, ("output_tensor",)),
    "all_gather_single": (0, ("output", "output_tensor")),
    "_all_gather_base": (0, ("output_tensor",)),
    "gather": (1, ("gather_list",)),
    "gather_into_tensor": (0, ("output", "output_tensor")),
    "gather_single": (0, ("output", "output_tensor")),
    "scatter": (0, ("tensor",)),
    "reduce_scatter": (0, ("output",)),
    "reduce_scatter_tensor": (0, ("output",)),
    "reduce_scatter_single": (0, ("output",)),
    "_reduce_scatter_base": (0, ("output",)),
    "all_to_all": (0, ("output_tensor_list",)),
    "all_to_all_single": (0, ("output",)),
    "barrier": None,
    "monitored_barrier": None,
}

# They send pickled objects by the collectives above, which are recorded, too.
_OF_OBJECTS: dict[str, tuple[int, tuple[str, ...]] | None] = {
    "broadcast_object_list": None,
    "send_object_list": None,
    "recv_object_list": (0, ("object_list",)),
    "all_gather_object": (0, ("object_list",)),
    "gather_object": (1, ("object_gather_list",)),
    "scatter_object_list": (0, ("scatter_object_output_list",)),
}

# Everything above. Some releases of torch show some of these to function modes, too.
COLLECTIVES = frozenset(_RECEIVED | _OF_OBJECTS)

# Those of torch.distributed._functional_collectives, which return what the others write into a buffer.
_FUNCTIONAL = (
    "broadcast",
    "all_reduce",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "all_reduce_coalesced",
    "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "permute_tensor",
    "all_gather_single",
    "all_gather_single_autograd",
    "reduce_scatter_single",
    "reduce_scatter_single_autograd",
    "all_gather_single_coalesced",
    "reduce_scatter_single_coalesced",
    "all_gather_tensor_inplace",
    "reduce_scatter_tensor_inplace",
    "all_reduce_inplace",
    "all_to_all_inplace",
    "all_gather_inplace",
)

# Who is compared with these by identity inside torch: there they stay what they are.
_COMPARED = ("isend", "irecv")


class _Thread(threading.local):
    """What this thread is in."""

    # A collective of ours: what it does by others is its own affair.
    is_inside = False
    # A region whose collectives are done together at its end.
    coalesced: list[Unfinished] | None = None


_thread = _Thread()

# The tensor of those that have one.
_TENSOR = (0, ("tensor",))

# Those in which one rank sends to all others, or receives from them: what that rank is called, by its number
# and by that in the group.
_ROOTS = {
    "broadcast": ("src", "group_src"),
    "broadcast_object_list": ("src", "group_src"),
    "reduce": ("dst", "group_dst"),
}

# Those that change what they are given, and the argument. Others write to what they receive into, if any.
_CHANGED: dict[str, tuple[int, tuple[str, ...]]] = {
    "broadcast": _TENSOR,
    "all_reduce": _TENSOR,
    "all_reduce_coalesced": (0, ("tensors",)),
    "reduce": _TENSOR,
    "broadcast_object_list": (0, ("object_list",)),
}


def add_collectives(patches: Patches, recorder: Recorder, switch: Switch) -> Callable[[], None]:
    """Has collectives recorded; returns what is to be called before recording stops."""
    dist = torch.distributed
    if not dist.is_available():
        return lambda: None
    pending = Pending(recorder)
    home = sys.modules["torch.distributed.distributed_c10d"]
    replacements: list[tuple[Any, Any]] = []
    for name, received in (_RECEIVED | _OF_OBJECTS).items():
        original = getattr(dist, name, None) or getattr(home, name, None)
        if original is not None:
            replacements.append((original, Collective(recorder, switch, name, original, received, pending)))
    if dist.is_initialized():
        # Loaded by distributed tensors when they are first used, which may be later than now.
        importlib.import_module("torch.distributed._functional_collectives")
    coalescing = getattr(home, "_coalescing_manager", None)
    if coalescing is not None:
        replacements.append((coalescing, _coalesced(recorder, switch, pending, coalescing)))
    functional = sys.modules.get("torch.distributed._functional_collectives")
    for name in _FUNCTIONAL:
        original = getattr(functional, name, None)
        if original is not None:
            replacements.append((original, _functional(recorder, switch, name, original)))
    compared = [getattr(home, name) for name in _COMPARED]
    patches.add_everywhere(
        replacements, besides=lambda module, original: module is home and original in compared
    )
    _add_messages(patches)
    add_completions(patches, pending)
    return pending.flush


class Collective:
    """A collective whose calls are recorded.

    It is equal to the one it stands for: programs and torch compare them.
    """

    def __init__(
        self,
        recorder: Recorder,
        switch: Switch,
        name: str,
        original: Callable[..., Any],
        received: tuple[int, tuple[str, ...]] | None,
        pending: Pending,
    ) -> None:
        functools.update_wrapper(self, original)
        self._recorder = recorder
        self._switch = switch
        self._name = name
        self.original = original
        self._received = received
        self._pending = pending

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __copy__(self) -> Collective:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Collective:
        # As a function does, which it stands for.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, as functions are: whoever reads it may have no capture.
        return pkgutil.resolve_name, (f"{self.original.__module__}:{self.original.__qualname__}",)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the collective between two words to the recorder."""
        if _thread.is_inside or not self._switch.is_on():
            return self.original(*args, **kwargs)

        def end(begun: OpenCall, result: Any) -> None:
            buffers = self._outputs(args, kwargs)
            begun.writes(self._written(args, kwargs))
            works = result if isinstance(result, list) else [result]
            works = [work for work in works if isinstance(work, torch.distributed.Work)]
            if _thread.coalesced is not None:
                _thread.coalesced.append((begun, buffers))
            elif works:
                self._pending.add(works, begun, buffers)
            else:
                self._recorder.end(begun, buffers)

        # Those that send objects do it by other collectives, which are recorded, too.
        function = self.original if self._name in _OF_OBJECTS else _whole(self.original)
        shown = self._inputs(args, kwargs)
        return call_recorded(self._recorder, ("Distributed", self._name), function, args, kwargs, shown, end)

    def _inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments before the call, without what is only received into."""
        if self._name == "batch_isend_irecv":
            return tuple(_sent(arg) for arg in args), {name: _sent(arg) for name, arg in kwargs.items()}
        received = self._received
        if self._name == "broadcast" and not self._is_root(args, kwargs):
            received = _TENSOR
        return (args, kwargs) if received is None else _without(args, kwargs, *received)

    def _outputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The buffers after the call; what was sent has no result, nor has what others reduce to."""
        if self._name == "isend" or (self._name == "reduce" and not self._is_root(args, kwargs)):
            args, kwargs = _without(args, kwargs, *_TENSOR)
        return (*args, *kwargs.values())

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """Which of the buffers the call writes to, by their places: what it only reads is not made by it."""
        if self._name == "batch_isend_irecv":
            operations = args[0] if args else next(iter(kwargs.values()))
            return [f"0.{place}" for place, one in enumerate(operations) if _receives(one)]
        if self._name in ("broadcast", "broadcast_object_list") and self._is_root(args, kwargs):
            return []
        written = _CHANGED.get(self._name, self._received)
        if written is None:
            return []
        position, names = written
        places = [position] if position < len(args) else []
        places += [len(args) + place for place, name in enumerate(kwargs) if name in names]
        return [str(place) for place in places]

    def _is_root(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this is the rank that sends to all others, or receives from them."""
        root, root_in_group = _ROOTS[self._name]
        try:
            given = inspect.signature(self.original).bind(*args, **kwargs).arguments
            if given.get(root_in_group) is not None:
                return bool(given[root_in_group] == torch.distributed.get_rank(given.get("group")))
            return bool((given.get(root) or 0) == torch.distributed.get_rank())
        except (TypeError, ValueError, RuntimeError):
            # The collective itself will say what is wrong.
            return True


def _without(
    args: tuple[Any, ...], kwargs: dict[str, Any], position: int, names: tuple[str, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments without one of them."""
    return (
        tuple(None if place == position else arg for place, arg in enumerate(args)),
        {name: None if name in names else arg for name, arg in kwargs.items()},
    )


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A collective of which those that it is made of are not recorded."""

    def run(*args: Any, **kwargs: Any) -> Any:
        _thread.is_inside = True
        try:
            return function(*args, **kwargs)
        finally:
            _thread.is_inside = False

    return run


def _functional(
    recorder: Recorder, switch: Switch, name: str, original: Callable[..., Any]
) -> Callable[..., Any]:
    whole = _whole(original)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        if _thread.is_inside or not switch.is_on():
            return original(*args, **kwargs)
        return call_recorded(recorder, ("Distributed", name), whole, args, kwargs)

    return collective


def _coalesced(
    recorder: Recorder, switch: Switch, pending: Pending, original: Callable[..., Any]
) -> Callable[..., Any]:
    """A region whose collectives return at once, and are done together when it is left."""

    @functools.wraps(original)
    @contextlib.contextmanager
    def coalescing_manager(*args: Any, **kwargs: Any) -> Iterator[Any]:
        if _thread.is_inside or not switch.is_on():
            with original(*args, **kwargs) as manager:
                yield manager
            return
        calls: list[Unfinished] = []
        around, _thread.coalesced = _thread.coalesced, calls
        try:
            with original(*args, **kwargs) as manager:
                yield manager
        except BaseException as error:
            for call, _ in calls:
                recorder.raised(call, type(error).__name__)
            raise
        finally:
            _thread.coalesced = around
        works = [work for work in manager.works if isinstance(work, torch.distributed.Work)]
        if works:
            pending.add_together(works, calls)
        else:
            pending.end(calls)

    return coalescing_manager


def _sent(operations: Any) -> Any:
    """Messages that are exchanged together, without the tensors that are received into."""
    if not isinstance(operations, Sequence):
        return operations
    return [Received(one) if _receives(one) else one for one in operations]


def _receives(message: torch.distributed.P2POp) -> bool:
    return getattr(message.op, "__name__", "") == "irecv"


class Received:
    """A message that has not been received yet."""

    def __init__(self, operation: torch.distributed.P2POp) -> None:
        self.operation = operation


def _add_messages(patches: Patches) -> None:
    """Has messages made while calls are recorded hold what torch takes them for, then and afterwards."""
    kind = torch.distributed.P2POp
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, op: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, op.original if isinstance(op, Collective) else op, *args, **kwargs)

    patches.add(kind, "__init__", __init__)
