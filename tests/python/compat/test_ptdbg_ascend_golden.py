"""The face's dumps next to the tool's own dumps of the same script (ptdbg_ascend 4.0.T2, torch 2.1, CPU)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import golden
import ulpscope

SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch.nn.functional as F
from net import Net, data
from ulpscope.compat.ptdbg_ascend import *
seed_all()
model = Net()
set_dump_path("ours")
register_hook(model, acc_cmp_dump)
x, ids, y = data()
set_dump_switch("ON", **json.loads(sys.argv[2]))
F.cross_entropy(model(x, ids), y).backward()
set_dump_switch("OFF")
"""

STEPS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from net import Net, data
from ulpscope.compat.ptdbg_ascend import *
seed_all()
model = Net()
debugger = PrecisionDebugger("ours", "dump", step=[0, 2], enable_dataloader=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = TensorDataset(*(torch.cat([data(seed)[part] for seed in (7, 8, 9, 10)]) for part in range(3)))
try:
    for x, ids, y in DataLoader(batches, batch_size=4, shuffle=False):
        optimizer.zero_grad()
        F.cross_entropy(model(x, ids), y).backward()
        optimizer.step()
except Exception as error:
    print(type(error).__name__, error)
"""

MODULE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch.nn.functional as F
from net import Net, data
from ulpscope.compat.ptdbg_ascend import *
seed_all()
model = Net()
set_dump_path("ours")
register_hook(model, acc_cmp_dump)
set_dump_switch("ON")
x, ids, y = data()
module_dump(model.conv, "MyConv")
out = model(x, ids)
module_dump_end()
F.cross_entropy(out, y).backward()
set_dump_switch("OFF")
"""

RANGE = ["Functional_relu_0_forward", "Torch_matmul_0_forward"]
CASES: dict[str, dict[str, Any]] = {
    "all_base": {},
    "stack_base": {"mode": "api_stack"},
    "filter_on": {"filter_switch": "ON"},
    "bwd_only": {"dump_mode": ["backward"]},
    "fwd_input": {"dump_mode": ["forward", "input"]},
    "summary_base": {"summary_only": True},
    "apilist": {"mode": "api_list", "api_list": ["RELU", "linear"]},
    "list": {"mode": "list", "scope": ["Functional_linear_0_forward"]},
    "range": {"mode": "range", "scope": RANGE},
    "stackmode": {"mode": "stack", "scope": RANGE},
}

# The tool reads arguments after the call: what the call changes in place has its new value by then.
AFTER_THE_CALL = {
    "Tensor_add__0_forward_input.0",
    "Functional_batch_norm_0_forward_input.1",
    "Functional_batch_norm_0_forward_input.2",
}

# Calls that the tool does not wrap, and one inside torch's own backward, which is no call of the program.
ONLY_OURS = ("Tensor_to_", "Functional_dropout_", "Torch_randn", "Torch_randint_")
ONLY_THEIRS = ("Torch_ones_like_",)


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def described(line: list[Any]) -> list[Any]:
    """A line without its values: of a stack, its name."""
    return line[:1] if line[0].endswith("_stack_info") else line[:5]


def run(script: str, tmp_path: Path, *arguments: str) -> str:
    scripts = golden.unpack("ptdbg", tmp_path) / "scripts"
    command = [sys.executable, "-c", script, str(scripts), *arguments]
    return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout


def check(ours: Path, theirs: Path) -> None:
    """Same lines in the same order: names, numbers, dtypes, shapes, values; the same arrays."""
    assert ours.name == theirs.name
    own = [line for line in lines(ours) if not line[0].startswith(ONLY_OURS)]
    other = [line for line in lines(theirs) if not line[0].startswith(ONLY_THEIRS)]
    assert [line[0] for line in own] == [line[0] for line in other]
    arrays = ours.with_suffix("")
    assert arrays.exists() == theirs.with_suffix("").exists()
    for mine, line in zip(own, other, strict=True):
        if line[0].endswith("_stack_info"):
            assert all(len(frame) == 4 and frame[1].isdecimal() for frame in mine[1])
            continue
        assert mine[1:5] == line[1:5], line[0]
        if line[0] not in AFTER_THE_CALL:
            assert mine[5] == pytest.approx(line[5], rel=1e-3, abs=1e-5), line[0]
        if arrays.exists():
            check_array(arrays / f"{line[0]}.npy", theirs.with_suffix("") / f"{line[0]}.npy")
    if arrays.exists():
        names = {line[0] for line in lines(ours) if not line[0].endswith("_stack_info")}
        assert {path.stem for path in arrays.iterdir()} == names


def check_array(ours: Path, theirs: Path) -> None:
    own, other = ulpscope.load(ours, "torch"), ulpscope.load(theirs, "torch")
    assert (own.dtype, own.shape) == (other.dtype, other.shape), ours.name
    if ours.stem not in AFTER_THE_CALL:
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-4)
    if own.dtype != torch.float32:
        assert ours.read_bytes()[:128] == theirs.read_bytes()[:128], ours.name


@pytest.mark.parametrize("case", CASES)
def test_every_line_and_array_of_the_tool_is_there_in_order(case: str, tmp_path: Path) -> None:
    run(SCRIPT, tmp_path, json.dumps(CASES[case]))
    theirs = next((tmp_path / "ptdbg" / "v4.0.T2" / "dumps" / case).rglob("*dump.pkl"))
    ours = tmp_path / "ours" / "ptdbg_dump_v4.0.T2" / "rank0" / theirs.name
    check(ours, theirs)
    assert [path.name for path in (tmp_path / "ours").iterdir()] == ["ptdbg_dump_v4.0.T2"]
    assert oct(ours.stat().st_mode & 0o777) == "0o640"
    assert oct(ours.parent.stat().st_mode & 0o777) == "0o750"


def test_steps_of_a_data_loader_end_with_the_tools_exception(tmp_path: Path) -> None:
    printed = run(STEPS, tmp_path)
    assert printed.splitlines()[-1] == "Exception ptdbg: exit after iteration [0, 2]"
    folder = tmp_path / "ours" / "ptdbg_dump_v4.0.T2"
    assert sorted(path.name for path in folder.iterdir()) == ["step0", "step2"]
    for step in ("step0", "step2"):
        own = lines(folder / step / "rank0" / "api_stack_dump.pkl")
        theirs = tmp_path / "ptdbg" / "v4.0.T2" / "dumps" / "dbg_loader" / "ptdbg_dump_v4.0.T2" / step
        other = [one for one in lines(next(theirs.rglob("*.pkl"))) if not one[0].startswith(ONLY_THEIRS)]
        own = [one for one in own if not one[0].startswith(ONLY_OURS)]
        assert len(other) > 200
        # Names with their numbers, dtypes and shapes, in order: those of the optimizer's calls in place, too.
        assert [described(one) for one in own] == [described(one) for one in other]


def test_a_module_as_one_call(tmp_path: Path) -> None:
    run(MODULE, tmp_path)
    theirs = next((tmp_path / "ptdbg" / "v4.0.T2" / "dumps" / "module_dump").rglob("*dump.pkl"))
    ours = lines(tmp_path / "ours" / "ptdbg_dump_v4.0.T2" / "rank0" / "dump.pkl")
    own = [line for line in ours if not line[0].startswith(ONLY_OURS)]
    other = [line for line in lines(theirs) if not line[0].startswith(ONLY_THEIRS)]
    assert [line[:2] + line[3:5] for line in own] == [line[:2] + line[3:5] for line in other]
