"""torch_npu.hooks' face with a model that moves from the CPU to a GPU. Skipped where there is none."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from ulpscope.compat.torch_npu_hooks import (  # noqa: E402
    dumping,
    register_hook,
    seed_all,
    set_dump_path,
    wrap_acc_cmp_hook,
    wrap_async_datadump_hook,
)
from ulpscope.compat.torch_npu_hooks.tools import compare  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    dumping.close()


def network() -> Any:
    seed_all()
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5)
    )


def test_a_model_that_is_moved_after_it_was_registered() -> None:
    """Both parts have the same operators, with the values of their device."""
    model = network()
    register_hook(model, wrap_acc_cmp_hook, sample=False)
    inputs, labels = torch.randn(2, 3, 8, 8), torch.tensor([1, 2])
    set_dump_path("cpu.pkl")
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    model.cuda()
    inputs, labels = inputs.cuda(), labels.cuda()
    set_dump_path("gpu.pkl")
    expected = model(inputs)
    torch.nn.functional.cross_entropy(expected, labels).backward()
    compare("gpu.pkl", "cpu.pkl", "result.csv")
    dumping.close()
    with Path("result.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in Path("gpu.pkl").read_text().splitlines()]
    assert len(rows) == len(lines)
    assert all(float(row["RMSE"]) < 1e-2 for row in rows)
    (output,) = [line for line in lines if line[0].endswith("Functional_linear_forward_output")]
    assert output[1] == expected.flatten().tolist()


def test_tensors_of_the_device_are_those_at_the_time_of_the_call() -> None:
    """A tensor that is changed after the call is saved as it was."""
    x = torch.zeros(1 << 20, device="cuda")
    register_hook(torch.nn.ReLU(), wrap_async_datadump_hook, path="output")
    for _ in range(20):
        torch.neg(x)
        x += 1
    dumping.close()
    found = sorted(
        Path("output").glob("*_Torch_neg_forward_input0_*.npy"), key=lambda file: int(file.name.split("_")[0])
    )
    assert [(numpy.load(file).min(), numpy.load(file).max()) for file in found] == [(n, n) for n in range(20)]
