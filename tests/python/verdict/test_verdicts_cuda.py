"""Verdicts on a port to another chip: a GPU against the CPU. Skipped where there is none."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from torch import Tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import ulpscope  # noqa: E402
from faults.models import MODELS, build  # noqa: E402

pytestmark = pytest.mark.gpu

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class Wrong(TorchDispatchMode):
    """A kernel that goes wrong once."""

    def __init__(self, operator: str, number: int, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._operator, self._left, self._change = operator, number, change

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func._schema.name != self._operator:
            return result
        self._left -= 1
        return self._change(result) if self._left == 0 else result


@pytest.fixture(autouse=True)
def without_tf32() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def dump(
    path: Path, model: str, seed: int, device: str, dtype: Any = torch.float32, task: str = "tensor"
) -> Path:
    program = build(model, seed)
    program.to(dtype)
    program.model.to(device)
    program.inputs, program.wanted = program.inputs.to(device), program.wanted.to(device)
    with ulpscope.capture(path, model=program.model, level="mix", task=task):
        program.step()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("model", MODELS)
def test_a_port_raises_nothing(tmp_path: Path, model: str, seed: int, task: str) -> None:
    golden = dump(tmp_path / "golden", model, seed, "cpu", task=task)
    target = dump(tmp_path / "target", model, seed, "cuda", task=task)
    assert ulpscope.compare(target, golden).divergences == []


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("model", MODELS)
def test_a_port_to_bfloat16_raises_nothing(tmp_path: Path, model: str, seed: int) -> None:
    golden = dump(tmp_path / "golden", model, seed, "cpu")
    target = dump(tmp_path / "target", model, seed, "cuda", torch.bfloat16)
    assert ulpscope.compare(target, golden).divergences == []
    with torch.autocast("cuda", torch.bfloat16):
        mixed = dump(tmp_path / "mixed", model, seed, "cuda")
    assert ulpscope.compare(mixed, golden).divergences == []


@pytest.mark.parametrize("model", ["gpt", "encoder", "moe", "unet"])
def test_tf32_is_named(tmp_path: Path, model: str) -> None:
    golden = dump(tmp_path / "golden", model, 0, "cpu")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    found = ulpscope.compare(dump(tmp_path / "target", model, 0, "cuda"), golden).divergences
    assert "as if it were computed in TF32" in found[0].why


def one_element(result: Tensor) -> Tensor:
    result = result.clone()
    result.view(-1)[result.numel() // 3] += 0.1 * result.abs().max()
    return result


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled": lambda result: result * 1.01,
    "one element": one_element,
    "rows swapped": lambda result: result.flip(0),
    "bfloat16": lambda result: result.to(torch.bfloat16).to(result.dtype),
}
# The fifth time that an operator runs, and the call it belongs to.
KERNELS = {
    ("gpt", "aten::addmm"): "Functional.linear.4.forward",
    ("gpt", "aten::bmm"): "Tensor.__matmul__.4.forward",
    ("encoder", "aten::addmm"): "Functional.linear.4.forward",
    ("convnet", "aten::convolution"): "Functional.conv2d.4.forward",
    ("convnet", "aten::relu"): "Functional.relu.4.forward",
    ("moe", "aten::mm"): "Torch.mm.3.forward",
    ("unet", "aten::convolution"): "Functional.conv2d.4.forward",
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("model", "operator"), KERNELS)
def test_a_wrong_kernel_of_a_port_is_named(tmp_path: Path, model: str, operator: str, change: str) -> None:
    golden = dump(tmp_path / "golden", model, 0, "cpu")
    with Wrong(operator, 5, CHANGES[change]):
        target = dump(tmp_path / "target", model, 0, "cuda")
    found = ulpscope.compare(target, golden).divergences
    assert [one.call for one in found] == [KERNELS[model, operator]]
