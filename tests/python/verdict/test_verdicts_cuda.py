"""Verdicts on a port to another chip: a GPU against the CPU. Skipped where there is none."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

import ulpscope  # noqa: E402
from faults.models import MODELS, build  # noqa: E402
from one_wrong_kernel import CHANGES, KERNELS, WrongKernel  # noqa: E402

pytestmark = pytest.mark.gpu

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


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


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("model", "operator"), KERNELS)
def test_a_wrong_kernel_of_a_port_is_named(tmp_path: Path, model: str, operator: str, change: str) -> None:
    golden = dump(tmp_path / "golden", model, 0, "cpu")
    with WrongKernel(operator, 5, CHANGES[change]):
        target = dump(tmp_path / "target", model, 0, "cuda")
    found = ulpscope.compare(target, golden).divergences
    assert [one.call for one in found] == [KERNELS[model, operator]]
