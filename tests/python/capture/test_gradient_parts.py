"""Gradients that come in parts: computed exactly, in little memory, and without calling a tensor subclass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from captured import Captured, capture_of


class Both(nn.Module):
    """Gives a result that it also uses itself: its gradient has a part from inside and one from outside."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 1
        return y, y * 3


def gradient_from_outside(folder: Path, x: Tensor, outside: Tensor, through: Tensor) -> Tensor:
    """What is recorded as the gradient of the first result."""
    model = nn.ModuleList([Both()])

    def program() -> None:
        y, z = model[0](x)
        torch.autograd.backward([y, z], [outside, through])

    found = capture_of(folder, program, model=model, level="L0", task="tensor", strict=True)
    return found.tensor(found.calls["Module.0.Both.backward.0"]["input"][0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize("shape", [(61, 67), (3,), (), (0, 2)], ids=str)
def test_the_part_from_inside_is_subtracted(
    tmp_path: Path, dtype: torch.dtype, is_transposed: bool, shape: tuple[int, ...]
) -> None:
    x, outside, through = torch.randn(3, *shape, dtype=dtype)
    if is_transposed:
        through = through.mT.contiguous().mT if len(shape) == 2 else through.clone()
    found = gradient_from_outside(tmp_path, x.clone().requires_grad_(), outside, through)
    # As autograd has them: each part, and their sum, is rounded; the difference of the two is not.
    inside = through * 3
    wide = torch.complex128 if dtype.is_complex else torch.float64
    assert found.dtype == dtype
    assert torch.equal(found, ((outside + inside).to(wide) - inside.to(wide)).to(dtype))


MEMORY = """
import sys, torch, ulpscope
sys.path[:0] = sys.argv[2:]
from test_gradient_parts import Both
def peak():
    # The largest size since it was last reset, in bytes.
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
model = torch.nn.ModuleList([Both()])
def growth():
    x = torch.ones(1 << 24, requires_grad=True)
    y, z = model[0](x)
    gradients = [torch.ones_like(y), torch.ones_like(z)]
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    torch.autograd.backward([y, z], gradients)
    return peak() - before
plain = growth()
with ulpscope.capture(sys.argv[1], model=model, level="L0"):
    recorded = growth()
print(recorded - plain)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux reports the peak of memory")
def test_parts_are_subtracted_in_pieces(tmp_path: Path) -> None:
    """Copies of all parts in float64 would take six times the memory of the gradient."""
    command = [sys.executable, "-c", MEMORY, str(tmp_path), str(Path(__file__).parent), *sys.path]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    gradient = 4 << 24
    assert int(ran.stdout) < 3 * gradient
    assert Captured(tmp_path).calls["Module.0.Both.backward.0"]["input"][0]["Max"] == 1.0


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(3)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_the_part_of_a_gradient_that_belongs_to_a_view(tmp_path: Path, is_transposed: bool) -> None:
    """A view that is written to has its gradient in that of its base, which may lie differently in memory."""
    model = nn.ModuleList([InPlace()])
    leaf, gradient = torch.randn(2, 8, 8)
    if is_transposed:
        gradient = gradient.t().contiguous().t()

    def program() -> None:
        base = leaf.clone().requires_grad_() * 1
        model[0](base.t()[2:5, ::2])
        base.backward(gradient)

    found = capture_of(tmp_path, program, model=model, level="L0", task="tensor", strict=True)
    recorded = found.tensor(found.calls["Module.0.InPlace.backward.0"]["input"][0])
    assert torch.equal(recorded, gradient.t()[2:5, ::2])


class Listening(torch.Tensor):
    """Hears of every operation on it."""

    heard: ClassVar[list[str]] = []

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.heard.append(str(func))
        made = super().__torch_dispatch__(func, types, args, kwargs or {})
        with torch._C._DisableTorchDispatch():
            return made.as_subclass(cls) if type(made) is Tensor else made


class Twice(nn.Module):
    """Uses its argument twice: the gradient is the sum of two parts."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 + x * 3


PROGRAMS: dict[str, Callable[[nn.Module, Tensor], None]] = {
    "added": lambda model, x: model(x).backward(torch.ones(4).as_subclass(Listening)),
    "subtracted": lambda model, x: torch.autograd.backward(
        model(x), [torch.ones(4).as_subclass(Listening), torch.ones(4).as_subclass(Listening)]
    ),
}


@pytest.mark.skipif(torch.__version__.startswith("2.1."), reason="such a class adds in its own way there")
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_class_of_tensors_hears_nothing_and_is_kept(tmp_path: Path, kind: str) -> None:
    module = Twice() if kind == "added" else Both()
    model = nn.ModuleList([module])

    def program() -> None:
        x = torch.randn(4).as_subclass(Listening).requires_grad_()
        Listening.heard.clear()
        PROGRAMS[kind](module, x)

    program()
    wanted = list(Listening.heard)
    found = capture_of(tmp_path, program, model=model, level="L0", strict=True)
    assert Listening.heard == wanted
    call = found.calls[f"Module.0.{type(module).__name__}.backward.0"]
    item = call["output"][0] if kind == "added" else call["input"][0]
    assert item["type"] == f"{__name__}.Listening"
    assert item["Max"] == (5.0 if kind == "added" else 1.0)


class Lookups(nn.Module):
    def forward(self, weight: Tensor, index: Tensor) -> Tensor:
        first = functional.embedding(index, weight, sparse=True)
        return first + functional.embedding(index, weight, sparse=True)


def test_sparse_gradients_are_added(tmp_path: Path) -> None:
    model = nn.ModuleList([Lookups()])

    def program() -> None:
        weight = torch.eye(3).requires_grad_()
        model[0](weight, torch.arange(2)).sum().backward()

    found = capture_of(tmp_path, program, model=model, level="L0", task="tensor", strict=True)
    gradient = found.tensor(found.calls["Module.0.Lookups.backward.0"]["output"][0])
    assert torch.equal(gradient, torch.tensor([[2.0] * 3, [2.0] * 3, [0.0] * 3]))
