"""The scripts that the guide prints for comparing and parsing run with only the import line changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptdbg_files import write_rank

PRINTED = "from ptdbg_ascend import *"
OURS = "from ulpscope.compat.ptdbg_ascend import *"

# Without stack_mode, although the dumps have stacks.
SINGLE_CARD = """
from ptdbg_ascend import *
dump_result_param={
"npu_pkl_path": "./npu_dump/all_v2.0/rank0/api_stack_dump.pkl",
"bench_pkl_path": "./gpu_dump/all_v2.0/rank0/api_stack_dump.pkl",
"npu_dump_data_dir": "./npu_dump/all_v2.0/rank0/api_stack_dump",
"bench_dump_data_dir": "./gpu_dump/all_v2.0/rank0/api_stack_dump",
"is_print_compare_log": True
}
compare(dump_result_param, "./output")
"""

FUNCTION = """
from ptdbg_ascend import *
dump_result_param={
"npu_pkl_path": "./npu_dump/ptdbg_dump_v2.0/rank0/api_stack_dump.pkl",
"bench_pkl_path": "./gpu_dump/ptdbg_dump_v2.0/rank0/api_stack_dump.pkl",
"npu_dump_data_dir": "./npu_dump/ptdbg_dump_v2.0/rank0/api_stack_dump",
"bench_dump_data_dir": "./gpu_dump/ptdbg_dump_v2.0/rank0/api_stack_dump",
"is_print_compare_log": True
}
compare(dump_result_param, "./output", stack_mode=True)
"""

DISTRIBUTED = """
from ptdbg_ascend import *
compare_distributed('./npu_dump/ptdbg_dump_v2.0', './gpu_dump/ptdbg_dump_v2.0', './output')
"""

PARSE = """
from ptdbg_ascend import *
parse("./npu_dump/ptdbg_dump_v2.0/rank0/dump.pkl", "Torch_batch_normal_1_forward")
"""


def run(printed: str, folder: Path) -> str:
    assert printed.count(PRINTED) == 1
    (folder / "script.py").write_text(printed.replace(PRINTED, OURS), encoding="utf-8")
    command = [sys.executable, "script.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize(("script", "tag"), [(SINGLE_CARD, "all"), (FUNCTION, "ptdbg_dump")])
def test_compare(tmp_path: Path, script: str, tag: str) -> None:
    for side in ("npu", "gpu"):
        write_rank(tmp_path / f"{side}_dump/{tag}_v2.0/rank0", "api_stack_", stacks=True)
    (tmp_path / "output").mkdir()
    assert "Suspect Nodes: NA" in run(script, tmp_path)
    header = next(tmp_path.glob("output/compare_result_*.csv")).read_text().splitlines()[0]
    assert header.endswith(",Accuracy Reached or Not,Err_message,NPU_Stack_Info")
    assert len(list(tmp_path.glob("output/advisor_*.txt"))) == 1


def test_compare_distributed(tmp_path: Path) -> None:
    for side in ("npu", "gpu"):
        for rank in range(2):
            write_rank(tmp_path / f"{side}_dump/ptdbg_dump_v2.0/rank{rank}")
    (tmp_path / "output").mkdir()
    run(DISTRIBUTED, tmp_path)
    assert len(list(tmp_path.glob("output/compare_result_rank?-rank?_*.csv"))) == 2


def test_parse(tmp_path: Path) -> None:
    write_rank(tmp_path / "npu_dump/ptdbg_dump_v2.0/rank0", calls=("Torch_batch_normal_1_forward",))
    assert run(PARSE, tmp_path).count("[Torch_batch_normal_1_forward_") == 2
