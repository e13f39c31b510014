"""Collectives and messages between processes, which no function mode sees.

    begin (buffers that are only received into are left out) ──► collective ──┬──► end
                                                                 work ──► wait ┘

The results are the contents of the buffers on completion: at once, or, for an asynchronous call, when the
program waits for it, finds it complete, or its future completes.
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

# Collectives, and for each the argument that only receives, by position and name. Before the call its memory
# is uninitialised.
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

# They send pickled objects through the collectives above, which are recorded too.
_OF_OBJECTS: dict[str, tuple[int, tuple[str, ...]] | None] = {
    "broadcast_object_list": None,
    "send_object_list": None,
    "recv_object_list": (0, ("object_list",)),
    "all_gather_object": (0, ("object_list",)),
    "gather_object": (1, ("object_gather_list",)),
    "scatter_object_list": (0, ("scatter_object_output_list",)),
}

# All of the above. Some releases of torch show some of these to function modes, too.
COLLECTIVES = frozenset(_RECEIVED | _OF_OBJECTS)

# Those of torch.distributed._functional_collectives, which return a result instead of writing to a buffer.
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

# Modules of torch that compare these functions by identity: they keep the originals.
_COMPARED = ("isend", "irecv")


class _Thread(threading.local):
    """What this thread is currently inside."""

    # A recorded collective: other collectives that it calls are not recorded separately.
    is_inside = False
    # A region whose collectives run together at its end.
    coalesced: list[Unfinished] | None = None


_thread = _Thread()

# The tensor argument of those that have one.
_TENSOR = (0, ("tensor",))

# Those in which one rank sends to all others, or receives from them: the parameters for that rank, by global
# number and by number in the group.
_ROOTS = {
    "broadcast": ("src", "group_src"),
    "broadcast_object_list": ("src", "group_src"),
    "reduce": ("dst", "group_dst"),
}

# Those that modify an input, and which argument. Others write to their receive buffer, if any.
_CHANGED: dict[str, tuple[int, tuple[str, ...]]] = {
    "broadcast": _TENSOR,
    "all_reduce": _TENSOR,
    "all_reduce_coalesced": (0, ("tensors",)),
    "reduce": _TENSOR,
    "broadcast_object_list": (0, ("object_list",)),
}


def add_collectives(patches: Patches, recorder: Recorder, switch: Switch) -> Callable[[], None]:
    """Records collectives; returns a function to call before recording stops."""
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
        # Distributed tensors load it on first use, which may be later.
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

    It compares equal to the original: programs and torch compare collectives.
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
        # Copied like a function, as the original is.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # By name, like a function: the reading process may have no capture.
        return pkgutil.resolve_name, (f"{self.original.__module__}:{self.original.__qualname__}",)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the collective and records it."""
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

        # Those that send objects use other collectives, which are recorded too.
        function = self.original if self._name in _OF_OBJECTS else _whole(self.original)
        shown = self._inputs(args, kwargs)
        return call_recorded(self._recorder, ("Distributed", self._name), function, args, kwargs, shown, end)

    def _inputs(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments before the call, without receive buffers."""
        if self._name == "batch_isend_irecv":
            return tuple(_sent(arg) for arg in args), {name: _sent(arg) for name, arg in kwargs.items()}
        received = self._received
        if self._name == "broadcast" and not self._is_root(args, kwargs):
            received = _TENSOR
        return (args, kwargs) if received is None else _without(args, kwargs, *received)

    def _outputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The buffers after the call; sent tensors, and reductions to another rank, have no result."""
        if self._name == "isend" or (self._name == "reduce" and not self._is_root(args, kwargs)):
            args, kwargs = _without(args, kwargs, *_TENSOR)
        return (*args, *kwargs.values())

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """The places of the buffers that the call writes to: it does not produce those it only reads."""
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
            # The collective itself will raise the error.
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
    """A collective whose inner collectives are not recorded."""

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
    """A region whose collectives return at once, and run together at its end."""

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
    """Messages that are exchanged together, without receive buffers."""
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
    """Messages created during recording keep the original functions, as torch checks for those."""
    kind = torch.distributed.P2POp
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, op: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, op.original if isinstance(op, Collective) else op, *args, **kwargs)

    patches.add(kind, "__init__", __init__)
