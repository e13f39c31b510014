"""A program of its own for ``test_classes``: classes of tensors, with and without capture.

    python capture_classes.py FOLDER

Prints, for each class, level and task, whether the numbers, and what the class was asked, are as without it.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map

import ulpscope

SETTINGS = (("L1", "statistics"), ("mix", "tensor"), ("L2", "statistics"), ("L2", "structure"))

# What the classes here were asked to do, in order, but for their sizes: for those
# a dump has to ask, too.
asked: list[str] = []
_SIZES = ("sym_size", "sym_stride", "sym_numel", "is_contiguous", "is_non_overlapping")


def _note(function: Any) -> None:
    name = str(function)
    if not any(word in name for word in _SIZES):
        asked.append(name)


class Wrapper(torch.Tensor):
    """A tensor that stands for another, as DTensor does."""

    elem: torch.Tensor
    policy: str | None

    @staticmethod
    def __new__(cls, elem: torch.Tensor, policy: str | None = None) -> Wrapper:
        made: Wrapper = torch.Tensor._make_wrapper_subclass(
            cls,
            elem.shape,
            strides=elem.stride(),
            dtype=elem.dtype,
            requires_grad=elem.requires_grad,
            dispatch_sizes_strides_policy=policy,
        )
        made.elem = elem.detach()
        made.policy = policy
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _note(func)
        own = [one for one in args if isinstance(one, Wrapper)]
        inner = tree_map(lambda one: one.elem if isinstance(one, Wrapper) else one, (args, kwargs or {}))
        made = func(*inner[0], **inner[1])
        policy = own[0].policy if own else None
        return tree_map(lambda one: Wrapper(one, policy) if isinstance(one, torch.Tensor) else one, made)


class Dispatching(torch.Tensor):
    """A tensor with memory of its own, which has a hand in every operator."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _note(func)
        with torch._C._DisableTorchDispatch():
            made = func(*args, **(kwargs or {}))
            return tree_map(
                lambda one: one.as_subclass(Dispatching) if isinstance(one, torch.Tensor) else one, made
            )


class Overriding(torch.Tensor):
    """A tensor that has a hand in every function of Python."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _note(getattr(func, "__name__", func))
        return super().__torch_function__(func, types, args, kwargs or {})


def _masked(x: torch.Tensor) -> torch.Tensor:
    from torch.masked import masked_tensor

    return masked_tensor(x.clone(), x > 0, requires_grad=True)


def _nested(x: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor([x[:2], x], layout=torch.jagged, requires_grad=True)


KINDS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "wrapper": lambda x: Wrapper(x.clone().requires_grad_()),
    "wrapper with sizes": lambda x: Wrapper(x.clone().requires_grad_(), "sizes"),
    "dispatching": lambda x: torch.Tensor._make_subclass(Dispatching, x.clone(), True),
    "overriding": lambda x: x.clone().as_subclass(Overriding).requires_grad_(),
    "masked": _masked,
    "nested": _nested,
}


def _plain(tensor: Any) -> torch.Tensor:
    """The elements that a tensor of any class has, or stands for."""
    for name in ("elem", "_values", "_masked_data"):
        tensor = vars(tensor).get(name, tensor)
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
        return tensor.detach().as_subclass(torch.Tensor).clone()


def _compute(tensor: torch.Tensor, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    made = tensor.sin() * tensor + 1
    total = (made.values() if kind == "nested" else made).sum()
    (total.get_data() if kind == "masked" else total).backward()
    return total, tensor.grad


def run(kind: str, folder: Path) -> dict[str, dict[str, bool]]:
    """Runs one class of tensors as it is, and under each of the settings."""
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    tensor = KINDS[kind](x)
    asked.clear()
    made = _compute(tensor, kind)
    expected = list(asked)
    plain = [_plain(one) for one in made]
    found = {}
    for level, task in SETTINGS:
        tensor = KINDS[kind](x)
        asked.clear()
        place = folder / f"{level}-{task}"
        with ulpscope.capture(place, level=level, task=task):
            made = _compute(tensor, kind)
        asked_now = list(asked)
        found[f"{level}-{task}"] = {
            "same numbers": all(
                torch.equal(_plain(one), other) for one, other in zip(made, plain, strict=True)
            ),
            "asked the same": asked_now == expected,
        }
    return found


def main(folder: Path) -> None:
    """Prints a line for each class as soon as it has run: where the process hangs, the last says where."""
    warnings.simplefilter("ignore")
    for kind in KINDS:
        print(json.dumps([kind, run(kind, folder / kind)]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
