"""Scripts of failing calls: plain torch shows the failure, and no failure once the fault is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import ulpscope
from wrong_kernels import Wrong

# No package of ours can be imported, and the folder of the program is searched only if a script adds it.
_PLAIN = [sys.executable, "-I"]


def run(script: str, cwd: Path | None = None) -> tuple[int, str]:
    made = subprocess.run([*_PLAIN, script], capture_output=True, text=True, check=False, cwd=cwd)
    return made.returncode, made.stdout + made.stderr


def repaired(script: str, name: str, right: Tensor) -> None:
    """Puts the right result in the place of the recorded one."""
    path = Path(script).with_suffix(".safetensors")
    tensors = ulpscope.load(path)
    tensors[f"recorded.{name}"] = right
    ulpscope.save(path, tensors)


def record(dump: Path, function: Any, arguments: tuple[Tensor, ...], change: Callable[[Tensor], Any]) -> Path:
    """A call whose result is changed below the recorder."""
    with Wrong({function: change}), ulpscope.capture(dump, level="L1", task="tensor"):
        function(*arguments)
    return dump


def failing(dump: Path, out: Path, **options: Any) -> ulpscope.CheckedCall:
    (call,) = ulpscope.check(dump, output=out, **options).failed
    assert call.no_repro == ""
    assert "ulpscope" not in Path(call.repro).read_text()
    return call


def test_a_single_wrong_element_fails_in_the_script_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 512)
    # Of the whole, the error is below what rounding explains.
    dump = record(tmp_path / "dump", F.gelu, (x,), lambda y: y.view(-1)[7].add_(1e-4))
    call = failing(dump, tmp_path / "out")
    (tensor,) = call.tensors
    assert tensor.error < 3 * tensor.floor
    code, said = run(call.repro)
    assert code == 1, said
    assert "output.0 (recorded): error" in said
    repaired(call.repro, "output.0", F.gelu(x))
    assert run(call.repro)[0] == 0


def test_a_wrong_gradient_fails_until_it_is_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(8, 16), torch.randn(4, 16, requires_grad=True)
    wrong = Wrong({}, backward=F.linear)
    with wrong, ulpscope.capture(tmp_path / "dump", level="L1", task="tensor"):
        F.linear(x, weight).square().sum().backward()
    call = failing(tmp_path / "dump", tmp_path / "out")
    assert run(call.repro)[0] == 1
    assert weight.grad is not None
    repaired(call.repro, "argument.1.gradient", weight.grad / 1.001)
    assert run(call.repro)[0] == 0


def wrong_on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is wrong, and this machine is right: it computes in float32 after the device."""
    right = F.gelu
    seen: list[bool] = []

    def gelu(x: Tensor, **named: Any) -> Tensor:
        is_device = x.dtype == torch.float32 and not seen
        seen.extend([True] * is_device)
        return right(x, **named) * (1.001 if is_device else 1)

    monkeypatch.setattr(F, "gelu", gelu)


_PATCHED = """
import runpy, sys, torch
right = torch.nn.functional.gelu
def wrong(x, *more, **named):
    y = right(x, *more, **named)
    return y if y.dtype == torch.float64 else y * 1.001
if sys.argv[2] == "wrong":
    torch.nn.functional.gelu = wrong
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_what_a_device_computes_is_computed_again(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel of this machine is wrong, and nothing that was recorded is."""
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    with ulpscope.capture(tmp_path / "dump", level="L1", task=task):
        F.gelu(x)
    wrong_on_device(monkeypatch)
    call = failing(tmp_path / "dump", tmp_path / "out", device="cpu")
    assert {tensor.judged for tensor in call.tensors if tensor.status == "error"} == {"cpu"}
    for kernel, expected in (("wrong", 1), ("right", 0)):
        made = subprocess.run(
            [*_PLAIN, "-c", _PATCHED, call.repro, kernel], capture_output=True, text=True, check=False
        )
        assert made.returncode == expected, made.stdout + made.stderr
        assert "output.0 (cpu)" in made.stdout


def test_a_device_that_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.linspace(-1, 1, 64)
    with ulpscope.capture(tmp_path / "dump", level="L1", task="tensor"):
        F.gelu(x)
    wrong_on_device(monkeypatch)
    script = Path(failing(tmp_path / "dump", tmp_path / "out", device="cpu").repro)
    script.write_text(script.read_text().replace("'cpu', ", "'xpu:7', "))
    code, said = run(str(script))
    assert code == 2
    assert "the call cannot be made on xpu:7" in said


def test_infinity_where_the_exact_result_is_too_large_is_no_failure(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 20.0, 2.0], dtype=torch.float16)
    dump = record(tmp_path / "dump", torch.exp, (x,), lambda y: y[2].mul_(1.5))
    call = failing(dump, tmp_path / "out")
    assert run(call.repro)[0] == 1
    repaired(call.repro, "output.0", torch.exp(x))
    assert torch.exp(x)[1].isinf()
    assert run(call.repro)[0] == 0


def test_a_failure_by_the_standard_of_msprobe_is_shown(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(8, 256, dtype=torch.float16), torch.randn(8, 256, dtype=torch.float16)
    dump = record(tmp_path / "dump", F.linear, (x, weight), lambda y: y.mul_(1.05))
    call = failing(dump, tmp_path / "out", standard="msprobe")
    assert run(call.repro)[0] == 1
    repaired(call.repro, "output.0", F.linear(x, weight))
    assert run(call.repro)[0] == 0


_PROGRAM = """
import torch
class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = torch.nn.Linear(width, width)
        self.scale = 1.0
    def forward(self, x):
        return torch.relu(self.fc(x)) * self.scale
"""


def test_a_module_has_a_script_that_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repro_program.py").write_text(_PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    import repro_program  # type: ignore[import-not-found]

    torch.manual_seed(0)
    model, x = repro_program.Block(8), torch.randn(4, 8)
    model.scale = 1.01
    whole = torch.nn.Sequential(model)
    with ulpscope.capture(tmp_path / "dump", model=whole, level="L0", task="tensor"):
        whole(x)
    result = ulpscope.check(
        tmp_path / "dump", output=tmp_path / "out", modules=["repro_program:Block(8)", "torch.nn:Linear"]
    )
    (call,) = result.failed
    assert "Block" in call.call
    code, said = run(call.repro, cwd=tmp_path)
    assert code == 1, said
    model.scale = 1.0
    repaired(call.repro, "output.0", model(x).detach())
    assert run(call.repro, cwd=tmp_path)[0] == 0
    # As an object it cannot be imported.
    result = ulpscope.check(tmp_path / "dump", output=tmp_path / "more", modules=[repro_program.Block(8)])
    (call,) = result.failed
    assert (call.repro, call.no_repro) == (
        "",
        "the module was given as an object, and not by a name to import",
    )


def test_a_failing_call_without_a_script_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "dump" / "step0" / "rank0"
    data = folder / "dump_tensor_data"
    data.mkdir(parents=True)
    x = torch.linspace(-1, 1, 8)
    items = {}
    for name, value in (("x", x), ("y", F.silu(x) * 1.01)):
        ulpscope.save(data / f"{name}.pt", value)
        items[name] = {
            "type": "torch.Tensor",
            "dtype": "torch.float32",
            "shape": [8],
            "Max": 1.0,
            "Min": -1.0,
            "Mean": 0.0,
            "Norm": 1.0,
            "requires_grad": False,
            "data_name": f"{name}.pt",
        }
    call = {"input_args": [items["x"]], "input_kwargs": {}, "output": [items["y"]]}
    document = {"task": "tensor", "level": "L1", "data": {"NPU.npu_silu.0.forward": call}}
    (folder / "dump.json").write_text(json.dumps(document))
    words = ["check", str(tmp_path / "dump"), "-o", str(tmp_path / "out")]
    made = subprocess.run([sys.executable, "-m", "ulpscope", *words], capture_output=True, text=True)
    assert made.returncode == 1
    assert "no repro: it is no function of torch" in made.stdout
