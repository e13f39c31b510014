"""The benign changes by name: other ways to the same numbers, which are nobody's fault.

A golden run under one of them against a target without it is a pair of which nothing is to be said.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from faults.fused import LinearGelu
from faults.models import MODELS, Program
from faults.models.parts import Mlp
from faults.products import Function, summed_in_parts

_WITH_CONVOLUTIONS = ("convnet", "unet")
_WITH_ATTENTION = ("encoder", "unet")
_WITH_MLP = ("gpt", "encoder", "rnn", "moe")
# oneDNN has no LSTM in half precision. And autocast keeps one copy of a weight that is used in every step:
# the gradient of all steps is then recorded with the first of them.
_UNDER_AUTOCAST = tuple(model for model in MODELS if model != "rnn")
# Batch norm and experts take their batch as a whole.
_WITHOUT_BATCH_STATISTICS = ("gpt", "encoder", "rnn")


def _nothing(program: Program) -> None:
    pass


@dataclass(frozen=True)
class Benign:
    """What is done to a program before it runs, and what is around its run."""

    name: str
    prepare: Callable[[Program], None] = _nothing
    around: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext
    models: tuple[str, ...] = MODELS
    # Whether a few seeds are enough.
    is_slow: bool = False


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Has kernels run on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _OtherKernels(TorchFunctionMode):
    """Has other code behind some functions. Recorders see the same call as ever."""

    def __init__(self, kernel: Callable[[Function, tuple[Any, ...]], Tensor], *functions: Function) -> None:
        super().__init__()
        self._kernel, self._functions = kernel, functions

    def __torch_function__(
        self, function: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in self._functions and not kwargs:
            return self._kernel(function, args)
        return function(*args, **(kwargs or {}))


def _in_halves_of_the_batch(function: Function, args: tuple[Any, ...]) -> Tensor:
    count = 3 if function is F.scaled_dot_product_attention else 1
    halves = zip(*(arg.chunk(2) for arg in args[:count]), strict=True)
    return torch.cat([function(*half, *args[count:]) for half in halves])


def _middle(program: Program) -> tuple[nn.Module, str]:
    """The block in the middle of a model, by what has it and its name there."""
    model = program.model
    if hasattr(model, "blocks"):
        return model.get_submodule("blocks"), "1"
    return model, "middle"


def _block(program: Program) -> nn.Module:
    parent, name = _middle(program)
    return parent.get_submodule(name)


def _rename(program: Program) -> None:
    """Gives a part another name, under which torch and everyone else finds it; the code keeps the old one."""
    model = program.model
    old, new = ("blocks", "layers") if hasattr(model, "blocks") else ("middle", "bottom")
    model._modules = {new if name == old else name: part for name, part in model._modules.items()}
    # A class of the same name: only the attribute is another.
    found = property(lambda self: self._modules[new])
    model.__class__ = type(type(model).__name__, (type(model),), {old: found})


def _insert_call(program: Program) -> None:
    _block(program).register_forward_hook(lambda _, args, given: torch.mul(given, 1.0))


def _channels_last(program: Program) -> None:
    program.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    program.inputs = program.inputs.to(memory_format=torch.channels_last)


def _other_formulas(program: Program) -> None:
    for module in program.model.modules():
        if hasattr(module, "other_formula"):
            module.other_formula = True  # type: ignore[assignment]


def _fuse(program: Program) -> None:
    for module in program.model.modules():
        if isinstance(module, Mlp):
            module.fused = LinearGelu


def _checkpoint(program: Program) -> None:
    program.model.checkpointed = True


def _compile(program: Program) -> None:
    # What differs from one process to the next must not be left to caches of earlier runs.
    torch._dynamo.reset()
    _block(program).compile(backend="inductor")


def _micro_batches(program: Program) -> None:
    program.micro_batches = 2


def _ulps(program: Program) -> None:
    """Moves every parameter to one of its neighbours."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in program.model.parameters():
            up = torch.rand(parameter.shape, generator=generator) < 0.5
            parameter.copy_(torch.nextafter(parameter, torch.where(up, torch.inf, -torch.inf)))


# No change at all, and the smallest that there is, by which the floor of rounding is measured.
PLAIN = Benign("plain")
ULPS = Benign("ulps", _ulps)

BENIGN: dict[str, Benign] = {
    benign.name: benign
    for benign in (
        Benign("fp64", lambda program: program.to(torch.float64)),
        Benign("bf16", lambda program: program.to(torch.bfloat16)),
        Benign(
            "bf16-autocast",
            around=lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            models=_UNDER_AUTOCAST,
        ),
        Benign(
            "fp16-autocast",
            around=lambda: torch.autocast("cpu", dtype=torch.float16),
            models=_UNDER_AUTOCAST,
        ),
        Benign("threads", around=lambda: threads(2)),
        Benign(
            "split-batch",
            around=lambda: _OtherKernels(
                _in_halves_of_the_batch, F.linear, torch.mm, F.conv2d, F.scaled_dot_product_attention
            ),
        ),
        Benign("micro-batches", _micro_batches, models=_WITHOUT_BATCH_STATISTICS),
        Benign(
            "split-k",
            around=lambda: _OtherKernels(summed_in_parts, F.linear, torch.mm, Tensor.matmul, F.conv2d),
        ),
        Benign("sdpa-math", around=lambda: sdpa_kernel(SDPBackend.MATH), models=_WITH_ATTENTION),
        Benign("channels-last", _channels_last, models=_WITH_CONVOLUTIONS),
        Benign("compiled", _compile, is_slow=True),
        Benign("checkpointed", _checkpoint),
        Benign("renamed", _rename),
        Benign("no-op", _insert_call),
        Benign("other-formula", _other_formulas),
        Benign("fused", _fuse, models=_WITH_MLP),
    )
}
