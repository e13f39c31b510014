"""The loops of msprobe's guide, with the smallest mends that make them run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from captured import Captured
from places import SUPPORT

# As printed, tabs and spaces are mixed, and the model, the data and the loss are left to the reader.
PARTS = """
import torch
model = torch.nn.Linear(4, 2)
data_loader = [(torch.ones(3, 4), torch.zeros(3, 2)) for _ in range(2)]
"""


def printed(number: str) -> str:
    return (SUPPORT / "guides" / f"msprobe_{number}.txt").read_text()


def mended(number: str) -> str:
    return PARTS + printed(number).replace("\t", "    ").replace(
        "    #...\n", "    loss = torch.tanh(output - label).sum()\n"
    )


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    (folder / "config.json").write_text(json.dumps({"task": "statistics", "level": "L1"}))
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("number", ["2_2", "2_3"])
def test_as_printed_it_is_no_python(number: str) -> None:
    with pytest.raises(IndentationError):
        compile(printed(number), "guide", "exec")


def test_whole_forward_and_backward_passes(tmp_path: Path) -> None:
    """Each iteration is a step, below the dump path of the constructor."""
    ended = run(tmp_path, mended("2_2"))
    assert ended.returncode == 0, ended.stderr
    for step in range(2):
        calls = list(Captured(tmp_path / "dump_path", step=step).calls)
        assert calls[:3] == [
            "Functional.linear.0.forward",
            "Tensor.__sub__.0.forward",
            "Torch.tanh.0.forward",
        ]
        assert calls[-1] == "Functional.linear.0.backward"
        assert "Torch.tanh.0.backward" in calls


def test_a_part_of_the_forward_pass_with_its_backward_pass(tmp_path: Path) -> None:
    """What comes after ``forward_backward_dump_end`` is not recorded, in neither direction."""
    ended = run(tmp_path, mended("2_3"))
    assert ended.returncode == 0, ended.stderr
    for step in range(2):
        calls = list(Captured(tmp_path / "dump_path", step=step).calls)
        assert calls == ["Functional.linear.0.forward", "Functional.linear.0.backward"]


MODULE = """
import torch
import torch.nn as nn
import torch_npu  # 需安装 torch_npu
import torch.nn.functional as F
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end

torch.npu.set_device("npu:0")

class ModuleOP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(in_features=8, out_features=4)
        self.linear_2 = nn.Linear(in_features=4, out_features=2)

    def forward(self, x):
        x1 = self.linear_1(x)
        x2 = self.linear_2(x1)
        r1 = F.relu(x2)
        return r1

if __name__ == "__main__":
    module = ModuleOP()
    debugger = PrecisionDebugger(config_path='./config.json', dump_path="./dump_path", level=LEVEL)
    debugger.start(None if LEVEL == "L1" else nn.Sequential(module))
    x = torch.tanh(torch.ones(10, 8))
    module_dump(module, "MyModuleOP")
    out = module(x)
    out = module(x + 1) + out
    module_dump_end()
    loss = out.sum()
    loss.backward()
    module(x)
    debugger.stop()
    print("forward" in vars(module))
"""


@pytest.mark.parametrize("level", ["L1", "L0", "mix"])
def test_a_module_as_one_call(tmp_path: Path, level: str) -> None:
    """Between the two functions nothing but the module is recorded, in both directions; then everything."""
    ended = run(tmp_path, f"LEVEL = {level!r}\n" + MODULE)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr
    found = Captured(tmp_path / "dump_path")
    name = "Module.MyModuleOP.ModuleOP.{}.{}"
    calls = list(found.calls)
    own = [call for call in calls if "MyModuleOP" in call]
    assert own[:2] == [name.format("forward", 0), name.format("forward", 1)]
    assert set(own[2:]) == {name.format("backward", 0), name.format("backward", 1)}
    before, after = calls[: calls.index(own[0])], calls[calls.index(own[1]) + 1 :]
    assert ("Torch.tanh.0.forward" in before) == (level != "L0")
    assert ("Tensor.sum.0.forward" in after) == (level != "L0")
    assert ("Functional.relu.0.forward" in after) == (level != "L0")
    assert any("linear_1.Linear.forward" in call for call in after) == (level != "L1")
    first = found.calls[own[0]]
    assert [first[part][0]["shape"] for part in ("input_args", "output")] == [[10, 8], [10, 2]]
    assert found.calls[name.format("backward", 0)]["input"][0]["shape"] == [10, 2]
