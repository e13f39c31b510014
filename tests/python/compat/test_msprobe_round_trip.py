"""Dumps of msprobe's face, read by mindstudio-probe's own compare."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mindstudio
from captured import Captured
from places import SUPPORT

pytestmark = pytest.mark.peer

GUIDE = (SUPPORT / "guides" / "msprobe_2_1.txt").read_text()


def dump_with_ours(folder: Path, script: str) -> None:
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_its_compare_has_every_row_and_every_stack(tmp_path: Path) -> None:
    """Release 26.2, which reads stacks by name, too."""
    peer = mindstudio.environment()
    settings = {"task": "tensor", "dump_path": "dump", "level": "mix"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    dump_with_ours(tmp_path, GUIDE)
    rank = tmp_path / "dump" / "step0" / "rank"
    file = str(rank / "dump.json")
    mindstudio.commands(peer, [["compare", "-tp", file, "-gp", file, "-o", str(tmp_path / "out")]])
    with next((tmp_path / "out").glob("compare_result*.csv")).open(newline="") as sheet:
        rows = list(csv.DictReader(sheet))
    assert len(rows) == len(mindstudio.rows(rank))
    forward = [name for name in Captured(tmp_path / "dump").calls if ".forward" in name]
    assert sum("File " in row["NPU_Stack_Info"] for row in rows) == len(forward)


# The script of the guide without a device, and with the same numbers in both runs.
REPEATABLE = GUIDE.replace("import torch_npu  # 需安装 torch_npu\n", "").replace(
    'torch.npu.set_device("npu:0")\n', "torch.manual_seed(0)\n"
)

# Compares pairs of dumps with the function of release 1.1.1, and prints the rows of each table.
COMPARE = """
import glob, json, sys
import openpyxl
from msprobe.pytorch import compare
tables = []
for number, (npu, bench) in enumerate(json.loads(sys.argv[1])):
    stack = npu.replace("dump.json", "stack.json")
    paths = {"npu_json_path": npu, "bench_json_path": bench, "stack_json_path": stack}
    compare(paths, f"out{number}", stack_mode=True)
    (file,) = glob.glob(f"out{number}/*.xlsx")
    header, *rows = openpyxl.load_workbook(file).active.iter_rows(values_only=True)
    tables.append([dict(zip(header, row)) for row in rows])
with open("tables.json", "w") as file:
    json.dump(tables, file)
"""

# Its gradients of functions are those of the last node, its gradients of modules those of their results.
GRADIENTS = {"L1": "last_node", "L0": "arguments", "mix": "functions_last_node"}

# Torch's own Python code inside `backward`, and at level mix the tool's hooks of modules: the tool takes them
# for calls of the program.
ONLY_THEIRS = ("Torch.ones_like.", "Tensor.view_as.")


@pytest.mark.parametrize(
    ("level", "task"),
    [("L1", "statistics"), ("L1", "tensor"), ("L0", "statistics"), ("L0", "tensor"), ("mix", "tensor")],
)
def test_rows_and_stacks_are_those_of_its_own_dump(tmp_path: Path, level: str, task: str) -> None:
    """Release 1.1.1, with the keys of config.json that give its form: its functions, and its gradients."""
    peer = mindstudio.environment("1.1.1")
    (functions,) = peer.glob("lib/python*/site-packages/msprobe/pytorch/hook_module/support_wrap_ops.yaml")
    theirs = {"task": task, "dump_path": "theirs", "level": level, "rank": [], "step": [], task: {}}
    form = {"support_wrap_ops": str(functions), "parameter_gradients": False}
    form |= {"gradients": GRADIENTS[level]}
    (tmp_path / "config.json").write_text(json.dumps(theirs | form | {"dump_path": "ours"}))
    # At level mix, the tool has the backward call of a module whose inputs have no gradient first.
    inputs = ("torch.randn(10,8)", f"torch.randn(10,8, requires_grad={level == 'mix'})")
    assert inputs[0] in REPEATABLE
    dump_with_ours(tmp_path, REPEATABLE.replace(*inputs))
    (tmp_path / "config.json").write_text(json.dumps(theirs))
    python = str(peer / "bin" / "python")
    subprocess.run([python, "script.py"], cwd=tmp_path, check=True, capture_output=True)
    own, other = (f"{name}/step0/rank/dump.json" for name in ("ours", "theirs"))
    pairs = json.dumps([(own, other), (other, other)])
    compared = subprocess.run([python, "-c", COMPARE, pairs], cwd=tmp_path, capture_output=True, text=True)
    assert compared.returncode == 0, compared.stderr
    mixed, expected = json.loads((tmp_path / "tables.json").read_text())
    expected = [row for row in expected if not row["NPU Name"].startswith(ONLY_THEIRS)]
    assert len(expected) > 6
    assert [row["NPU Name"] for row in mixed] == [row["NPU Name"] for row in expected]
    for found, wanted in zip(mixed, expected, strict=True):
        assert found["Bench Name"] == wanted["Bench Name"]
        assert script_frames(found["NPU_Stack_Info"]) == script_frames(wanted["NPU_Stack_Info"])
        for column in wanted:
            if column != "NPU_Stack_Info":
                assert is_same(found[column], wanted[column]), (found["NPU Name"], column)
    assert any(script_frames(row["NPU_Stack_Info"]) for row in mixed)


def script_frames(stack: str | None) -> list[str]:
    """The frames of the script: those of the tool, of torch and of the launcher differ."""
    return re.findall(r"File [^,]*script\.py, (line \d+, in [^,]+)", stack or "")


def is_same(found: Any, wanted: Any) -> bool:
    """Equal, or numbers that differ by the rounding of float32: the tool takes statistics in it."""
    if isinstance(found, str) and isinstance(wanted, str) and found.endswith("%") and wanted.endswith("%"):
        return bool(float(found[:-1]) == pytest.approx(float(wanted[:-1]), abs=1e-3))
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return bool(found == pytest.approx(wanted, rel=1e-5, abs=1e-6))
    return bool(found == wanted)
