"""``python -m ulpscope.compat.msprobe``: the command lines of msprobe 1.x and 26.x."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from captured import capture_of


def msprobe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope.compat.msprobe", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    for name in ("npu", "bench"):
        capture_of(tmp_path / name, lambda: torch.sin(torch.ones(3)), stack_form="by_name")
    return tmp_path


@pytest.mark.parametrize("flags", [[], ["-s", "-c", "-f"]])
def test_compare_of_the_first_release(dumps: Path, flags: list[str]) -> None:
    rank = "{}/step0/rank/{}.json"
    paths = {"npu_path": rank.format("npu", "dump"), "bench_path": rank.format("bench", "dump")}
    (dumps / "compare.json").write_text(json.dumps(paths | {"stack_path": rank.format("npu", "stack")}))
    ended = msprobe(dumps, "-f", "pytorch", "compare", "-i", "compare.json", "-o", "out", *flags)
    assert ended.returncode == 0, ended.stderr
    assert len(list((dumps / "out").glob("compare_result_*.xlsx"))) == 1
    assert bool(list((dumps / "out").glob("advisor*"))) == ("-c" not in flags)


def test_compare_of_the_current_release(dumps: Path) -> None:
    ended = msprobe(dumps, "compare", "-tp", "npu/step0", "-gp", "bench/step0", "-o", "out")
    assert ended.returncode == 0, ended.stderr
    header = next((dumps / "out").glob("compare_result*.csv")).read_text().splitlines()[0]
    assert header.startswith("NPU Name,Bench Name,")


def test_merge_result_puts_the_ranks_side_by_side(tmp_path: Path) -> None:
    for side in ("npu", "bench"):
        for rank in range(2):
            folder = tmp_path / side / "step0" / f"rank{rank}"
            capture_of(tmp_path / "one", lambda: torch.sin(torch.ones(3)) + 1)
            shutil.copytree(tmp_path / "one" / "step0" / "rank", folder)
            shutil.rmtree(tmp_path / "one")
    ended = msprobe(tmp_path, "compare", "-tp", "npu/step0", "-gp", "bench/step0", "-o", "out", "--xlsx")
    assert ended.returncode == 0, ended.stderr
    config = "api:\n- Torch.sin   # one call\ncompare_index:\n- Max diff\n- 'L2norm diff'\n"
    (tmp_path / "config.yaml").write_text(config)
    ended = msprobe(tmp_path, "merge_result", "-i", "out", "-o", "merged", "-config", "config.yaml")
    assert ended.returncode == 0, ended.stderr
    (merged,) = (tmp_path / "merged").glob("multi_ranks_compare_merge_*.xlsx")
    with zipfile.ZipFile(merged) as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    for text in ("rank0", "rank1", "Torch.sin.0.forward.output.0", "Max diff", "L2norm diff"):
        assert f">{text}<" in sheet
    assert "__add__" not in sheet


@pytest.mark.parametrize("is_finite", [True, False])
def test_overflow_check_names_the_first_call_that_is_not_finite(tmp_path: Path, is_finite: bool) -> None:
    def program() -> None:
        x = torch.relu(torch.tensor([0.0, 1.0]))
        (torch.log(x + 1 if is_finite else -x - 1) * 2).sum()

    capture_of(tmp_path / "dump", program)
    ended = msprobe(tmp_path, "overflow_check", "-i", "dump/step0", "-o", "out")
    assert ended.returncode == (0 if is_finite else 1), ended.stderr
    found = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("anomaly_analyze_*.json")]
    names = [one["op_name"] for document in found for calls in document.values() for one in calls]
    assert names == ([] if is_finite else ["Torch.log.0.forward"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "a subcommand is missing"),
        (["-f", "mindspore", "compare"], "-f takes pytorch"),
        (["-f", "pytorch", "compare", "-i", "none.json"], "none.json"),
        (["-f", "pytorch", "compare", "-i", "empty.json"], "Missing npu_path in configuration file"),
        (["run_overflow_check", "-i", "x"], "use overflow_check"),
        (["-f", "pytorch", "run_ut", "-api_info", "no_such_dump"], "no_such_dump"),
        (["-f", "pytorch", "run_ut"], "-api_info"),
        (["api_precision_compare", "-npu", "empty.json", "-gpu", "empty.json"], "API Name, DEVICE Dtype"),
        (["api_precision_compare", "-npu", "none.csv", "-gpu", "none.csv"], "none.csv"),
        (["merge_result", "-i", "x", "-o", "y"], "-config"),
        (["merge_result", "-i", "x", "-o", "y", "-config", "none.yaml"], "none.yaml"),
        (["merge_result", "-i", "x", "-o", "y", "-config", "empty.json"], "line 1: expected api:"),
        (["overflow_check"], "-i"),
        (["overflow_check", "-i", "none"], "none"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: list[str], problem: str) -> None:
    (tmp_path / "empty.json").write_text("{}")
    ended = msprobe(tmp_path, *words)
    assert ended.returncode == 2
    assert problem in ended.stderr
