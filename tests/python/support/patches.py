"""Finds what a tool did not remove: replaced functions, anything of ours in any module, hooks, modes."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CellType, FunctionType, ModuleType
from typing import Any

import torch
import torch._dynamo
import torch.distributed
from torch import Tensor, nn
from torch.autograd.graph import Node

import ulpscope

# Places in which tools that record calls have been seen to replace things.
PLACES = (
    "torch",
    "torch.Tensor",
    "torch._C",
    "torch._C._TensorBase",
    "torch._C._nn",
    "torch._C._VariableFunctions",
    "torch._VF",
    "torch._dynamo.eval_frame",
    "torch._ops.OpOverload",
    "torch._ops.OpOverloadPacket",
    "torch.autograd",
    "torch.autograd.Function",
    "torch.autograd.function",
    "torch.autograd.graph",
    "torch.compiler",
    "torch.distributed",
    "torch.distributed.distributed_c10d",
    "torch.fft",
    "torch.func",
    "torch.linalg",
    "torch.nn.Module",
    "torch.nn.Parameter",
    "torch.nn.functional",
    "torch.nn.modules.module",
    "torch.nn.utils",
    "torch.nn.utils.clip_grad",
    "torch.optim.Optimizer",
    "torch.overrides",
    "torch.overrides.TorchFunctionMode",
    "torch.special",
    "torch.utils._python_dispatch",
    "torch.utils.checkpoint",
    "torch.utils.data.DataLoader",
    "torch.utils.data.dataloader",
    "threading",
    "threading.Thread",
    "builtins",
)


# What torch itself moves when it is used: caches and counters.
MOVING = (
    *("torch._dynamo.", "torch.compiler.", "threading._", "builtins._"),
    # Groups that were ever made. Where there is a CUDA device, each mesh of devices makes one.
    "torch.distributed.distributed_c10d._group_count",
)

# The same, of what can be called.
REMEMBERED = ("__warningregistry__", "most_recent_backend")

# Where our code is.
OURS = str(Path(ulpscope.__file__).parent)

# Types whose values are none of ours. There are half a million values to look at.
FOREIGN: set[type] = set()

Snapshot = dict[str, dict[str, Any]]


def resolve(place: str) -> Any:
    """A module or class by its name, where it is loaded."""
    if place in sys.modules:
        return sys.modules[place]
    parent, _, name = place.rpartition(".")
    return getattr(resolve(parent), name, None) if parent else None


def snapshot() -> Snapshot:
    """What hangs where. Values are compared by identity, so they are kept alive here."""
    seen: Snapshot = {}
    for place in PLACES:
        holder = resolve(place)
        if holder is not None:
            plain = hasattr(holder, "__dict__")
            seen[place] = (
                dict(vars(holder)) if plain else {name: getattr(holder, name) for name in dir(holder)}
            )
    seen["anything of ours"] = dict.fromkeys(ours_in_modules(), True)
    hooks, optimizer = nn.modules.module, sys.modules["torch.optim.optimizer"]
    names = [name for name in vars(hooks) if name.startswith("_global_") and name.endswith("hooks")]
    seen["global module hooks"] = {name: len(getattr(hooks, name)) for name in names}
    seen["state"] = {
        "function and dispatch modes of this thread": modes_of_this_thread(),
        "saved tensors hooks": saved_tensors_hooks(),
        "tracing": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        "excepthook": (sys.excepthook, threading.excepthook),
        "signal handlers": [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)],
        "optimizer hooks": (
            len(optimizer._global_optimizer_pre_hooks),
            len(optimizer._global_optimizer_post_hooks),
        ),
    }
    return seen


def ours_in_modules() -> list[str]:
    """Every name in a module, or in a class of one, that has something of capture for a value."""
    # A class is in many modules; each is looked at once.
    holders: dict[int, Any] = {}
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or str(names.get("__name__")).startswith("ulpscope"):
            continue
        holders[id(module)] = module
        holders.update((id(kind), kind) for kind in list(names.values()) if issubclass(type(kind), type))
    return [
        f"{getattr(holder, '__name__', holder)}.{name}"
        for holder in holders.values()
        if not (isinstance(holder, type) and str(holder.__module__).startswith("ulpscope"))
        # By type(): some values of torch's modules warn as soon as they are asked for their class.
        for name, value in list(vars(holder).items())
        if type(value) not in FOREIGN and is_of_capture(value)
    ]


def is_of_capture(value: Any) -> bool:
    """Whether a value is a wrapper: a function that we have defined, or an object of one of our classes.

    So is a function of somebody else around one of ours.
    """
    if type(value) in (classmethod, staticmethod):
        value = value.__func__
    if type(value) is FunctionType:
        if value.__code__.co_filename.startswith(OURS):
            return True
        inner = vars(value).get("__wrapped__")
        if inner is not None and is_of_capture(inner):
            return True
        return any(map(_is_our_function, value.__closure__ or ()))
    is_ours = str(type(value).__module__).partition(".")[0] == "ulpscope"
    if not is_ours:
        FOREIGN.add(type(value))
    return is_ours


def _is_our_function(cell: CellType) -> bool:
    try:
        held = cell.cell_contents
    except ValueError:
        return False
    return type(held) is FunctionType and held.__code__.co_filename.startswith(OURS)


def modes_of_this_thread() -> tuple[int, int]:
    """How many function modes and dispatch modes are on; of other threads only they themselves can tell."""
    return torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()


def saved_tensors_hooks() -> Any:
    """The hooks that saved tensors go through now, if any; torch before 2.6 does not tell."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return None if top is None else top(True)


def left_behind(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """What is not as it was. What was loaded in between does not count."""
    missing = object()
    for place, old_values in before.items():
        new_values = after[place]
        for name in sorted(old_values.keys() | new_values.keys()):
            old, new = old_values.get(name, missing), new_values.get(name, missing)
            if old is new or old == new or (old is missing and isinstance(new, ModuleType)):
                continue
            if (not callable(old) and f"{place}.{name}".startswith(MOVING)) or name in REMEMBERED:
                continue
            was, now = ("not there" if value is missing else f"{value!r:.80}" for value in (old, new))
            yield f"{place}.{name} was {was} and is {now}"


class Guarded(ModuleType):
    """A module of a program whose names can be replaced so many times; after that it refuses.

    It has a function of torch that capture wraps wherever it is, so it makes the next installation fail,
    until its ``with`` statement ends.
    """

    def __init__(self, error: Exception, replacements: int = 0) -> None:
        super().__init__("guarded")
        # As it is defined: torch.compile replaces torch.jit.trace by its own.
        original = sys.modules["torch.jit._trace"].trace
        vars(self).update(trace=original, original=original, error=error, left=replacements)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "trace" and value is not self.original:
            if self.left == 0:
                raise self.error
            self.left -= 1
        super().__setattr__(name, value)

    def __enter__(self) -> Guarded:
        sys.modules[self.__name__] = self
        return self

    def __exit__(self, *exception: object) -> None:
        # Negative: without end. Capture remembers modules that it has found once.
        self.left = -1
        del sys.modules[self.__name__]


def hooks_on_modules(model: nn.Module) -> dict[str, int]:
    """How many hooks each module and parameter has."""
    counts = {}
    for name, module in model.named_modules():
        for kind, value in vars(module).items():
            if kind.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called")) and value:
                counts[f"{name}.{kind}"] = len(value)
        if "forward" in vars(module):
            counts[f"{name}.forward is replaced"] = 1
    for name, parameter in model.named_parameters():
        counts.update({f"{name}: {kind}": number for kind, number in hooks_on_tensor(parameter).items()})
    return counts


def hooks_on_tensor(tensor: Tensor) -> dict[str, int]:
    """How many hooks a tensor has."""
    kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
    return {kind: len(hooks) for kind in kinds if (hooks := getattr(tensor, kind, None))}


def hooks_on_node(node: Node) -> int:
    """How many hooks a node of the autograd graph has.

    It does not tell, but the garbage collector goes through their dictionaries, where nobody else holds the
    node: neither its tensor nor another node.
    """
    held = [value for value in gc.get_referents(node) if isinstance(value, dict)]
    return sum(len(hooks) for hooks in held)
