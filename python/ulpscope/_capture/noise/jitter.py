"""A run whose inputs are changed by one unit in the last place, to measure the noise of the program.

    seed ──► up or down, element by element
    begin ──► a copy of every parameter and buffer is kept; floating-point ones are moved
    outermost call of a module ──► floating-point arguments from outside are moved, in copies
    end ──► parameters and buffers are what they were, bit for bit

A healthy program responds to such a small change with errors of the size of rounding. So the dump shows how
far a run may be from the golden without a fault: ``ulpscope compare TARGET GOLDEN --noise DUMP``. It is only
a measurement: changes to parameters during the run are discarded.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.modules import models

# The integer types with the size of an element. One unit of an 8-bit float is a tenth of the value, more than
# the rounding error of a program that computes with it: such tensors are not changed.
_BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def move(values: torch.Tensor, seed: int, name: str) -> None:
    """Replaces every element with its next larger or smaller neighbour, in place.

    Zeros stay, since a mask or padding is not a rounded number, and so do NaN and infinities. No element
    becomes one of these: if one direction leads there, the other is used.
    """
    if values.is_complex():
        values = torch.view_as_real(values)
    bits = values.view(_BITS[values.dtype])
    steps = _steps(values.shape, seed, name).to(values.device, bits.dtype)
    stays = (values == 0) | ~torch.isfinite(values)
    there = (bits + steps).view(values.dtype)
    steps = torch.where((there == 0) | ~torch.isfinite(there), -steps, steps)
    bits.add_(steps.masked_fill_(stays, 0))


def _steps(shape: torch.Size, seed: int, name: str) -> torch.Tensor:
    """1 or -1 for each element. The program's own random numbers are not touched."""
    generator = torch.Generator()
    # On the CPU torch uses only 32 bits of a seed.
    generator.manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    return torch.randint(0, 2, tuple(shape), generator=generator, dtype=torch.int8).mul_(2).sub_(1)


def _is_movable(values: torch.Tensor) -> bool:
    dtype = values.dtype.to_real() if values.dtype.is_complex else values.dtype
    # The memory of other kinds of tensors (sharded, quantized, not yet materialised) may not be theirs.
    return (
        dtype in _BITS
        and type(values) in (torch.Tensor, torch.nn.Parameter)
        and values.layout is torch.strided
        and not values.is_meta
        and not values.is_conj()
        and not values.is_neg()
        and not torch._C._functorch.is_functorch_wrapped_tensor(values)
        and not _repeats_itself(values)
    )


def _repeats_itself(values: torch.Tensor) -> bool:
    """Whether several elements share memory, as in an expanded tensor: it cannot be written to."""
    return values.layout is torch.strided and bool(torch._debug_has_internal_overlap(values) == 1)


class Jitter:
    """The changed inputs of one run."""

    def __init__(self, seed: int, note: Callable[[str], None]) -> None:
        self._seed = seed
        self._note = note
        self._is_noted = False
        self._roots: list[torch.nn.Module] = []
        self._kept: list[_Kept] = []
        self._places: set[tuple[int, str]] = set()
        self._memory: set[tuple[Any, ...]] = set()
        self._is_on = False
        self._calls = 0
        self._depth = threading.local()
        self._lock = threading.Lock()

    def begin(self, model: Any) -> None:
        """Changes the parameters and buffers of a model, unless that is done already."""
        self._is_on = True
        self._is_noted = False
        for _, root in models.roots_of(model) if model is not None else ():
            self._take(root)

    def end(self) -> None:
        """Restores every parameter and buffer."""
        self._is_on = False
        with _unseen():
            # In reverse: of two that share memory, the first was copied before either was changed.
            while self._kept:
                self._kept.pop().put_back()
        self._roots.clear()
        self._places.clear()
        self._memory.clear()
        self._calls = 0

    def add_arguments(self, patches: Patches, discovers: bool) -> None:
        """Changes the arguments of outermost modules; with ``discovers``, the modules themselves too."""
        original = patches.standing(torch.nn.Module, "__call__")

        def __call__(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not self._is_on or self._is_inside():
                return original(module, *args, **kwargs)
            self._note_seed()
            if discovers:
                self._take(module)
            args, kwargs = self._arguments(args, kwargs)
            self._depth.is_inside = True
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth.is_inside = False

        patches.add(torch.nn.Module, "__call__", __call__)

    def _note_seed(self) -> None:
        """Notes the seed in the ledger, but only once something is recorded: else a step would be empty."""
        if not self._is_noted:
            self._is_noted = True
            self._note(f"jitter {self._seed}: inputs differ by one unit in the last place, to measure noise")

    def _is_inside(self) -> bool:
        # A recomputation for a backward pass gets the same inputs as the forward pass.
        return getattr(self._depth, "is_inside", False) or torch._C._current_graph_task_id() != -1

    def _take(self, root: torch.nn.Module) -> None:
        with self._lock, _unseen():
            if any(root is known for known in self._roots):
                return
            prefix = str(len(self._roots))
            self._roots.append(root)
            for path, module in root.named_modules():
                for held in (module._parameters, module._buffers):
                    for name, values in held.items():
                        self._keep(held, name, values, f"{prefix}.{path}.{name}")

    def _keep(self, held: dict[str, Any], name: str, values: Any, where: str) -> None:
        if (id(held), name) in self._places:
            return
        self._places.add((id(held), name))
        if values is None:
            self._kept.append(_Kept(held, name, None, None))
            return
        if not _is_movable(values):
            is_plain = type(values) in (torch.Tensor, torch.nn.Parameter) and not values.is_meta
            has_content = is_plain and not _repeats_itself(values)
            self._kept.append(_Kept(held, name, values, values.detach().clone() if has_content else None))
            if values.is_floating_point() or values.is_complex():
                kind = f"{type(values).__name__} of {values.dtype}"
                self._note(f"jitter leaves {where.partition('.')[2]} as it is: a {kind}")
            return
        data = values.data
        self._kept.append(_Kept(held, name, values, data.clone()))
        memory = (data.device, data.data_ptr(), data.dtype, tuple(data.shape), data.stride())
        if memory not in self._memory:
            self._memory.add(memory)
            move(data, self._seed, where)

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        with self._lock:
            call, self._calls = self._calls, self._calls + 1
        copies: dict[int, torch.Tensor] = {}

        def copied(value: Any) -> Any:
            # Values that the program computed already differ, since their inputs do.
            if not isinstance(value, torch.Tensor) or value.grad_fn is not None or not _is_movable(value):
                return value
            if id(value) not in copies:
                copy = value.clone()
                move(copy.data, self._seed, f"argument {call}.{len(copies)}")
                copies[id(value)] = copy
            return copies[id(value)]

        with _unseen():
            changed = pytree.tree_map(copied, (args, kwargs))
        return changed if copies else (args, kwargs)


class _Kept:
    """The original content and storage of a parameter or buffer."""

    def __init__(
        self, held: dict[str, Any], name: str, tensor: torch.Tensor | None, content: torch.Tensor | None
    ) -> None:
        self._held = held
        self._name = name
        self._tensor = tensor
        self._content = content

    def put_back(self) -> None:
        self._held[self._name] = self._tensor
        if self._tensor is None or self._content is None:
            return
        data = self._tensor.data
        if data.dtype != self._content.dtype or data.shape != self._content.shape:
            self._tensor.data = self._content
        elif data.dtype in _BITS:
            # As integers: copying floats could change a signalling NaN to a quiet one.
            bits = _BITS[data.dtype]
            data.view(bits).copy_(self._content.view(bits))
        else:
            data.copy_(self._content)


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Hides these operations from all modes and recorders."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        yield
